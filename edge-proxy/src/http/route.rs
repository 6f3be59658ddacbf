//! From a request to what its route does, through the filters that act on it.
//!
//! [`Site`] is where routes are looked up; [`Destination`] is what was found. A request that no filter acts on
//! goes straight there.

use std::rc::Rc;
use std::sync::Arc;

use http::{Response, StatusCode};

use crate::access_log::{self, Course};
use crate::config::Snapshot;
use crate::config::access::Metadata;
use crate::config::filter::RouteFilters;
use crate::config::http_manager::HttpManager;
use crate::config::route::{Action, DirectBody, DirectResponse, PathCondition, Redirect, RedirectScheme, Route};
use crate::config::table::{RouteTable, TlsRequirement};
use crate::connection::Connection;
use crate::fault::Fault;
use crate::http::body::ResponseBody;
use crate::http::edits::{self, Scene};
use crate::http::exchange::Exchange;
use crate::http::filters::Chain;
use crate::http::local_reply::Audience;
use crate::http::{Arrived, forward, local_reply, redirect_to, rewrite};
use crate::local::Pinned;
use crate::message::head::Head;

/// Where the routes of a connection are looked up.
pub(crate) struct Site<'a> {
    connection: &'a Connection,
    /// What is known of clusters.
    pub(crate) snapshot: &'a Rc<Pinned>,
    table: Option<&'a Arc<RouteTable>>,
    /// What serves the connection.
    pub(crate) manager: &'a HttpManager,
}

/// Where a request is to go.
#[derive(Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// Nowhere: no route takes it.
    Nowhere,
    /// Here once more, over TLS.
    Secure,
    /// Where a route says.
    Route(&'a Route),
}

impl<'a> Destination<'a> {
    /// What is said of filters here, for a request with this random number.
    pub(crate) fn filters(self, random: u64) -> &'a RouteFilters {
        const NOTHING: &RouteFilters = &RouteFilters::NONE;
        match self {
            Self::Nowhere | Self::Secure => NOTHING,
            Self::Route(route) => route.filters(random),
        }
    }
}

impl Destination<'_> {
    /// Begins the part that a request has in a trace.
    fn begin_trace(self, arrived: &mut Arrived<'_>) {
        let route = match self {
            Self::Route(route) => Some(route),
            Self::Nowhere | Self::Secure => None,
        };
        let exchange = &arrived.exchange;
        exchange.begin_trace(&mut arrived.head, route.and_then(|route| route.tracing.as_ref()));
        exchange.note(|record| record.route = route.map(|route| Arc::clone(&route.name)));
    }

    /// Makes the edits that a route wants of its backend's responses beneath an answer of the proxy's own in place of
    /// one: it is what the client gets of the route.
    pub(crate) fn edit_own<B>(self, answer: &mut Response<B>, snapshot: &Snapshot, exchange: &Exchange, head: &Head) {
        let Self::Route(route) = self else { return };
        let Action::Forward(settings) = &route.action else {
            return;
        };
        let steps = settings.response_edits(route, head.random);
        if steps.is_empty() {
            return;
        }
        let cluster = forward::cluster(snapshot, route, settings, head);
        let scene = Scene {
            connection: &exchange.connection,
            cluster: cluster.as_ref().map_or("", |cluster| &cluster.name),
            route: &route.name,
        };
        edits::beneath(answer, steps, scene, head);
    }

    /// Whether a backend answers.
    pub(crate) fn is_backend(self) -> bool {
        matches!(self, Self::Route(route) if matches!(route.action, Action::Forward(_)))
    }
}

/// Serves a request by its route.
pub(super) async fn serve(mut arrived: Arrived<'_>) -> Response<ResponseBody> {
    let connection = Rc::clone(&arrived.exchange.connection);
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
    let site = Site {
        connection: &connection,
        snapshot: &snapshot,
        table,
        manager: &manager,
    };
    let destination = site.find(&arrived);
    if manager.tracing.is_some() {
        destination.begin_trace(&mut arrived);
    }
    let said = destination.filters(arrived.head.random);
    if said.is_empty() && !manager.filters.acts_alone() {
        return site.go(destination, arrived).await;
    }
    let chain = Chain::new(&manager.filters, destination, &arrived.head);
    if chain.is_empty() {
        return site.go(destination, arrived).await;
    }
    // Boxed: requests that no filter acts on don't come here.
    Box::pin(chain.run(&site, destination, arrived)).await
}

impl<'a> Site<'a> {
    /// Where a request is to go.
    pub(crate) fn find(&self, arrived: &Arrived<'_>) -> Destination<'a> {
        let head = &arrived.head;
        let Some(host) = self.table.and_then(|table| table.virtual_host(head.authority_text())) else {
            return Destination::Nowhere;
        };
        if needs_tls(self.connection, host.require_tls, arrived.notes.internal) {
            return Destination::Secure;
        }
        let Some(route) = host.find(&head.view()) else {
            return Destination::Nowhere;
        };
        arrived
            .exchange
            .note(|record| record.route = Some(Arc::clone(&route.name)));
        Destination::Route(route)
    }

    /// Notes the cluster that a request would have gone to: so logs tell for which backend one is refused.
    pub(crate) fn note_cluster(&self, destination: Destination<'_>, arrived: &Arrived<'_>) {
        let Destination::Route(route) = destination else { return };
        let Action::Forward(settings) = &route.action else {
            return;
        };
        arrived.exchange.note(|record| {
            record.upstream.cluster = forward::cluster(self.snapshot, route, settings, &arrived.head);
        });
    }

    /// Goes there.
    pub(crate) async fn go(&self, destination: Destination<'a>, mut arrived: Arrived<'a>) -> Response<ResponseBody> {
        let (connection, cells, audience) = (self.connection, self.connection.cells(), arrived.audience);
        let head = &mut arrived.head;
        // As in Envoy: of what filters before have let through, wherever it goes.
        cells.rq_total.inc();
        let route = match destination {
            Destination::Nowhere => {
                cells.no_route.inc();
                arrived.exchange.note(|record| record.fault(Fault::NoRoute));
                return local_reply::of_fault(Fault::NoRoute, audience);
            }
            Destination::Secure => {
                arrived
                    .exchange
                    .note(|record| record.details = "direct_response".into());
                return answer_securely(head, audience);
            }
            Destination::Route(route) => route,
        };
        if let Some(trace) = arrived.exchange.trace() {
            trace.follow(route.tracing.as_ref());
        }
        arrived
            .exchange
            .note(|record| record.details = "direct_response".into());
        match &route.action {
            Action::Redirect(redirect) => {
                cells.rq_redirect.inc();
                answer_redirect(connection, route, redirect, head, audience)
            }
            Action::Direct(direct) => {
                cells.rq_direct_response.inc();
                answer_directly(&arrived.exchange, route, direct, head, audience, &arrived.metadata)
            }
            Action::Forward(settings) => forward::forward(self.snapshot, route, settings, arrived).await,
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

fn answer_securely(head: &Head, audience: Audience) -> Response<ResponseBody> {
    let https = Redirect {
        status: StatusCode::MOVED_PERMANENTLY,
        scheme: Some(RedirectScheme::Https),
        host: None,
        port: None,
        path: None,
        strip_query: false,
    };
    let everything = PathCondition::Prefix("/".into());
    redirect_to(https.status, &rewrite::location(&https, &everything, head), audience)
}

fn answer_redirect(
    connection: &Connection,
    route: &Route,
    redirect: &Redirect,
    head: &Head,
    audience: Audience,
) -> Response<ResponseBody> {
    let scene = Scene {
        connection,
        cluster: "",
        route: &route.name,
    };
    let location = rewrite::location(redirect, &route.path, head);
    let mut response = redirect_to(redirect.status, &location, audience);
    edits::edit_response(response.headers_mut(), &route.response_headers, scene, head);
    response
}

fn answer_directly(
    exchange: &Exchange,
    route: &Route,
    direct: &DirectResponse,
    head: &Head,
    audience: Audience,
    metadata: &Metadata,
) -> Response<ResponseBody> {
    let connection = &*exchange.connection;
    let scene = Scene {
        connection,
        cluster: "",
        route: &route.name,
    };
    let body = match &direct.body {
        DirectBody::Constant(body) => body.clone(),
        DirectBody::Format(format) => {
            let manager = connection.manager();
            let client = access_log::Client::of(connection, &manager);
            let course = Course {
                route: Some(Arc::clone(&route.name)),
                // As in Envoy: why is said once there is an answer.
                details: "".into(),
                metadata: metadata.clone(),
                ..exchange.course()
            };
            access_log::body(format, client, head, course, None).into()
        }
    };
    let mut response = local_reply::text(direct.status, body, direct.content_type.clone(), audience);
    edits::edit_response(response.headers_mut(), &route.response_headers, scene, head);
    if audience == Audience::Grpc {
        // As in Envoy: whatever a route says of the content that others get.
        local_reply::say_grpc(response.headers_mut());
    }
    response
}
