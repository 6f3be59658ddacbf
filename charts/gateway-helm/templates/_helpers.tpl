{{- define "edge.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* What is not in a namespace is named for the one that it serves: there is one controller in each. */}}
{{- define "edge.prefix" -}}
{{- $namespace := include "edge.namespace" . -}}
{{- if eq $namespace "edge-gateway-system" -}}gateway-helm{{- else -}}gateway-helm-{{ $namespace }}{{- end -}}
{{- end -}}

{{- define "edge.labels" -}}
{{ include "edge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "edge.selector" -}}
app.kubernetes.io/name: gateway-helm
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: edge-gateway
{{- end -}}

{{/* With (registry, image). */}}
{{- define "edge.image" -}}
{{- $registry := index . 0 -}}{{- $image := index . 1 -}}
{{- if and $registry $image -}}{{ $registry }}/{{ $image }}{{- else -}}{{ $image }}{{- end -}}
{{- end -}}

{{- define "edge.controllerImage" -}}
{{- if .Values.deployment.edgeGateway.image -}}
{{ .Values.deployment.edgeGateway.image }}
{{- else -}}
{{ include "edge.image" (list .Values.global.imageRegistry .Values.global.images.edgeGateway.image) }}
{{- end -}}
{{- end -}}

{{- define "edge.pullSecrets" -}}
{{- $own := .Values.deployment.edgeGateway.imagePullSecrets | default .Values.global.images.edgeGateway.pullSecrets -}}
{{- with ($own | default .Values.global.imagePullSecrets) }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Of proxies whose EdgeProxy names none. */}}
{{- define "edge.proxyImage" -}}
{{ include "edge.image" (list .Values.global.imageRegistry .Values.global.images.edgeProxy.image) }}
{{- end -}}

{{/* What the controller reads: the images that this chart knows, and over them what the values say. */}}
{{- define "edge.config" -}}
{{- $registry := .Values.global.imageRegistry -}}
{{- $cluster := dict "shutdownManager" (dict "image" (include "edge.controllerImage" .)) -}}
{{- with include "edge.image" (list $registry .Values.global.images.ratelimit.image) -}}
{{- $_ := set $cluster "rateLimitDeployment" (dict "container" (dict "image" .)) -}}
{{- end -}}
{{- if not .Values.topologyInjector.enabled -}}
{{- $_ := set $cluster "proxyTopologyInjector" (dict "disabled" true) -}}
{{- end -}}
{{- $base := dict "apiVersion" "gateway.edge/v1alpha1" "kind" "EdgeGateway" -}}
{{- $_ := set $base "provider" (dict "type" "Cluster" "cluster" $cluster) -}}
{{- toYaml (mergeOverwrite $base (deepCopy .Values.config.edgeGateway)) -}}
{{- end -}}

{{/* Whether proxies are told their zone; empty when the values or the configuration say no. */}}
{{- define "edge.injects" -}}
{{- $disabled := dig "provider" "cluster" "proxyTopologyInjector" "disabled" false .Values.config.edgeGateway -}}
{{- if and .Values.topologyInjector.enabled (not $disabled) -}}true{{- end -}}
{{- end -}}

{{/* Namespaces that the controller is bound to, its own included; empty when it watches more. */}}
{{- define "edge.watched" -}}
{{- $watch := dig "provider" "cluster" "watch" (dict) .Values.config.edgeGateway -}}
{{- if eq (dig "type" "" $watch) "Namespaces" -}}
{{- append (dig "namespaces" (list) $watch) (include "edge.namespace" .) | uniq | sortAlpha | join "," -}}
{{- end -}}
{{- end -}}

{{- define "edge.rules" -}}
- apiGroups: [""]
  resources: [configmaps, secrets, services]
  verbs: [get, list, watch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
- apiGroups: [gateway.edge]
  resources: [backends, backendtrafficpolicies, clienttrafficpolicies, edgeextensionpolicies, edgepatchpolicies, edgeproxies, httproutefilters, securitypolicies]
  verbs: [get, list, watch]
- apiGroups: [gateway.edge]
  resources: [backends/status, backendtrafficpolicies/status, clienttrafficpolicies/status, edgeextensionpolicies/status, edgepatchpolicies/status, edgeproxies/status, securitypolicies/status]
  verbs: [patch, update]
- apiGroups: [gateway.networking.k8s.io]
  resources: [backendtlspolicies, gateways, grpcroutes, httproutes, listenersets, referencegrants, tcproutes, tlsroutes, udproutes]
  verbs: [get, list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [backendtlspolicies/status, gateways/status, grpcroutes/status, httproutes/status, listenersets/status, tcproutes/status, tlsroutes/status, udproutes/status]
  verbs: [patch, update]
- apiGroups: [multicluster.x-k8s.io]
  resources: [serviceimports]
  verbs: [get, list, watch]
{{- include "edge.customRules" . }}
{{- end -}}

{{/* Kinds that the configuration names for extension services. It knows no plurals, hence all of their groups. */}}
{{- define "edge.customRules" -}}
{{- $config := .Values.config.edgeGateway -}}
{{- $managers := default list $config.extensionManagers -}}
{{- with $config.extensionManager }}{{ $managers = append $managers . }}{{ end -}}
{{- $groups := list -}}{{- $policies := list -}}
{{- range $managers }}
{{- range .resources }}{{ $groups = append $groups .group }}{{ end -}}
{{- range .backendResources }}{{ $groups = append $groups .group }}{{ end -}}
{{- range .policyResources }}{{ $groups = append $groups .group }}{{ $policies = append $policies .group }}{{ end -}}
{{- end -}}
{{- range $groups | uniq | sortAlpha }}
- apiGroups: [{{ . }}]
  resources: ["*"]
  verbs: [get, list, watch]
{{- end }}
{{- range $policies | uniq | sortAlpha }}
- apiGroups: [{{ . }}]
  resources: ["*/status"]
  verbs: [patch, update]
{{- end }}
{{- end -}}

{{/* Where fleets live. */}}
{{- define "edge.infraRules" -}}
- apiGroups: [""]
  resources: [serviceaccounts, services, configmaps]
  verbs: [create, get, list, watch, delete, deletecollection, patch]
- apiGroups: [apps]
  resources: [deployments, daemonsets]
  verbs: [create, get, list, watch, delete, deletecollection, patch]
- apiGroups: [autoscaling, policy]
  resources: [horizontalpodautoscalers, poddisruptionbudgets]
  verbs: [create, get, list, watch, delete, deletecollection, patch]
{{- if include "edge.injects" . }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- end }}
{{- end -}}

{{- define "edge.tokenRules" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end -}}

{{/* A role and who has it; with (context, kind, name, namespace, rules, account). */}}
{{- define "edge.role" -}}
{{- $ctx := index . 0 -}}{{- $kind := index . 1 -}}{{- $name := index . 2 -}}{{- $namespace := index . 3 -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "edge.labels" $ctx | nindent 4 }}
rules:
{{ index . 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "edge.labels" $ctx | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: edge-gateway
    namespace: {{ include "edge.namespace" $ctx }}
{{ end -}}
