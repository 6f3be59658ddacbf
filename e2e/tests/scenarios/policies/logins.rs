//! Logins at an identity provider.

use super::{
    Guarded, HOST,
    certified::{self, Certified},
    get,
    provider::{CLIENT, Provider, SECRET, target},
};
use crate::statuses::policy_says;
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request, Response},
    process::wait_for,
    stack::{DataPlane, PATIENCE},
};
use std::collections::BTreeMap;

/// A browser: it keeps cookies.
#[derive(Default)]
struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    /// Goes where a login at the gateway leads, to a provider that asks for name and password, and comes back; gives the
    /// answer to that.
    fn logs_in_by_name(&mut self, www: &Guarded, certified: &Certified, password: &str) -> Result<Response> {
        let sent = self.asks(www, "/")?;
        let back = certified.login(location(&sent)?, password)?;
        self.asks(www, target(&back)?)
    }

    /// Asks the gateway.
    fn asks(&mut self, www: &Guarded, path: &str) -> Result<Response> {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = cookies.collect::<Vec<_>>().join("; ");
        let request = Request {
            headers: &[("cookie", &*cookies)],
            ..Request::get(HOST, path)
        };
        let answer = http::send(www.stack.gateway(), &request)?;
        for (_, cookie) in answer.headers.iter().filter(|(name, _)| name == "set-cookie") {
            self.keep(cookie);
        }
        Ok(answer)
    }

    fn keep(&mut self, cookie: &str) {
        let Some((name, value)) = cookie.split(';').next().and_then(|pair| pair.split_once('=')) else {
            return;
        };
        let is_over = cookie.to_ascii_lowercase().contains("max-age=0") || value == "deleted";
        match is_over {
            true => self.cookies.remove(name),
            false => self.cookies.insert(name.to_owned(), value.to_owned()),
        };
    }

    /// Goes to the provider and comes back; gives the answer to that.
    fn logs_in(&mut self, www: &Guarded, provider: &Provider) -> Result<Response> {
        let sent = self.asks(www, "/")?;
        let login = location(&sent)?;
        ensure!(
            login.starts_with(&format!("{}/auth?", provider.issuer())),
            "sent to {login}"
        );
        let address = ([127, 0, 0, 1], provider.port()).into();
        let back = http::send(address, &Request::get("idp", target(login)?))?;
        let back = location(&back)?.to_owned();
        self.asks(www, target(&back)?)
    }
}

fn location(answer: &Response) -> Result<&str> {
    ensure!(answer.status == 302, "{answer:?}");
    answer.header("location").context("it leads nowhere")
}

fn secret(value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{ name: client, namespace: default }}\nstringData: {{ client-secret: {value} }}\n"
    )
}

pub(crate) fn clients_log_in_at_a_provider(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let provider = Provider::start()?;
    www.stack.put("client.yaml", &secret(SECRET))?;
    www.guard(&format!(
        "  oidc:\n    provider: {{ issuer: '{}' }}\n    clientID: {CLIENT}\n    clientSecret: {{ name: client }}\n    \
         forwardAccessToken: true\n    denyRedirect: {{ headers: [{{ name: x-script, value: 'yes' }}] }}\n",
        provider.issuer()
    ))?;

    // The provider doesn't say where its endpoints are: nobody gets in.
    www.answers(&get(&[]), 500)?;
    www.is_refused_for("failed fetching openid-configuration")?;

    // It does: nobody gets in without a login, and who logged in does.
    provider.tell();
    www.closes(&get(&[]), 302)?;
    www.closes(&get(&[("x-script", "yes")]), 401)?;
    let mut ann = Browser::default();
    let back = ann.logs_in(&www, &provider)?;
    ensure!(location(&back)? == format!("http://{HOST}/"), "{back:?}");
    let seen = ann.asks(&www, "/")?;
    ensure!(seen.status == 200, "{seen:?}");
    ensure!(
        seen.json()?["headers"]["Authorization"][0] == "Bearer for-the-backend",
        "{seen:?}"
    );

    // Cookies that nobody signed, and those of a session that is over, let nobody in.
    let mut eve = Browser {
        cookies: ann.cookies.keys().map(|name| (name.clone(), "x".to_owned())).collect(),
    };
    ensure!(eve.asks(&www, "/")?.status == 302);
    location(&ann.asks(&www, "/logout")?)?;
    ensure!(ann.asks(&www, "/")?.status == 302, "the session is over");

    // Another secret: the proxy gets no token.
    www.stack.put("client.yaml", &secret("wrong"))?;
    let found = wait_for("a login that fails", PATIENCE, || {
        let mut bob = Browser::default();
        let back = bob.logs_in(&www, &provider)?;
        ensure!(back.status == 401, "the last answer was {back:?}");
        ensure!(bob.asks(&www, "/")?.status == 302);
        Ok(Some(()))
    });
    found.with_context(|| www.stack.logs())?;

    // None at all: the policy is invalid.
    www.stack.remove("client.yaml")?;
    www.closes(&get(&[]), 500)?;
    www.is_refused_for("secret default/client does not exist")?;
    let pending = policy_says(&www.stack.status()?, ["SecurityPolicy", "guard", "Programmed", "False"]);
    ensure!(pending.is_empty(), "{pending:?}");
    www.open()
}

/// The same at a provider that others have written, and that is certified to be one.
pub(crate) fn clients_log_in_at_a_certified_provider(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let certified = Certified::start(www.stack.site.path(""))?;
    www.stack.put("client.yaml", &secret(certified::SECRET))?;
    www.guard(&format!(
        "  oidc:\n    provider: {{ issuer: '{}' }}\n    clientID: {}\n    clientSecret: {{ name: client }}\n    \
         forwardAccessToken: true\n",
        certified.issuer(),
        certified::CLIENT
    ))?;
    www.answers(&get(&[]), 302)?;

    let mut ann = Browser::default();
    let back = ann.logs_in_by_name(&www, &certified, certified::PASSWORD)?;
    ensure!(location(&back)? == format!("http://{HOST}/"), "{back:?}");
    let seen = ann.asks(&www, "/")?;
    ensure!(seen.status == 200, "{seen:?}");
    let told = seen.json()?["headers"]["Authorization"][0].clone();
    ensure!(told.as_str().is_some_and(|told| told.starts_with("Bearer ")), "{told}");

    // Who doesn't know the password doesn't come back.
    let mut eve = Browser::default();
    ensure!(eve.logs_in_by_name(&www, &certified, "guess").is_err());
    ensure!(eve.asks(&www, "/")?.status == 302);

    // The provider takes no other secret for the client's.
    www.stack.put("client.yaml", &secret("wrong"))?;
    let found = wait_for("a login that fails", PATIENCE, || {
        let mut bob = Browser::default();
        let back = bob.logs_in_by_name(&www, &certified, certified::PASSWORD)?;
        ensure!(back.status == 401, "the last answer was {back:?}");
        Ok(Some(()))
    });
    found.with_context(|| www.stack.logs())?;
    www.open()
}
