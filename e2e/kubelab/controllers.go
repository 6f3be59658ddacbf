package main

// What a cluster has beside Kubernetes itself: a scheduler (here: everything goes to the one node), a controller
// that gives LoadBalancer Services addresses, and the manifests applied at start.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
)

func startControllers(ctx context.Context, client kubernetes.Interface, config *Config) error {
	pending := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", "").String()
	}))
	bindPod := func(o any) {
		if p := o.(*corev1.Pod); len(p.Spec.SchedulingGates) == 0 && p.DeletionTimestamp == nil && p.Spec.NodeName == "" {
			go bindToNode(ctx, client, p)
		}
	}
	if _, err := pending.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: bindPod, UpdateFunc: func(_, o any) { bindPod(o) }}); err != nil {
		return err
	}
	pending.Start(ctx.Done())

	all := informers.NewSharedInformerFactory(client, 0)
	lb := &loadBalancers{client: client, used: map[int]string{}}
	services := all.Core().V1().Services()
	if _, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { lb.sync(ctx, o.(*corev1.Service)) }, UpdateFunc: func(_, o any) { lb.sync(ctx, o.(*corev1.Service)) },
		DeleteFunc: func(o any) {
			if k, err := cache.DeletionHandlingMetaNamespaceKeyFunc(o); err == nil {
				lb.free(k)
			}
		},
	}); err != nil {
		return err
	}
	d, err := newDNS(config.Hosts, services, all.Discovery().V1().EndpointSlices())
	if err != nil {
		return err
	}
	all.Start(ctx.Done())
	return d.start()
}

func bindToNode(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) {
	b := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	for {
		err := client.CoreV1().Pods(p.Namespace).Bind(ctx, b, metav1.CreateOptions{})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		time.Sleep(time.Second)
	}
}

// loadBalancers assigns the n-th address of lbCIDR4 and lbCIDR6 to a Service; kube-proxy does the rest.
type loadBalancers struct {
	mu     sync.Mutex
	client kubernetes.Interface
	used   map[int]string // number → namespace/name
	next   int
}

func (l *loadBalancers) number(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, k := range l.used {
		if k == key {
			return n
		}
	}
	for { // do not hand an address out again at once: clients may still have connections to its last owner
		l.next = l.next%60000 + 1
		if l.next%256 != 0 && l.next%256 != 255 && l.used[l.next] == "" {
			l.used[l.next] = key
			return l.next
		}
	}
}

func (l *loadBalancers) free(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, k := range l.used {
		if k == key {
			delete(l.used, n)
		}
	}
}

func (l *loadBalancers) sync(ctx context.Context, s *corev1.Service) {
	key := s.Namespace + "/" + s.Name
	var want []corev1.LoadBalancerIngress
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil && s.DeletionTimestamp == nil {
		n := l.number(key)
		vip := corev1.LoadBalancerIPModeVIP
		for _, f := range s.Spec.IPFamilies {
			ip := nth(lbCIDR4, n)
			if f == corev1.IPv6Protocol {
				ip = nth(lbCIDR6, n)
			} else if s.Spec.LoadBalancerIP != "" {
				ip = s.Spec.LoadBalancerIP
			}
			want = append(want, corev1.LoadBalancerIngress{IP: ip, IPMode: &vip})
		}
	} else {
		l.free(key)
		if s.Spec.LoadBalancerClass != nil {
			return // somebody else's
		}
	}
	if slices.EqualFunc(want, s.Status.LoadBalancer.Ingress, func(a, b corev1.LoadBalancerIngress) bool { return a.IP == b.IP }) {
		return
	}
	s = s.DeepCopy()
	s.Status.LoadBalancer.Ingress = want
	if _, err := l.client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		fmt.Fprintf(os.Stderr, "kubelab: load balancer of %s: %v\n", key, err)
		time.AfterFunc(time.Second, func() {
			if s, err := l.client.CoreV1().Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{}); err == nil {
				l.sync(ctx, s)
			}
		})
	}
}

// ---- manifests

// manifestFiles resolves an entry of crds: or apply:.
func manifestFiles(entry string) ([]string, error) {
	st, err := os.Stat(entry)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{entry}, nil
	}
	files, err := filepath.Glob(filepath.Join(entry, "*.yaml"))
	sort.Strings(files)
	return slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "kustomization.yaml" }), err
}

// applyAll applies crds: and waits until they are served, then apply:.
func applyAll(ctx context.Context, rc *rest.Config, config *Config) error {
	client, err := dynamic.NewForConfig(rc)
	if err != nil {
		return err
	}
	kc, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return err
	}
	for _, entries := range [][]string{config.CRDs, config.Apply} {
		mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(kc.Discovery()))
		for _, e := range entries {
			files, err := manifestFiles(e)
			if err != nil {
				return err
			}
			for _, f := range files {
				if err := applyFile(ctx, client, mapper, f); err != nil {
					return fmt.Errorf("%s: %w", f, err)
				}
			}
		}
	}
	return nil
}

func applyFile(ctx context.Context, client dynamic.Interface, mapper *restmapper.DeferredDiscoveryRESTMapper, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(b), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := dec.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(o.Object) == 0 {
			continue
		}
		gvk := o.GroupVersionKind()
		m, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return err
		}
		var r dynamic.ResourceInterface = client.Resource(m.Resource)
		if m.Scope.Name() == "namespace" {
			ns := o.GetNamespace()
			if ns == "" {
				ns = "default"
			}
			r = client.Resource(m.Resource).Namespace(ns)
		}
		if _, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "kubelab", Force: true}); err != nil {
			return fmt.Errorf("%s %s: %w", gvk.Kind, o.GetName(), err)
		}
		if gvk.Kind == "CustomResourceDefinition" {
			if err := poll(ctx, o.GetName(), func() error {
				got, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
				if err != nil {
					return err
				}
				conds, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
				for _, c := range conds {
					if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
						return nil
					}
				}
				return errors.New("not established")
			}); err != nil {
				return err
			}
		}
	}
}
