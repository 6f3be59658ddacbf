//! Objects that several fleets ask for under one name: an account may be shared, all else is one fleet's alone.

use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, Tenant, condition, wait_for},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::{Value, json};

with_each_data_plane! {
    an_account_that_fleets_share_goes_with_the_last_of_them,
    of_fleets_that_ask_for_one_name_one_gets_it,
}

fn an_account_that_fleets_share_goes_with_the_last_of_them(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("shared-{plane}"), plane)?;
    tenant.explain(share(&tenant))
}

fn share(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    tenant.set_proxies(&json!({"provider": {"cluster": {"envoyServiceAccount": {"name": "shared"}}}}))?;
    tenant.front()?;
    let first = tenant.address("front", 80)?;
    tenant.wait_for_status(first, "www.example.com", "/", 200)?;
    let account = Kind::core("ServiceAccount").named(&tenant.system.name, "shared");
    let is_of = |account: &Value, gateway: &str| {
        account["metadata"]["annotations"]["gateway.edge/fleet"] == format!("{}/{gateway}", tenant.apps.name)
    };
    let made = lab.get(&account)?;
    ensure!(
        is_of(&made, "front") && made["metadata"]["ownerReferences"].is_null(),
        "{made}"
    );

    let other = tenant.gateway("other", None)?;
    tenant.route("other", "other", "other.example.com", "echo")?;
    let address = tenant.address("other", 80)?;
    tenant.wait_for_status(address, "other.example.com", "/", 200)?;
    let proxies = tenant.proxies("other")?;
    lab.delete(&tenant.object(&Kind::gateway_api("Gateway"), "front"))?;
    lab.wait_until(&account, "to go over to the other fleet", |account| {
        is_of(account, "other")
    })?;
    // The tokens of its pods are still worth something.
    tenant.scale(0)?;
    tenant.scale(1)?;
    tenant.route("later", "other", "later.example.com", "echo")?;
    tenant.wait_for_status(address, "later.example.com", "/", 200)?;
    ensure!(tenant.proxies("other")? == proxies, "proxies were replaced");
    lab.delete(&other)?;
    lab.wait_until_gone(&account)
}

fn of_fleets_that_ask_for_one_name_one_gets_it(plane: &DataPlane) -> Result<()> {
    let tenant = Tenant::install(&format!("names-{plane}"), plane)?;
    tenant.explain(compete(&tenant, plane))
}

fn compete(tenant: &Tenant, plane: &DataPlane) -> Result<()> {
    let lab = tenant.lab;
    tenant.echo()?;
    let cluster = json!({
        "envoyDeployment": {"container": {"image": plane.image()}},
        "envoyService": {"name": "taken"},
    });
    let mut gateways = Vec::new();
    for name in ["one", "two"] {
        gateways.push(tenant.gateway_with(name, &json!({"provider": {"type": "Cluster", "cluster": cluster}}))?);
    }
    let programmed = |gateway: &Value| condition(&gateway["status"]["conditions"], "Programmed").clone();
    let (winner, loser) = wait_for("one Gateway to have the Service, and the other to say so", || {
        let seen = gateways.iter().map(|gateway| Ok(programmed(&lab.get(gateway)?)));
        let seen = seen.collect::<Result<Vec<Value>>>()?;
        let has = |n: usize| seen[n]["status"] == "True";
        let says = |n: usize| {
            let message = seen[n]["message"].as_str().unwrap_or_default();
            message.contains("/taken exists and is not of this Gateway")
        };
        Ok(match (has(0) && says(1), has(1) && says(0)) {
            (true, _) => Some((&gateways[0], &gateways[1])),
            (_, true) => Some((&gateways[1], &gateways[0])),
            _ => None,
        })
    })?;
    let service = Kind::core("Service").named(&tenant.system.name, "taken");
    let uid = |service: &Value| service["metadata"]["uid"].as_str().map(str::to_owned);
    let of_winner = uid(&lab.get(&service)?).context("no Service")?;
    lab.delete(winner)?;
    lab.wait_until_true(loser, "Programmed")?;
    let of_loser = uid(&lab.get(&service)?);
    ensure!(
        of_loser.is_some_and(|uid| uid != of_winner),
        "it has the other's Service"
    );
    let address = tenant.address(&loser.name, 80)?;
    tenant.wait_for_status(address, "www.example.com", "/", 200).map(drop)
}
