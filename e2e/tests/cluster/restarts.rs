//! Containers of a proxy's pod that hang, and are started again while their pod goes on.

use anyhow::{Context, Result, ensure};
use e2e::{
    lab::{Kind, Tenant},
    stack::DataPlane,
    with_each_data_plane,
};
use serde_json::Value;

with_each_data_plane! {
    a_shutdown_manager_that_hangs_leaves_its_proxy_alone,
    a_proxy_that_hangs_is_started_again_soon,
}

/// A tenant with a Gateway that serves, and its one pod. The program hangs; its container is started again, the other
/// isn't, and the pod serves as before.
fn is_started_again(name: &str, plane: &DataPlane, program: &str, container: &str) -> Result<()> {
    let tenant = Tenant::install(&format!("{name}-{plane}"), plane)?;
    let result = (|| {
        tenant.front()?;
        let address = tenant.address("front", 80)?;
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        let pod = Kind::core("Pod").named(&tenant.system.name, &tenant.pod("front")?);
        tenant.lab.hang(&pod.name, program)?;
        let whole = tenant.lab.wait_until(&pod, "to have the container anew", |pod| {
            statuses(pod).all(|status| status["ready"] == true) && restarts(pod, container) == Some(1)
        })?;
        let others = statuses(&whole).filter(|status| status["name"] != container);
        let names: Vec<&Value> = others.filter(|status| status["restartCount"] != 0).collect();
        ensure!(names.is_empty(), "others were started again too: {names:?}");
        tenant.wait_for_status(address, "www.example.com", "/", 200)?;
        ensure!(tenant.pod("front")? == pod.name, "it is another pod");
        Ok(())
    })();
    tenant.explain(result)
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["status"]["containerStatuses"].as_array().into_iter().flatten()
}

fn restarts(pod: &Value, container: &str) -> Option<u64> {
    let status = statuses(pod).find(|status| status["name"] == container)?;
    status["restartCount"].as_u64()
}

fn a_shutdown_manager_that_hangs_leaves_its_proxy_alone(plane: &DataPlane) -> Result<()> {
    is_started_again("manager", plane, "edgegateway", "shutdown-manager").context("its shutdown manager hangs")
}

fn a_proxy_that_hangs_is_started_again_soon(plane: &DataPlane) -> Result<()> {
    is_started_again("hung", plane, plane.program(), "edge").context("the proxy hangs")
}
