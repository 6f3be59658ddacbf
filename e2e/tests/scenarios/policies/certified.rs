//! An OpenID Provider that others have written and that is certified to be one: the example that the library
//! `github.com/zitadel/oidc` comes with, as `e2e/services` builds it.

use super::provider::{REDIRECT, target};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request, Response},
    ports,
    process::{Process, wait_for},
    stack::{PATIENCE, service},
};
use std::{
    io::{BufReader, Write as _},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::Command,
};

/// The client that it knows.
pub(super) const CLIENT: &str = "web";
/// The client's secret.
pub(super) const SECRET: &str = "secret";
/// The user that it knows.
const USER: &str = "test-user@localhost";
/// The user's password.
pub(super) const PASSWORD: &str = "verysecure";

/// A running provider.
pub(super) struct Certified {
    port: u16,
    _process: Process,
}

impl Certified {
    /// Starts it and waits until it tells of itself. What it prints goes into a folder.
    pub(super) fn start(folder: impl AsRef<Path>) -> Result<Self> {
        let [port] = ports::free()?;
        let mut command = Command::new(service("openid-provider")?);
        command.env("PORT", port.to_string()).env("REDIRECT_URI", REDIRECT);
        let provider = Self {
            port,
            _process: Process::start("openid-provider", folder.as_ref(), &mut command)?,
        };
        wait_for("an OpenID Provider", PATIENCE, || {
            let asked = provider.ask("/.well-known/openid-configuration");
            Ok(asked.is_ok_and(|answer| answer.status == 200).then_some(()))
        })?;
        Ok(provider)
    }

    /// Its name, which is its URL.
    pub(super) fn issuer(&self) -> String {
        format!("http://localhost:{}/", self.port)
    }

    /// What a user does who was sent to a URL of it: follows it to the form, fills it in, and is sent back. Gives the
    /// URL.
    pub(super) fn login(&self, url: &str, password: &str) -> Result<String> {
        ensure!(url.starts_with(&self.issuer()), "sent to {url}");
        let form = redirection(&self.ask(target(url)?)?)?;
        let (_, id) = form.split_once("authRequestID=").context("a form without id")?;
        let filled = format!("username={}&password={password}&id={id}", USER.replace('@', "%40"));
        let accepted = self.post("/login/username", &filled)?;
        let goes_on = redirection(&accepted)?;
        redirection(&self.ask(&goes_on)?)
    }

    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    fn ask(&self, path: &str) -> Result<Response> {
        http::send(self.address(), &Request::get(&self.host(), path))
    }

    fn post(&self, path: &str, form: &str) -> Result<Response> {
        let mut stream = http::connect(self.address())?;
        let (host, length) = (self.host(), form.len());
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{form}"
        )?;
        http::read_response(&mut BufReader::new(stream))
    }
}

fn redirection(answer: &Response) -> Result<String> {
    ensure!(answer.status == 302, "{answer:?}");
    Ok(answer.header("location").context("it leads nowhere")?.to_owned())
}
