//! Mistakes that people make: each gets one clear message, and whatever served goes on serving.

use anyhow::{Context, Result, ensure};
use e2e::{
    process::Process,
    stack::{DataPlane, PATIENCE, Site, Stack},
};
use std::{fs, net::TcpListener};

const PLANE: DataPlane = DataPlane::EdgeProxy;

/// Starts a controller that must give up, and returns what it said.
fn refused(site: &Site) -> Result<String> {
    let mut controller = site.start_controller(&PLANE)?;
    let status = controller.wait(PATIENCE)?;
    ensure!(status.code() == Some(1), "{status}: {}", controller.output());
    Ok(controller.output())
}

fn assert_says(output: &str, words: &[&str]) {
    for word in words {
        assert!(output.contains(word), "no {word:?} in:\n{output}");
    }
}

#[test]
fn a_mistyped_field_of_the_configuration_is_named_with_its_place() -> Result<()> {
    let site = Site::new()?;
    let config = fs::read_to_string(site.config())?;
    fs::write(site.config(), config.replace("controllerName:", "controlerName:"))?;
    assert_says(&refused(&site)?, &["edge-gateway.yaml:", "controlerName"]);
    Ok(())
}

#[test]
fn a_configuration_that_is_missing_is_named() -> Result<()> {
    let site = Site::new()?;
    fs::remove_file(site.config())?;
    assert_says(&refused(&site)?, &["edge-gateway.yaml"]);
    Ok(())
}

#[test]
fn a_port_of_the_controller_that_is_taken_is_named() -> Result<()> {
    let site = Site::new()?;
    let _taken = TcpListener::bind(("127.0.0.1", site.ports.xds))?;
    assert_says(&refused(&site)?, &[&site.ports.xds.to_string()]);
    Ok(())
}

#[test]
fn a_second_controller_on_the_same_folders_is_refused_and_the_first_goes_on() -> Result<()> {
    let mut stack = Stack::start(&PLANE)?;
    let mut second = Process::start("second", &stack.site.path("state"), &mut stack.site.controller(&PLANE)?)?;
    let status = second.wait(PATIENCE)?;
    ensure!(status.code() == Some(1), "{status}: {}", second.output());
    ensure!(!second.output().is_empty(), "it must say why");
    stack.wait_for_status("www.example.com", "/", 200)?;
    Ok(())
}

#[test]
fn a_proxy_binary_that_is_missing_is_named_with_the_field_to_set() -> Result<()> {
    let site = Site::new()?;
    let plane = DataPlane::Envoy("/absent/envoy".into());
    let mut controller = site.start_controller(&plane)?;
    controller.wait_for_output("/absent/envoy", PATIENCE)?;
    controller.wait_for_output("proxyBinary", PATIENCE)?;
    Ok(())
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named_and_serving_goes_on() -> Result<()> {
    let site = Site::new()?;
    // A file where the folder should be stops root too.
    fs::write(site.path("state"), "")?;
    let mut stack = Stack::start_at(site, &PLANE)?;
    stack.controller.wait_for_output("stateHome", PATIENCE)?;
    assert_says(
        &stack.controller.output(),
        &[&stack.site.path("state").display().to_string()],
    );
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}

#[test]
fn a_state_folder_belongs_to_one_controller() -> Result<()> {
    let stack = Stack::start(&PLANE)?;
    let other = Site::new()?;
    let state = |site: &Site| site.path("state").display().to_string();
    let config = fs::read_to_string(other.config())?;
    fs::write(other.config(), config.replace(&state(&other), &state(&stack.site)))?;
    let mut second = other.start_controller(&PLANE)?;
    assert!(!second.wait(PATIENCE)?.success());
    let holder = format!("another edgegateway (process {}) is using it", stack.controller.pid());
    assert_says(&second.output(), &[&state(&stack.site), &holder, "host.stateHome"]);
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}

#[test]
fn a_gateway_port_that_is_taken_is_reported_and_others_serve() -> Result<()> {
    let mut stack = Stack::start(&PLANE)?;
    let taken = TcpListener::bind(("0.0.0.0", 0))?;
    let port = taken.local_addr()?.port();
    let mut gateway = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    gateway.push_str(&format!(
        "    - name: taken\n      protocol: HTTP\n      port: {port}\n"
    ));
    stack.put("gateway.yaml", &gateway)?;
    stack
        .controller
        .wait_for_output(&format!("Port {port} of this machine is held by process"), PATIENCE)
        .with_context(|| stack.logs())?;
    stack.wait_for_status("www.example.com", "/", 200)?;
    Ok(())
}

#[test]
fn a_huge_file_is_refused_by_name() -> Result<()> {
    let mut stack = Stack::start(&PLANE)?;
    let comment = "# nothing but comments\n";
    stack.put("huge.yaml", &comment.repeat(52_000_000 / comment.len()))?;
    stack.controller.wait_for_output("huge.yaml", PATIENCE)?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}

#[test]
fn links_in_a_circle_end() -> Result<()> {
    let mut stack = Stack::start(&PLANE)?;
    std::os::unix::fs::symlink(stack.site.watched(), stack.site.watched().join("circle"))?;
    std::os::unix::fs::symlink("self.yaml", stack.site.watched().join("self.yaml"))?;
    let shop = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/quickstart/more/shop.yaml"
    ))?;
    stack.put("shop.yaml", &stack.site.with_ports(&shop))?;
    stack.wait_for_status("shop.example.com", "/cart", 200)?;
    Ok(())
}

#[test]
fn an_unknown_kind_and_a_wrong_type_are_reported_with_their_place() -> Result<()> {
    let mut stack = Stack::start(&PLANE)?;
    stack.put(
        "odd.yaml",
        "apiVersion: example.com/v1\nkind: Teapot\nmetadata: { name: t }\n",
    )?;
    stack.controller.wait_for_output("odd.yaml:2:7", PATIENCE)?;
    let gateway = fs::read_to_string(stack.site.watched().join("gateway.yaml"))?;
    let port = format!("port: {}", stack.site.ports.gateway);
    stack.put("gateway.yaml", &gateway.replace(&port, "port: eighty"))?;
    stack.controller.wait_for_output("listeners[0].port", PATIENCE)?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}

#[test]
fn a_configuration_that_breaks_while_running_is_reported_and_the_old_one_stays() -> Result<()> {
    let mut stack = Stack::start(&PLANE)?;
    let config = fs::read_to_string(stack.site.config())?;
    fs::write(stack.site.config(), config.replace("type: Custom", "type: Costum"))?;
    stack.controller.wait_for_output("edge-gateway.yaml:15:9", PATIENCE)?;
    stack
        .controller
        .wait_for_output("the running configuration stays in force", PATIENCE)?;
    assert_eq!(stack.get("www.example.com", "/")?.status, 200);
    Ok(())
}
