//! Requests: from the head that the codec delivers to the response that it is given.
//!
//! What: [`ingress`] takes a request in, [`crate::filters`] may answer it, the route table finds its route, [`forward`]
//! sends it to a backend, [`egress`] finishes the response. Nothing here knows a codec.

pub(crate) mod body;
mod edits;
pub(crate) mod egress;
pub(crate) mod exchange;
mod forward;
mod hashing;
pub(crate) mod head;
pub(crate) mod incoming;
mod ingress;
pub(crate) mod local_reply;
mod mirror;
pub(crate) mod number;
pub mod path;
mod replay;
pub(crate) mod request;
mod respond;
mod retry;
mod rewrite;

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use http::header;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};

use crate::config::route::{Action, DirectResponse, Redirect, RedirectScheme, Route};
use crate::config::table::TlsRequirement;
use crate::downstream::connection::{Connection, Protocol};
use crate::fault::Fault;
use crate::filters::cors::{self, Verdict};
use crate::filters::grpc_web::Bridge;
use body::ResponseBody;
use edits::Scene;
pub(crate) use edits::hostname;
use egress::Echo;
use exchange::Exchange;
use head::Head;
use incoming::Incoming;
use ingress::{Notes, Refusal};
use local_reply::Audience;

/// A request that was taken in.
pub(crate) struct Arrived {
    exchange: Rc<Exchange>,
    head: Head,
    notes: Notes,
    body: Incoming,
    /// Translates the call of a script.
    web: Option<Rc<Bridge>>,
}

/// Serves one request.
pub(crate) async fn serve(exchange: Rc<Exchange>, parts: Parts, body: Incoming) -> Response<ResponseBody> {
    let connection = Rc::clone(&exchange.connection);
    let noted = Rc::clone(&exchange);
    let mut echo = Echo::default();
    let version = parts.version;
    let (head, admitted) = ingress::admit(&connection, parts);
    exchange.note(|record| {
        record.version = Some(version);
        record.client = ingress::client_of(&connection, &head);
        record.request(&head);
    });
    let response = match admitted {
        Ok(notes) => {
            if connection.manager().request_id.in_response {
                echo.request_id = head.headers.get(ingress::X_REQUEST_ID).cloned();
            }
            let bridge = Bridge::of(&connection, &head).map(|bridge| (bridge, Rc::clone(&exchange)));
            let response = match crate::filters::run(&connection, &head) {
                Some(answer) => {
                    noted.note(|record| {
                        record.health_check = true;
                        record.details = "health_check_ok";
                    });
                    answer
                }
                None => {
                    route(Arrived {
                        exchange,
                        head,
                        notes,
                        body,
                        web: bridge.as_ref().map(|(bridge, _)| Rc::clone(bridge)),
                    })
                    .await
                }
            };
            match bridge {
                // Boxed: few requests come here.
                Some((bridge, exchange)) => Box::pin(bridge.answer(&exchange, response)).await,
                None => response,
            }
        }
        Err(refusal) => {
            noted.note(|record| match &refusal {
                Refusal::Fault(fault) => record.fault(*fault),
                Refusal::Redirect(_) => record.details = "path_normalization_failed",
            });
            refuse(&connection, &head, refusal)
        }
    };
    let response = egress::finish(&connection, response, echo);
    noted.note(|record| record.response(response.status(), response.headers()));
    response
}

fn audience(head: &Head) -> Audience {
    if head.is_grpc() { Audience::Grpc } else { Audience::Http }
}

fn refuse(connection: &Connection, head: &Head, refusal: Refusal) -> Response<ResponseBody> {
    match refusal {
        Refusal::Fault(fault) => {
            let mut response = local_reply::of_fault(fault, audience(head));
            // Whoever sent a malformed head may have meant something else by the bytes behind it.
            if connection.protocol == Protocol::Http1 && fault != Fault::UpgradeForbidden {
                response
                    .headers_mut()
                    .insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
        Refusal::Redirect(target) => {
            // Relative (RFC 9110 §10.2.2): what the client called us by, and over what, isn't known for sure here.
            redirect_to(StatusCode::TEMPORARY_REDIRECT, &target)
        }
    }
}

fn redirect_to(status: StatusCode, location: &str) -> Response<ResponseBody> {
    let mut response = local_reply::text(status, Bytes::new(), None, Audience::Http);
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

async fn route(mut arrived: Arrived) -> Response<ResponseBody> {
    let connection = Rc::clone(&arrived.exchange.connection);
    let (head, internal) = (&mut arrived.head, arrived.notes.internal);
    let snapshot = connection.worker.snapshot();
    // The connection must not ask this configuration for routes that only the one before knows by that name.
    connection.follow(&snapshot);
    let manager = connection.manager();
    let last;
    let table = match snapshot.route_table(&manager.routes) {
        Some(table) => Some(table),
        None => {
            last = connection.last_routes(&manager.routes);
            last.as_ref()
        }
    };
    let host = table.and_then(|table| table.virtual_host(head.authority_text()));
    if let Some(host) = host
        && needs_tls(&connection, host.require_tls, internal)
    {
        let https = Redirect {
            status: StatusCode::MOVED_PERMANENTLY,
            scheme: Some(RedirectScheme::Https),
            host: None,
            port: None,
            path: None,
            strip_query: false,
        };
        arrived.exchange.note(|record| record.details = "direct_response");
        let everything = crate::config::route::PathCondition::Prefix("/".into());
        return redirect_to(https.status, &rewrite::location(&https, &everything, head));
    }
    let Some(route) = host.and_then(|host| host.find(&head.view())) else {
        connection.cells().no_route.inc();
        arrived.exchange.note(|record| record.fault(Fault::NoRoute));
        return local_reply::of_fault(Fault::NoRoute, audience(head));
    };
    let cells = connection.cells();
    arrived.exchange.note(|record| {
        record.route = Some(Arc::clone(&route.name));
        record.details = "direct_response";
    });
    match &route.action {
        Action::Redirect(redirect) => {
            cells.rq_redirect.inc();
            answer_redirect(&connection, route, redirect, head)
        }
        Action::Direct(direct) => {
            cells.rq_direct_response.inc();
            answer_directly(&connection, route, direct, head)
        }
        Action::Forward(settings) => {
            cells.rq_total.inc();
            let verdict = match &route.cors {
                Some(policy) => cors::judge(policy, &connection, head),
                None => Verdict::Pass,
            };
            let permission = match verdict {
                Verdict::Preflight(response) => return response,
                Verdict::Allowed(permission) => Some(permission),
                Verdict::Pass => None,
            };
            let mut response = forward::forward(&snapshot, route, settings, arrived).await;
            if let Some(permission) = permission {
                permission.write(response.headers_mut());
            }
            response
        }
    }
}

fn needs_tls(connection: &Connection, required: TlsRequirement, internal: bool) -> bool {
    !connection.is_secure()
        && match required {
            TlsRequirement::None => false,
            TlsRequirement::ExternalOnly => !internal,
            TlsRequirement::All => true,
        }
}

fn answer_redirect(
    connection: &Connection,
    route: &Route,
    redirect: &Redirect,
    head: &mut Head,
) -> Response<ResponseBody> {
    let scene = Scene {
        connection,
        cluster: "",
        route: &route.name,
    };
    let location = rewrite::location(redirect, &route.path, head);
    let mut response = redirect_to(redirect.status, &location);
    edits::edit_response(response.headers_mut(), &route.response_headers, scene, head);
    response
}

fn answer_directly(
    connection: &Connection,
    route: &Route,
    direct: &DirectResponse,
    head: &mut Head,
) -> Response<ResponseBody> {
    let scene = Scene {
        connection,
        cluster: "",
        route: &route.name,
    };
    let mut response = local_reply::text(
        direct.status,
        direct.body.clone(),
        direct.content_type.clone(),
        audience(head),
    );
    edits::edit_response(response.headers_mut(), &route.response_headers, scene, head);
    response
}

#[cfg(test)]
mod tests {
    /// Every request moves its future once, so its size is time: what only some requests need belongs in a box.
    #[test]
    fn the_future_of_a_request_stays_small() {
        fn size<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
            std::mem::size_of::<F>()
        }
        let size = size(super::serve);
        assert!(size <= 7 * 1024, "{size} bytes");
    }
}
