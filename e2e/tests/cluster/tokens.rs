//! Who gets a fleet's configuration, by the word of a real API server: the proxies of that fleet and nobody else.

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::{
    lab::{Kind, Object, Tenant, Terms},
    process::wait_for,
    stack::DataPlane,
};
use envoy_types::pb::envoy::{
    config::core::v3::Node,
    service::discovery::v3::{
        DeltaDiscoveryRequest, aggregated_discovery_service_client::AggregatedDiscoveryServiceClient,
    },
};
use futures_util::StreamExt as _;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;
use tonic::{
    Code, Request, Status,
    transport::{Certificate, ClientTlsConfig, Endpoint, Identity},
};

const CLUSTERS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// Tokens of a pod that is deleted.
const TRIES: usize = 50;

/// A pod that needs no image: what counts is that it is there.
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: { name: bound, namespace: SYSTEM }
spec:
  serviceAccountName: ACCOUNT
  containers: [{ name: none, image: none:none }]
";

#[test]
fn a_fleet_goes_only_to_who_proves_it() -> Result<()> {
    let tenant = Tenant::install("tokens", &DataPlane::EdgeProxy)?;
    tenant.explain(goes_to_its_proxies(&tenant))
}

fn goes_to_its_proxies(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.front()?;
    tenant.gateway("side", None)?;
    tenant.address("front", 80)?;
    tenant.address("side", 80)?;
    let asker = Asker::new(tenant, "front")?;
    let account = account_of(tenant, "front", &tenant.system.name)?;
    let own = lab.token(&account, &asker.audience, None)?;
    asker.ask(Some(&own), Shown::Certificate)?;

    let other = account_of(tenant, "side", &tenant.system.name)?;
    let other = lab.token(&other, &asker.audience, None)?;
    asker.is_refused(
        Some(&other),
        Shown::Certificate,
        Code::PermissionDenied,
        "not the one of the fleet",
    )?;
    let wrong = lab.token(&account, "somebody-else", None)?;
    asker.is_refused(Some(&wrong), Shown::Certificate, Code::Unauthenticated, "audience")?;
    asker.is_refused(None, Shown::Certificate, Code::Unauthenticated, "must show the token")?;
    asker.is_refused(
        Some(&own),
        Shown::Nothing,
        Code::Unauthenticated,
        "must show a client certificate",
    )?;
    asker.is_refused(
        Some("no.such.token"),
        Shown::Certificate,
        Code::Unauthenticated,
        "proves nothing",
    )?;

    // The one that holds is taken, so that it is its end for which the other isn't.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let fresh = lab.forged_token(&account, &asker.audience, now + 1800)?;
    asker.ask(Some(&fresh), Shown::Certificate)?;
    let expired = lab.forged_token(&account, &asker.audience, now - 1800)?;
    asker.is_refused(Some(&expired), Shown::Certificate, Code::Unauthenticated, "expired")?;

    ends_with_its_pod(tenant, &asker, &account)
}

/// A token that is bound to a pod proves nothing once the pod is gone.
fn ends_with_its_pod(tenant: &Tenant, asker: &Asker<'_>, account: &Object) -> Result<()> {
    let lab = tenant.lab;
    let system = &tenant.system.name;
    lab.apply(&POD.replace("SYSTEM", system).replace("ACCOUNT", &account.name))?;
    let pod = Kind::core("Pod").named(system, "bound");
    let token = || lab.token(account, &asker.audience, Some(&pod));
    let mut later: Vec<String> = (0..TRIES).map(|_| token()).collect::<Result<_>>()?;
    asker.ask(Some(&token()?), Shown::Certificate)?;
    lab.delete(&pod)?;
    lab.wait_until_gone(&pod)?;
    // The API server hears of it in its own time, and what it has said of a token holds for a while: each is tried
    // once.
    let (refusal, _) = wait_for("a token to end with its pod", e2e::lab::PATIENCE, || {
        let token = later.pop().context("all were taken")?;
        Ok(asker.answer(Some(&token), Shown::Certificate)?.err())
    })?;
    asker.is_told(&refusal, Code::Unauthenticated, "proves nothing")
}

#[test]
fn beside_its_gateway_a_fleet_goes_only_to_who_proves_it_by_a_token() -> Result<()> {
    let terms = Terms {
        deploy: Some("{ type: GatewayNamespace }"),
        ..Terms::default()
    };
    let tenant = Tenant::install_with("tokens-beside", &DataPlane::EdgeProxy, terms)?;
    tenant.explain(goes_by_token(&tenant))
}

fn goes_by_token(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.front()?;
    tenant.address("front", 80)?;
    let asker = Asker::new(tenant, "front")?;
    let account = account_of(tenant, "front", &tenant.apps.name)?;
    let own = lab.token(&account, &asker.audience, None)?;
    asker.ask(Some(&own), Shown::Nothing)?;
    let default = Kind::core("ServiceAccount").named(&tenant.apps.name, "default");
    let default = lab.token(&default, &asker.audience, None)?;
    asker.is_refused(
        Some(&default),
        Shown::Nothing,
        Code::PermissionDenied,
        "not the one of the fleet",
    )?;
    let wrong = lab.token(&account, "somebody-else", None)?;
    asker.is_refused(Some(&wrong), Shown::Nothing, Code::Unauthenticated, "audience")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let expired = lab.forged_token(&account, &asker.audience, now - 1800)?;
    asker.is_refused(Some(&expired), Shown::Nothing, Code::Unauthenticated, "expired")?;
    asker.is_refused(None, Shown::Certificate, Code::Unauthenticated, "must show the token")
}

/// The ServiceAccount of a Gateway's fleet.
fn account_of(tenant: &Tenant, gateway: &str, namespace: &str) -> Result<Object> {
    let kind = Kind::core("ServiceAccount");
    let labels = match namespace == tenant.system.name {
        true => format!(
            "gateway.edge/owning-gateway-namespace={},gateway.edge/owning-gateway-name={gateway}",
            tenant.apps.name
        ),
        false => format!("gateway.networking.k8s.io/gateway-name={gateway}"),
    };
    let found = tenant.lab.list(&kind, namespace, &labels)?;
    ensure!(found.len() == 1, "{} accounts of {gateway}", found.len());
    let name = found[0]["metadata"]["name"]
        .as_str()
        .context("an account without a name")?;
    Ok(kind.named(namespace, name))
}

/// What is shown beside a token.
#[derive(Clone, Copy)]
enum Shown {
    /// The certificate that proxies have.
    Certificate,
    /// None.
    Nothing,
}

/// Asks the controller for a fleet's configuration, as a proxy does.
struct Asker<'a> {
    tenant: &'a Tenant,
    runtime: Runtime,
    server: String,
    authority: Certificate,
    identity: Identity,
    fleet: String,
    audience: String,
}

impl<'a> Asker<'a> {
    fn new(tenant: &'a Tenant, gateway: &str) -> Result<Self> {
        let system = &tenant.system.name;
        let service = tenant.lab.get(&Kind::core("Service").named(system, "edge-gateway"))?;
        let address = service["spec"]["clusterIP"].as_str().context("no address")?;
        let secret = tenant.lab.get(&Kind::core("Secret").named(system, "edge"))?;
        let file = |name: &str| -> Result<Vec<u8>> {
            let text = secret["data"][name].as_str();
            Ok(STANDARD.decode(text.with_context(|| format!("no {name} among the proxies' certificates"))?)?)
        };
        Ok(Self {
            tenant,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            server: format!("https://{address}:18000"),
            authority: Certificate::from_pem(file("ca.crt")?),
            identity: Identity::from_pem(file("tls.crt")?, file("tls.key")?),
            fleet: format!("{}/{gateway}", tenant.apps.name),
            audience: format!("edge-gateway.{system}.svc.cluster.local"),
        })
    }

    /// Shows a token and a certificate. Gives an error if that isn't enough.
    fn ask(&self, token: Option<&str>, shown: Shown) -> Result<()> {
        self.answer(token, shown)?.context("it was refused")
    }

    /// They aren't enough, which the asker is told and the log tells.
    fn is_refused(&self, token: Option<&str>, shown: Shown, code: Code, words: &str) -> Result<()> {
        let Err(refusal) = self.answer(token, shown)? else {
            bail!("it was taken, where {words:?} was expected");
        };
        self.is_told(&refusal, code, words)
    }

    fn is_told(&self, refusal: &Status, code: Code, words: &str) -> Result<()> {
        ensure!(refusal.code() == code && refusal.message().contains(words), "{refusal}");
        self.tenant
            .wait_for_log(&format!("a proxy is refused: {}", refusal.message()))
    }

    fn answer(&self, token: Option<&str>, shown: Shown) -> Result<Result<(), Status>> {
        let mut tls = ClientTlsConfig::new()
            .domain_name("edge-gateway")
            .ca_certificate(self.authority.clone());
        if let Shown::Certificate = shown {
            tls = tls.identity(self.identity.clone());
        }
        let endpoint = Endpoint::from_shared(self.server.clone())?.tls_config(tls)?;
        let first = DeltaDiscoveryRequest {
            node: Some(Node {
                id: "asker".to_owned(),
                cluster: self.fleet.clone(),
                ..Node::default()
            }),
            type_url: CLUSTERS.to_owned(),
            ..DeltaDiscoveryRequest::default()
        };
        let requests = futures_util::stream::iter([first]).chain(futures_util::stream::pending());
        let mut request = Request::new(requests);
        if let Some(token) = token {
            let header = format!("Bearer {token}").parse()?;
            request.metadata_mut().insert("authorization", header);
        }
        self.runtime.block_on(async {
            let mut client = AggregatedDiscoveryServiceClient::new(endpoint.connect().await?);
            let mut responses = match client.delta_aggregated_resources(request).await {
                Ok(response) => response.into_inner(),
                Err(refusal) => return Ok(Err(refusal)),
            };
            let first = tokio::time::timeout(e2e::lab::PATIENCE, responses.message()).await?;
            Ok(first.map(drop))
        })
    }
}
