//! Tokens that say who a client is (RFC 7519), as Envoy's `jwt_authn` verifies them.
//!
//! A request must meet what its route asks for. Every token that it brings for an issuer must be good, for a
//! backend that looks into another one than was verified here would be deceived. What a good token says is told to the
//! backend in headers and to later filters as metadata; nobody else may say it, so such headers of clients are removed.

pub(in crate::http) mod token;

use std::rc::Rc;
use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value};

use crate::calls::keys;
use crate::config::filter::jwt::{
    Claim, Due, Issuer, KeySource, PayloadHeader, RemoteKeys, Requirement, RouteRequirement, TokenPlace, Tokens,
};
use crate::cookies;
use crate::http::Arrived;
use crate::http::filters::{Flow, query, realm, within};
use crate::lines::joined;
use crate::message::head::Head;
use token::{Failure, Token};

/// Under this name later filters find claims.
const NAME: &str = "envoy.filters.http.jwt_authn";

/// Lets a request through that brings the tokens that are asked for. Whatever is asked, nobody but a good token tells
/// the backend what stands in the headers of any issuer.
pub(super) async fn request(tokens: &Tokens, asked: Option<&RouteRequirement>, arrived: &mut Arrived<'_>) -> Flow {
    for name in &tokens.telling {
        arrived.head.headers.remove(name);
    }
    let Some(RouteRequirement::Named(name)) = asked else {
        return Flow::Continue;
    };
    let Some(requirement) = tokens.requirements.get(name) else {
        // As in Envoy: what nobody knows nobody meets.
        return Flow::refuse(
            arrived,
            StatusCode::FORBIDDEN,
            "Failed JWT authentication",
            "jwt_authn_access_denied{unknown_requirement}",
        );
    };
    for issuer in requirement.issuers() {
        if let KeySource::Remote(remote) = &issuer.keys
            && issuer.places.iter().any(|place| find(place, &arrived.head).is_some())
            && let Err(answer) = refresh(remote, arrived).await
        {
            return answer;
        }
    }
    let mut met = Vec::new();
    match meet(requirement, arrived, &mut met) {
        Ok(()) => {
            let reroutes = met.iter().any(|issuer: &&Issuer| issuer.reroutes);
            if reroutes { Flow::Reroute } else { Flow::Continue }
        }
        Err(failure) => deny(arrived, failure),
    }
}

/// Has keys fetched that are missing or old, and waits for those that are missing.
async fn refresh(remote: &Arc<RemoteKeys>, arrived: &mut Arrived<'_>) -> Result<(), Flow> {
    let upstreams = Rc::clone(&arrived.exchange.connection.upstreams);
    match remote.due_at(upstreams.worker.clock.now()) {
        Due::Nothing => {}
        Due::Refresh => keys::fetch(&upstreams, remote),
        Due::Fetch => {
            keys::fetch(&upstreams, remote);
            drop(within(arrived, remote.fetching.lock()).await?);
        }
    }
    Ok(())
}

fn deny(arrived: &Arrived<'_>, failure: Failure) -> Flow {
    let status = match failure {
        Failure::Audience => StatusCode::FORBIDDEN,
        _ => StatusCode::UNAUTHORIZED,
    };
    let mut answer = Flow::refuse(arrived, status, failure.text(), "");
    arrived.exchange.note(|record| {
        let word = failure.text().replace(' ', "_");
        record.details = format!("jwt_authn_access_denied{{{word}}}").into();
    });
    if let Flow::Answer(response) = &mut answer {
        let error = match failure {
            Failure::Missing => "",
            _ => ", error=\"invalid_token\"",
        };
        let challenge = format!("Bearer realm=\"{}\"{error}", realm(&arrived.head));
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
    }
    answer
}

/// Whether a request meets a requirement; `met` gets the issuers whose tokens were good.
fn meet<'r>(requirement: &'r Requirement, arrived: &mut Arrived<'_>, met: &mut Vec<&'r Issuer>) -> Result<(), Failure> {
    match requirement {
        Requirement::Issuer(issuer) => {
            verify(issuer, arrived)?;
            met.push(issuer);
            Ok(())
        }
        Requirement::All(all) => all.iter().try_for_each(|one| meet(one, arrived, met)),
        Requirement::OneOf(some) => {
            let mut failure = Failure::Missing;
            let mut may = None;
            for one in some {
                match one {
                    Requirement::Missing | Requirement::MissingOrFailed => may = Some(one),
                    _ => match meet(one, arrived, met) {
                        Ok(()) => return Ok(()),
                        // What is wrong with a token says more than that it isn't there or of somebody else.
                        Err(Failure::Missing) => {}
                        Err(Failure::UnknownIssuer) if failure != Failure::Missing => {}
                        Err(other) => failure = other,
                    },
                }
            }
            match may {
                Some(Requirement::MissingOrFailed) => Ok(()),
                Some(Requirement::Missing) if failure == Failure::Missing => Ok(()),
                _ => Err(failure),
            }
        }
        // Only among others.
        Requirement::Missing | Requirement::MissingOrFailed => Err(Failure::Missing),
    }
}

/// Verifies the tokens for an issuer, and tells what the last of them says.
fn verify(issuer: &Issuer, arrived: &mut Arrived<'_>) -> Result<(), Failure> {
    let brought: Vec<String> = issuer
        .places
        .iter()
        .filter_map(|place| find(place, &arrived.head))
        .collect();
    let mut good = Err(Failure::Missing);
    for text in &brought {
        let token = Token::read(text)?;
        token.verify(issuer)?;
        good = Ok(token);
    }
    tell(issuer, &good?, arrived);
    Ok(())
}

/// The token that a request has in a place.
fn find(place: &TokenPlace, head: &Head) -> Option<String> {
    let text = match place {
        TokenPlace::Header(name, prefix) => {
            // Of several lines another reader could choose another one: together they are no token.
            let value = joined(&head.headers, name)?;
            value.strip_prefix(&**prefix)?.trim().to_owned()
        }
        TokenPlace::Query(name) => query::value(head.target.as_str(), name)?.into_owned(),
        TokenPlace::Cookie(name) => String::from_utf8(cookies::value(&head.headers, name)?.to_vec()).ok()?,
    };
    (!text.is_empty()).then_some(text)
}

/// Takes a token out of a request. As in Envoy, one in a cookie stays.
fn take_out(place: &TokenPlace, head: &mut Head) {
    match place {
        TokenPlace::Header(name, _) => drop(head.headers.remove(name)),
        TokenPlace::Query(name) => query::take_out(name, head),
        TokenPlace::Cookie(_) => {}
    }
}

/// Tells backend and filters what a good token says.
fn tell(issuer: &Issuer, token: &Token<'_>, arrived: &mut Arrived<'_>) {
    if !issuer.forwarded {
        issuer
            .places
            .iter()
            .for_each(|place| take_out(place, &mut arrived.head));
    }
    let fields = &mut arrived.head.headers;
    if let Some(PayloadHeader { name, padding }) = &issuer.payload
        && let Ok(value) = HeaderValue::try_from(token.payload(*padding))
    {
        fields.insert(name, value);
    }
    for Claim { header: name, path } in &issuer.claims {
        let mut claim = Some(&token.claims);
        for key in path {
            claim = claim.and_then(|claim| claim.get(&**key));
        }
        if let Some(value) = claim
            .and_then(token::text_of)
            .and_then(|text| HeaderValue::try_from(text).ok())
        {
            fields.append(name, value);
        }
    }
    if !issuer.metadata.is_empty() {
        let own = arrived
            .metadata
            .entry(NAME.into())
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(own) = own {
            own.insert(issuer.metadata.to_string(), token.spaced(&issuer.spaced));
        }
    }
}
