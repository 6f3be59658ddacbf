//! Limits that count for all proxies together: the real service, as the controller makes it, with a real Redis.

use crate::inspection::edgectl;
use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::{
    http::{self, Request, Response},
    lab::{Kind, Tenant, Terms, is_rolled_out, wait_for},
    stack::DataPlane,
    with_each_data_plane,
};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use serde_json::json;
use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream},
    sync::Arc,
};

with_each_data_plane! {
    what_all_proxies_have_let_through_counts,
}

/// A Redis server of the tenant's, as Service `redis`.
const REDIS: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: redis, namespace: TENANT }
spec:
  selector: { matchLabels: { app: redis } }
  template:
    metadata: { labels: { app: redis } }
    spec:
      containers:
        - name: redis
          image: redis:test
          readinessProbe: { tcpSocket: { port: 6379 }, periodSeconds: 1 }
---
apiVersion: v1
kind: Service
metadata: { name: redis, namespace: TENANT }
spec:
  selector: { app: redis }
  ports: [{ name: redis, port: 6379 }]
";

/// So many requests an hour for each user.
fn policy(requests: u32) -> String {
    format!(
        "
apiVersion: gateway.edge/v1alpha1
kind: BackendTrafficPolicy
metadata: {{ name: limits, namespace: TENANT }}
spec:
  targetRefs: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: www }}]
  rateLimit:
    global:
      rules:
      - clientSelectors: [{{ headers: [{{ name: x-user, type: Distinct }}] }}]
        limit: {{ requests: {requests}, unit: Hour }}
"
    )
}

fn asks(address: SocketAddr, user: &str) -> Result<Response> {
    let request = Request {
        headers: &[("x-user", user)],
        ..Request::get("www.example.com", "/")
    };
    http::send(address, &request)
}

fn what_all_proxies_have_let_through_counts(plane: &DataPlane) -> Result<()> {
    let name = format!("limited-{plane}");
    let rate_limit =
        format!("{{ backend: {{ type: Redis, redis: {{ url: 'redis.{name}.svc:6379' }} }}, failClosed: true }}");
    let terms = Terms {
        rate_limit: Some(&rate_limit),
        ..Terms::default()
    };
    let tenant = Tenant::install_with(&name, plane, terms)?;
    tenant.explain(counts(&tenant))
}

fn counts(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.set_proxies(&json!({"provider": {"cluster": {"envoyDeployment": {"replicas": 2}}}}))?;
    tenant.apply(REDIS)?;
    tenant.front()?;
    let address = tenant.address("front", 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200)?;
    let service = Kind::new("apps/v1", "Deployment").named(&tenant.system.name, "edge-ratelimit");
    lab.wait_until(&service, "to be ready", |service| is_rolled_out(service, 1))?;

    // Three for each user, whichever proxy is asked. Proxies refuse until the service has been told of the limit.
    tenant.apply(&policy(3))?;
    let limit_of = |user: &str| -> Result<u32> {
        let mut passed = 0;
        loop {
            let answer = asks(address, user)?;
            match answer.status {
                200 => passed += 1,
                429 => return Ok(passed),
                other => anyhow::bail!("{other}: {answer:?}"),
            }
            ensure!(passed < 100, "nobody counts");
        }
    };
    let mut users = (0..).map(|n| format!("user-{n}"));
    let mut wait_for_limit = |requests: u32| {
        wait_for(&format!("a limit of {requests}"), || {
            let user = users.next().context("no user is left")?;
            Ok(limit_of(&user).ok().filter(|passed| *passed == requests))
        })
    };
    wait_for_limit(3)?;
    answers_nobody_but_proxies(tenant)?;
    let (ann, bob) = ("ann", "bob");
    ensure!(limit_of(ann)? == 3);
    ensure!(limit_of(bob)? == 3, "each user has a count of its own");
    ensure!(asks(address, ann)?.status == 429);

    // An edit is told to the service, not to be waited for by a restart.
    tenant.apply(&policy(5))?;
    wait_for_limit(5)?;
    let shown = edgectl(tenant, &["config", "envoy-ratelimit"])?;
    let shown = String::from_utf8_lossy(&shown);
    ensure!(shown.contains("requests_per_unit=5"), "{shown}");

    // Nobody counts: `failClosed` refuses until the service is back.
    let runs = |replicas: u32| lab.change(&service, &json!({"spec": {"replicas": replicas}}));
    runs(0)?;
    wait_for("a refusal for want of the service", || {
        Ok((asks(address, "carl")?.status == 500).then_some(()))
    })?;
    runs(1)?;
    wait_for_limit(5)?;

    // The policy goes, and with it the limit.
    lab.delete(&Kind::edge("BackendTrafficPolicy").named(&tenant.apps.name, "limits"))?;
    wait_for("the end of the limit", || {
        Ok((asks(address, ann)?.status == 200).then_some(()))
    })
}

/// Whoever else reaches the service could use up what tenants may ask for.
fn answers_nobody_but_proxies(tenant: &Tenant) -> Result<()> {
    let (lab, system) = (tenant.lab, &*tenant.system.name);
    let service = lab.get(&Kind::core("Service").named(system, "edge-ratelimit"))?;
    let address: IpAddr = service["spec"]["clusterIP"].as_str().context("no address")?.parse()?;
    let proxies = lab.get(&Kind::core("Secret").named(system, "edge"))?;
    let file =
        |name: &str| -> Result<Vec<u8>> { Ok(STANDARD.decode(proxies["data"][name].as_str().context("no file")?)?) };
    let authorities = file("ca.crt")?;
    let greeting = |shown| {
        greeting(
            (address, 8081).into(),
            &format!("edge-ratelimit.{system}"),
            &authorities,
            shown,
        )
    };
    greeting(Some((file("tls.crt")?, file("tls.key")?))).context("as a proxy")?;
    let refusal = greeting(None).err().context("a stranger is answered")?.to_string();
    ensure!(refusal.contains("CertificateRequired"), "{refusal}");

    // It counts for whoever posts JSON, too, and shows what it counts.
    for pod in lab.list(&Kind::core("Pod"), system, "app.kubernetes.io/name=edge-ratelimit")? {
        let Some(pod) = pod["status"]["podIP"].as_str() else {
            continue;
        };
        for port in [8080, 6070] {
            let reached = TcpStream::connect((pod, port));
            ensure!(reached.is_err(), "{pod}:{port} is open");
        }
    }
    Ok(())
}

/// Connects as somebody who trusts these authorities, and waits until the server speaks.
fn greeting(address: SocketAddr, name: &str, trusted: &[u8], shown: Option<(Vec<u8>, Vec<u8>)>) -> Result<()> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(trusted) {
        roots.add(authority?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?;
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(OfAuthority(verifier)));
    let mut client = match shown {
        None => client.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(&chain).collect::<Result<_, _>>()?;
            client.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(&key)?)?
        }
    };
    client.alpn_protocols = vec![b"h2".to_vec()];
    let connection = ClientConnection::new(Arc::new(client), ServerName::try_from(name.to_owned())?)?;
    let mut stream = StreamOwned::new(connection, http::connect(address)?);
    // Settings, which a server answers with its own (RFC 9113 §3.4).
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
    Ok(stream.read_exact(&mut [0; 9])?)
}

/// Verifies whose certificate it is, and no name: `*.<namespace>` is none to this library.
#[derive(Debug)]
struct OfAuthority(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for OfAuthority {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(leaf, chain, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
