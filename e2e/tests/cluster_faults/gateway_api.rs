//! Clusters without definitions of Gateway API.

use anyhow::Result;
use e2e::lab::{Installation, Kind, Object, Tenant};
use e2e::stack::DataPlane;
use serde_json::{Value, json};

const VERSION: &str = "gateway.networking.k8s.io/bundle-version";

fn kinds() -> Kind {
    Kind::new("apiextensions.k8s.io/v1", "CustomResourceDefinition")
}

/// The definitions of Gateway API that there are.
fn definitions(tenant: &Tenant) -> Result<Vec<Object>> {
    let all = tenant.lab.list(&kinds(), "", "")?;
    let found = all
        .iter()
        .filter(|one| one["spec"]["group"] == "gateway.networking.k8s.io");
    Ok(named(found, &kinds()))
}

/// Who the objects of a list are: each by itself doesn't say its kind.
fn named<'a>(list: impl Iterator<Item = &'a Value>, kind: &Kind) -> Vec<Object> {
    list.filter_map(|one| Some(kind.for_all(one["metadata"]["name"].as_str()?)))
        .collect()
}

/// Makes the definitions again, for tests that come after.
struct Defined;

impl Drop for Defined {
    fn drop(&mut self) {
        let _ = Installation::new("gateway-api", &json!({})).install(&["--only-crds"]);
    }
}

#[test]
fn gateway_api_is_defined_where_it_is_missing_and_left_where_it_is_not() -> Result<()> {
    let tenant = Tenant::install("defined", &DataPlane::EdgeProxy)?;
    tenant.explain(defines(&tenant))
}

fn defines(tenant: &Tenant) -> Result<()> {
    let lab = tenant.lab;
    let before = definitions(tenant)?;
    assert!(!before.is_empty());
    let _defined = Defined;
    // Classes of tests that are over are held by controllers that are gone.
    let kind = Kind::gateway_api("GatewayClass");
    for class in named(lab.list(&kind, "", "")?.iter(), &kind) {
        lab.change(&class, &json!({"metadata": {"finalizers": null}}))?;
    }
    before.iter().try_for_each(|definition| lab.delete(definition))?;
    before
        .iter()
        .try_for_each(|definition| lab.wait_until_gone(definition))?;

    let installation = Installation::new("gateway-api", &json!({}));
    installation.install(&["--only-crds"])?;
    let mut after = definitions(tenant)?;
    after.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<&str> = after.iter().map(|one| one.name.as_str()).collect();
    assert!(names.contains(&"httproutes.gateway.networking.k8s.io"), "{names:?}");
    assert_eq!(names.len(), 10, "{names:?}");
    for definition in &after {
        lab.wait_until_true(definition, "Established")?;
    }

    // Who has them looks after them.
    let routes = kinds().for_all("httproutes.gateway.networking.k8s.io");
    lab.change(
        &routes,
        &json!({"metadata": {"labels": {"looked-after-by": "somebody"}}}),
    )?;
    lab.delete(&kinds().for_all("udproutes.gateway.networking.k8s.io"))?;
    installation.install(&["--only-crds"])?;
    let kept: Value = lab.get(&routes)?;
    assert_eq!(kept["metadata"]["labels"]["looked-after-by"], "somebody");
    assert_eq!(kept["metadata"]["annotations"][VERSION], "v1.7.0");
    assert_eq!(definitions(tenant)?.len(), 9);
    // For the definitions to be all there again.
    for definition in definitions(tenant)? {
        lab.delete(&definition)?;
        lab.wait_until_gone(&definition)?;
    }
    Ok(())
}
