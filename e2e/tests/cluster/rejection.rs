//! What only proxies refuse: the object that it came from says so, an Event too, nobody else notices, and the edit that
//! takes it back clears it.
//!
//! An RSA key of 1024 bits is a certificate like any other to the API, and to no proxy.

use anyhow::{Result, ensure};
use e2e::{
    lab::{Kind, PATIENCE, Tenant, Terms, condition, is, wait_for},
    stack::DataPlane,
    tls::Authority,
    traffic::Traffic,
    with_each_data_plane,
};
use serde_json::{Value, json};

with_each_data_plane! {
    a_rejected_edit_is_told_and_taken_back,
    a_rejection_by_a_proxy_of_another_replica_is_told_and_taken_back,
}

const HOST: &str = "www.example.com";

const SITE: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: front, namespace: TENANT }
spec:
  gatewayClassName: TENANT
  listeners:
    - { name: http, protocol: HTTP, port: 80 }
    - { name: https, protocol: HTTPS, port: 443, tls: { certificateRefs: [{ name: www }] } }
";

fn a_rejected_edit_is_told_and_taken_back(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("rejected-{plane}"), plane)?;
    tenant.explain(told_and_taken_back(&tenant, |_| Ok(())))
}

fn a_rejection_by_a_proxy_of_another_replica_is_told_and_taken_back(plane: &DataPlane) -> Result<()> {
    let terms = Terms {
        replicas: 2,
        ..Terms::default()
    };
    let tenant = Tenant::install_with(&format!("elsewhere-{plane}"), plane, terms)?;
    tenant.explain(told_and_taken_back(&tenant, |tenant| {
        tenant.scale(2)?;
        lead_elsewhere(tenant)
    }))
}

/// Sees to it that the fleet's one proxy is connected to a replica that doesn't lead.
fn lead_elsewhere(tenant: &Tenant) -> Result<()> {
    let connected = wait_for("the replica that the proxy is connected to", || {
        let streams = tenant.metric_by_replica("xds_streams")?;
        let connected = streams.into_iter().filter(|(_, streams)| *streams > 0.0);
        let connected: Vec<String> = connected.map(|(replica, _)| replica).collect();
        Ok(<[String; 1]>::try_from(connected).ok())
    })?;
    let [connected] = connected;
    let lease = Kind::new("coordination.k8s.io/v1", "Lease").named(&tenant.system.name, "edge-gateway-leader");
    wait_for("another replica to lead", || {
        let holder = tenant.lab.get(&lease)?["spec"]["holderIdentity"].clone();
        let holder = holder.as_str().filter(|holder| !holder.is_empty());
        if holder.is_some_and(|holder| holder.starts_with(&connected)) {
            // Nobody's, as if given up: whoever looks first takes it.
            let nobody = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
            tenant.lab.change(&lease, &nobody)?;
            return Ok(None);
        }
        // Who has lost it hears of that with its next renewal, and writes until then.
        let leading = tenant.metric_by_replica("leader")?;
        let is_over = leading.get(&connected).is_some_and(|leads| *leads == 0.0);
        Ok(holder.filter(|_| is_over).map(drop))
    })
}

fn told_and_taken_back(tenant: &Tenant, arrange: impl Fn(&Tenant) -> Result<()>) -> Result<()> {
    let lab = tenant.lab;
    let (good, next) = (Authority::new()?, Authority::new()?);
    let show = |authority: &Authority| {
        let secret = authority.secret("www", HOST)?;
        tenant.apply(&secret.replace("namespace: default", "namespace: TENANT"))
    };
    show(&good)?;
    tenant.echo()?;
    tenant.route("www", "front", HOST, "echo")?;
    tenant.apply(SITE)?;
    let gateway = tenant.object(&Kind::gateway_api("Gateway"), "front");
    let (plain, secure) = (tenant.address("front", 80)?, tenant.address("front", 443)?);
    let serves_with = |authority: &Authority| {
        wait_for("an answer over TLS", || {
            let answer = authority.get(secure, HOST, "/")?;
            Ok((answer.status == 200).then_some(()))
        })
    };
    serves_with(&good)?;
    arrange(tenant)?;
    let traffic = Traffic::gentle(plain, HOST);

    tenant.apply(&weak_secret())?;
    let told = lab.wait_until(&gateway, "to say what its proxies refuse", |gateway| {
        let programmed = on_listener(gateway, "https", "Programmed");
        programmed["status"] == "False" && programmed["reason"] == "Invalid"
    })?;
    let message = on_listener(&told, "https", "Programmed")["message"].to_string();
    ensure!(message.contains("Rejected by the data plane"), "{message}");
    // Of that listener alone.
    ensure!(is(&told, "Programmed", "True"), "{told:#}");
    ensure!(on_listener(&told, "http", "Programmed")["status"] == "True", "{told:#}");
    wait_for("one Event about it", || {
        let events = rejections(tenant)?;
        ensure!(events.len() < 2, "{events:#?}");
        Ok((!events.is_empty()).then_some(()))
    })?;
    serves_with(&good)?;
    tenant.route("other", "front", "other.example.com", "echo")?;
    tenant.wait_for_status(plain, "other.example.com", "/", 200)?;

    show(&next)?;
    lab.wait_until(&gateway, "to be programmed again", |gateway| {
        on_listener(gateway, "https", "Programmed")["status"] == "True"
    })?;
    serves_with(&next)?;
    traffic.wait_for_more(100, PATIENCE)?;
    traffic.stop_without_failure()?;
    let events = rejections(tenant)?;
    ensure!(events.len() == 1, "{events:#?}");
    Ok(())
}

fn weak_secret() -> String {
    let data = json!({
        "tls.crt": include_str!("../scenarios/weak/tls.crt"), "tls.key": include_str!("../scenarios/weak/tls.key"),
    });
    let metadata = json!({ "name": "www", "namespace": "TENANT" });
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "kubernetes.io/tls", "stringData": data,
    });
    secret.to_string()
}

fn on_listener<'a>(gateway: &'a Value, name: &str, kind: &str) -> &'a Value {
    let listeners = gateway["status"]["listeners"].as_array();
    let listener = listeners.and_then(|all| all.iter().find(|listener| listener["name"] == name));
    listener.map_or(&Value::Null, |listener| condition(&listener["conditions"], kind))
}

/// Events that tell that the proxies of a Gateway refuse something.
fn rejections(tenant: &Tenant) -> Result<Vec<Value>> {
    let mut events = tenant.lab.list(&Kind::core("Event"), &tenant.apps.name, "")?;
    events.retain(|event| event["reason"] == "RejectedByDataPlane" && event["involvedObject"]["name"] == "front");
    Ok(events)
}
