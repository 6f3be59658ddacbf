//! Logins at an identity provider.

use super::{
    Guarded, HOST,
    certified::{self, Certified},
    get,
    provider::{ACCESS, CLIENT, Provider, RENEWED, SECRET, target},
};
use crate::{resources, statuses::policy_says};
use anyhow::{Context as _, Result, ensure};
use e2e::{
    http::{self, Request, Response},
    process::{Signal, wait_for},
    stack::{DataPlane, PATIENCE},
};
use std::{collections::BTreeMap, fs};

/// A browser: it keeps cookies.
#[derive(Default)]
pub(super) struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    /// Goes where a login at the gateway leads, to a provider that asks for name and password, and comes back; gives
    /// the answer to that.
    fn logs_in_by_name(&mut self, www: &Guarded, certified: &Certified, password: &str) -> Result<Response> {
        let sent = self.asks(www, "/")?;
        let back = certified.login(location(&sent)?, password)?;
        self.asks(www, target(&back)?)
    }

    /// Asks the gateway.
    pub(super) fn asks(&mut self, www: &Guarded, path: &str) -> Result<Response> {
        self.asks_with(www, path, &[])
    }

    /// Asks the gateway, with other headers beside its cookies.
    fn asks_with(&mut self, www: &Guarded, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}"));
        let cookies = cookies.collect::<Vec<_>>().join("; ");
        let headers = [&[("cookie", &*cookies)], headers].concat();
        let request = Request {
            headers: &headers,
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
    pub(super) fn logs_in(&mut self, www: &Guarded, provider: &Provider) -> Result<Response> {
        let back = self.is_sent_back(www, provider)?;
        self.asks(www, target(&back)?)
    }

    /// Goes to the provider; gives the URL that this sends it back to.
    fn is_sent_back(&mut self, www: &Guarded, provider: &Provider) -> Result<String> {
        let sent = self.asks(www, "/")?;
        let login = location(&sent)?;
        ensure!(
            login.starts_with(&format!("{}/auth?", provider.issuer())),
            "sent to {login}"
        );
        let address = ([127, 0, 0, 1], provider.port()).into();
        let back = http::send(address, &Request::get("idp", target(login)?))?;
        Ok(location(&back)?.to_owned())
    }

    /// The value of the cookie whose name begins so.
    pub(super) fn cookie(&self, name: &str) -> Result<&str> {
        let mut named = self.cookies.iter().filter(|(found, _)| found.starts_with(name));
        let (_, value) = named
            .next()
            .with_context(|| format!("no cookie {name} in {:?}", self.cookies))?;
        Ok(value)
    }

    /// The same browser, but with a cookie of another value.
    pub(super) fn with(&self, name: &str, value: &str) -> Result<Self> {
        let mut cookies = self.cookies.clone();
        let found = cookies.iter_mut().find(|(found, _)| found.starts_with(name));
        let (_, found) = found.with_context(|| format!("no cookie {name} in {:?}", self.cookies))?;
        value.clone_into(found);
        Ok(Self { cookies })
    }
}

/// Where an answer leads.
pub(super) fn location(answer: &Response) -> Result<&str> {
    ensure!(answer.status == 302, "{answer:?}");
    answer.header("location").context("it leads nowhere")
}

/// The Secret of the client.
pub(super) fn secret(value: &str) -> String {
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
    www.answers_everywhere(&get(&[]), 302)?;
    www.closes(&get(&[("x-script", "yes")]), 401)?;
    let mut ann = Browser::default();
    let back = ann.logs_in(&www, &provider)?;
    ensure!(location(&back)? == format!("http://{HOST}/"), "{back:?}");
    let seen = ann.asks(&www, "/")?;
    ensure!(seen.status == 200, "{seen:?}");
    ensure!(
        seen.json()?["headers"]["Authorization"][0] == format!("Bearer {ACCESS}"),
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

/// What a backend was told in a header.
pub(super) fn told(seen: &Response, header: &str) -> Result<String> {
    ensure!(seen.status == 200, "{seen:?}");
    Ok(seen.json()?["headers"][header][0]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

pub(crate) fn nobody_gets_in_by_the_login_or_the_session_of_another(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let provider = Provider::start()?;
    provider.tell();
    www.stack.put("client.yaml", &secret(SECRET))?;
    www.guard(&format!(
        "  oidc:\n    provider: {{ issuer: '{}' }}\n    clientID: {CLIENT}\n    clientSecret: {{ name: client }}\n    \
         forwardAccessToken: true\n    forwardIDToken: {{ header: x-id-token }}\n",
        provider.issuer()
    ))?;
    www.answers_everywhere(&get(&[]), 302)?;

    // Who comes back without a login, with an error, or with the state of another login, gets no session.
    let (mut ann, mut eve) = (Browser::default(), Browser::default());
    for callback in [
        "/oauth2/callback",
        "/oauth2/callback?code=code-0",
        "/oauth2/callback?code=code-0&state=e30",
    ] {
        ensure!(ann.asks(&www, callback)?.status == 401, "{callback}");
    }
    let hers = eve.is_sent_back(&www, &provider)?;
    let own = ann.is_sent_back(&www, &provider)?;
    ensure!(
        Browser::default().asks(&www, target(&own)?)?.status == 401,
        "a state alone"
    );
    let forged = ann.asks(&www, target(&hers)?)?;
    ensure!(forged.status == 401, "the state of another: {forged:?}");
    let refused = target(&own)?.replace("code=", "error=access_denied&code=");
    ensure!(ann.asks(&www, &refused)?.status == 401, "the provider has refused");
    ensure!(ann.asks(&www, "/")?.status == 302);

    // Nobody says to the backend what only the proxy may say, and no cookie but those of tokens reaches it.
    let back = ann.logs_in(&www, &provider)?;
    ensure!(location(&back)? == format!("http://{HOST}/"), "{back:?}");
    let seen = ann.asks_with(
        &www,
        "/",
        &[("authorization", "Bearer forged"), ("x-id-token", "forged")],
    )?;
    ensure!(told(&seen, "Authorization")? == format!("Bearer {ACCESS}"), "{seen:?}");
    ensure!(told(&seen, "X-Id-Token")?.split('.').count() == 3, "{seen:?}");
    let cookies = told(&seen, "Cookie")?;
    ensure!(cookies.contains(&format!("={ACCESS}")), "{cookies}");
    ensure!(
        !["Oauth", "Refresh", "CodeVerifier"]
            .iter()
            .any(|own| cookies.contains(own)),
        "{cookies}"
    );

    // A session that somebody has changed is none.
    for cookie in ["AccessToken", "IdToken", "OauthExpires", "OauthHMAC"] {
        let answer = ann.with(cookie, "9999999999")?.asks(&www, "/")?;
        ensure!(
            answer.status == 302 || !told(&answer, "Authorization")?.contains("9999999999"),
            "{cookie}: {answer:?}"
        );
    }
    ensure!(ann.asks(&www, "/")?.status == 200);
    www.open()
}

pub(crate) fn sessions_are_renewed_while_the_provider_does_it(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let provider = Provider::start()?;
    provider.tell();
    provider.give_for(2);
    www.stack.put("client.yaml", &secret(SECRET))?;
    www.guard(&format!(
        "  oidc:\n    provider: {{ issuer: '{}' }}\n    clientID: {CLIENT}\n    clientSecret: {{ name: client }}\n    \
         forwardAccessToken: true\n",
        provider.issuer()
    ))?;
    www.answers_everywhere(&get(&[]), 302)?;
    let mut ann = Browser::default();
    ensure!(location(&ann.logs_in(&www, &provider)?)? == format!("http://{HOST}/"));
    ensure!(told(&ann.asks(&www, "/")?, "Authorization")? == format!("Bearer {ACCESS}"));

    // The session is over, and goes on with another token, which the browser gets with the response.
    wait_for("a session that is renewed", PATIENCE, || {
        let seen = ann.asks(&www, "/")?;
        let is_renewed = told(&seen, "Authorization")? == format!("Bearer {RENEWED}");
        ensure!(
            is_renewed == seen.headers.iter().any(|(name, _)| name == "set-cookie"),
            "{seen:?}"
        );
        Ok(is_renewed.then_some(()))
    })?;
    let seen = ann.asks(&www, "/")?;
    ensure!(told(&seen, "Authorization")? == format!("Bearer {RENEWED}"), "{seen:?}");

    // A refresh token that somebody has changed renews nothing, nor does one that the provider takes no longer.
    let mut eve = ann.with("RefreshToken", "forged")?.with("OauthExpires", "1")?;
    ensure!(eve.asks(&www, "/")?.status == 302);
    provider.renew_nothing();
    wait_for("a session that is over", PATIENCE, || {
        let seen = ann.asks(&www, "/")?;
        Ok((seen.status == 302).then_some(()))
    })?;
    www.open()
}

pub(crate) fn a_provider_that_fails_is_asked_again(plane: &DataPlane) -> Result<()> {
    let www = Guarded::start(plane)?;
    let provider = Provider::start()?;
    provider.tell();
    www.stack.put("client.yaml", &secret(SECRET))?;
    www.guard(&format!(
        "  oidc:
    provider:
      issuer: '{}'
      backendSettings:
        retry: {{ numRetries: 2, retryOn: {{ triggers: ['5xx'] }}, perRetry: {{ backOff: {{ baseInterval: 10ms }} }} }}
    clientID: {CLIENT}
    clientSecret: {{ name: client }}
",
        provider.issuer()
    ))?;
    www.answers_everywhere(&get(&[]), 302)?;
    provider.fail(2);
    let mut ann = Browser::default();
    let back = ann.logs_in(&www, &provider)?;
    ensure!(location(&back)? == format!("http://{HOST}/"), "{back:?}");
    ensure!(ann.asks(&www, "/")?.status == 200);

    // But not for ever: who comes back then has no session, and may begin anew.
    provider.fail(3);
    let mut bob = Browser::default();
    let back = bob.logs_in(&www, &provider)?;
    ensure!(back.status == 401, "{back:?}");
    ensure!(location(&bob.logs_in(&www, &provider)?)? == format!("http://{HOST}/"));
    www.open()
}

/// A controller that begins while the provider says nothing of itself goes on by what it said last.
pub(crate) fn a_login_outlives_the_controller_and_its_provider(plane: &DataPlane) -> Result<()> {
    let mut www = Guarded::start(plane)?;
    let provider = Provider::start()?;
    provider.tell();
    www.stack.put("client.yaml", &secret(SECRET))?;
    www.guard(&format!(
        "  oidc:\n    provider: {{ issuer: '{}' }}\n    clientID: {CLIENT}\n    clientSecret: {{ name: client }}\n",
        provider.issuer()
    ))?;
    www.answers_everywhere(&get(&[]), 302)?;
    let mut ann = Browser::default();
    location(&ann.logs_in(&www, &provider)?)?;
    let kept = www.stack.site.path("state/.documents");
    wait_for("what the provider says to be kept", PATIENCE, || {
        Ok(fs::read_dir(&kept).ok().and_then(|mut files| files.next()).map(drop))
    })?;

    provider.hush();
    let stack = &mut www.stack;
    stack.controller.signal(Signal::Kill)?;
    stack.controller.wait(PATIENCE)?;
    stack.controller = stack.site.start_controller(plane)?;
    stack.controller.wait_for_output("is taken over", PATIENCE)?;
    // The proxy follows it: the Backend of this route isn't there.
    let head = "  hostnames: [mark.example.com]\n";
    let mark = resources::route("HTTPRoute", "mark", "{ name: quickstart }", head, "nobody");
    stack.put("mark.yaml", &mark)?;
    stack.wait_for_status("mark.example.com", "/", 500)?;
    for _ in 0..16 {
        let (seen, sent) = (ann.asks(&www, "/")?, www.stack.send(&get(&[]))?);
        ensure!((seen.status, sent.status) == (200, 302), "{seen:?} {sent:?}");
    }
    Ok(())
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
    www.answers_everywhere(&get(&[]), 302)?;

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
