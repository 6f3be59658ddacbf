//! An extension service, written by its description (`edge-runtime/proto/extension`) and nothing else.

use crate::policies::GrpcPeer;
use anyhow::Result;
use envoy_types::pb::{
    envoy::{
        config::{
            cluster::v3::{CircuitBreakers, Cluster, circuit_breakers::Thresholds},
            core::v3::{
                Address, HeaderValue, HeaderValueOption, SocketAddress, address, socket_address::PortSpecifier,
            },
            endpoint::v3::{
                ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
            },
            listener::v3::{Listener, filter::ConfigType},
            route::v3::{Route, RouteConfiguration, VirtualHost},
        },
        extensions::{
            filters::network::http_connection_manager::v3::HttpConnectionManager, transport_sockets::tls::v3::Secret,
        },
    },
    google::protobuf::{Any, UInt32Value},
};
use futures_util::future::BoxFuture;
use prost::Message;
use serde_json::Value;
use std::{
    convert::Infallible,
    future::{Ready, ready},
    marker::PhantomData,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::watch;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    server::{Grpc, NamedService, UnaryService},
    transport::Server,
};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
struct ExtensionResource {
    #[prost(bytes = "vec", tag = "1")]
    unstructured_bytes: Vec<u8>,
}

impl ExtensionResource {
    /// The name of the object, and what it says.
    fn told(&self) -> Option<String> {
        let object: Value = serde_json::from_slice(&self.unstructured_bytes).ok()?;
        Some(format!(
            "{}={}",
            object["metadata"]["name"].as_str()?,
            object["spec"]["says"].as_str()?
        ))
    }
}

#[derive(Clone, PartialEq, Message)]
struct RouteContext {
    #[prost(message, repeated, tag = "1")]
    extension_resources: Vec<ExtensionResource>,
    #[prost(string, repeated, tag = "2")]
    hostnames: Vec<String>,
    #[prost(message, repeated, tag = "3")]
    extension_policies: Vec<ExtensionResource>,
}

#[derive(Clone, PartialEq, Message)]
struct ListenerContext {
    #[prost(message, repeated, tag = "1")]
    extension_resources: Vec<ExtensionResource>,
}

#[derive(Clone, PartialEq, Message)]
struct RouteRequest {
    #[prost(message, optional, tag = "1")]
    route: Option<Route>,
    #[prost(message, optional, tag = "2")]
    post_route_context: Option<RouteContext>,
}

#[derive(Clone, PartialEq, Message)]
struct HostRequest {
    #[prost(message, optional, tag = "1")]
    virtual_host: Option<VirtualHost>,
}

#[derive(Clone, PartialEq, Message)]
struct ListenerRequest {
    #[prost(message, optional, tag = "1")]
    listener: Option<Listener>,
    #[prost(message, optional, tag = "2")]
    post_listener_context: Option<ListenerContext>,
}

#[derive(Clone, PartialEq, Message)]
struct BackendContext {
    #[prost(message, repeated, tag = "1")]
    backend_extension_resources: Vec<ExtensionResource>,
}

impl BackendContext {
    fn told(&self) -> Vec<String> {
        let backends = self.backend_extension_resources.iter();
        backends.filter_map(ExtensionResource::told).collect()
    }
}

#[derive(Clone, PartialEq, Message)]
struct ClusterRequest {
    #[prost(message, optional, tag = "1")]
    cluster: Option<Cluster>,
    #[prost(message, optional, tag = "2")]
    post_cluster_context: Option<BackendContext>,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointsRequest {
    #[prost(message, optional, tag = "1")]
    load_assignment: Option<ClusterLoadAssignment>,
    #[prost(message, optional, tag = "2")]
    post_endpoints_context: Option<BackendContext>,
}

#[derive(Clone, PartialEq, Message)]
struct AllRequest {
    #[prost(message, repeated, tag = "2")]
    clusters: Vec<Cluster>,
    #[prost(message, repeated, tag = "3")]
    secrets: Vec<Secret>,
    #[prost(message, repeated, tag = "4")]
    listeners: Vec<Listener>,
    #[prost(message, repeated, tag = "5")]
    routes: Vec<RouteConfiguration>,
}

#[derive(Clone, PartialEq, Message)]
struct AllResponse {
    #[prost(message, repeated, tag = "1")]
    clusters: Vec<Cluster>,
    #[prost(message, repeated, tag = "2")]
    secrets: Vec<Secret>,
    #[prost(message, repeated, tag = "3")]
    listeners: Vec<Listener>,
    #[prost(message, repeated, tag = "4")]
    routes: Vec<RouteConfiguration>,
}

/// What the service does from now on.
#[derive(Clone, Debug, Default)]
pub(super) struct Says {
    /// What clients of each route are told, and each route's domains.
    pub(super) by_route: &'static str,
    /// What clients of each host are told.
    pub(super) by_host: &'static str,
    /// The largest head of a request, in KiB.
    pub(super) head: Option<u32>,
    /// Routes whose name holds this are refused.
    pub(super) refused: Option<&'static str>,
    /// No request gets a place in a cluster whose name holds this.
    pub(super) full: Option<&'static str>,
}

/// A running service and what it was asked.
#[derive(Clone, Default)]
pub(super) struct Service {
    says: Arc<watch::Sender<Says>>,
    calls: Arc<watch::Sender<Vec<String>>>,
}

impl Service {
    pub(super) fn start_on(&self, port: u16) -> Result<GrpcPeer> {
        GrpcPeer::serving_on(port, Server::builder().add_service(self.clone()))
    }

    pub(super) fn say(&self, says: Says) {
        self.says.send_replace(says);
    }

    /// How often it was asked about resources whose name holds a text.
    pub(super) fn calls(&self, about: &str) -> usize {
        self.calls.borrow().iter().filter(|name| name.contains(about)).count()
    }

    fn called(&self, about: &str) -> Says {
        self.calls.send_modify(|calls| calls.push(about.to_owned()));
        self.says.borrow().clone()
    }

    fn route(&self, request: RouteRequest) -> Result<RouteRequest, Status> {
        let mut route = request.route.unwrap_or_default();
        let says = self.called(&format!("Route {}", route.name));
        if says.refused.is_some_and(|name| route.name.contains(name)) {
            return Err(Status::new(Code::Internal, "nobody knows such routes"));
        }
        let context = request.post_route_context.unwrap_or_default();
        let shown: Vec<String> = context
            .extension_resources
            .iter()
            .filter_map(ExtensionResource::told)
            .collect();
        if !shown.is_empty() {
            route.response_headers_to_add.push(header("x-shown", &shown.join(",")));
        }
        let policies: Vec<String> = context
            .extension_policies
            .iter()
            .filter_map(ExtensionResource::told)
            .collect();
        if !policies.is_empty() {
            route
                .response_headers_to_add
                .push(header("x-policies", &policies.join(",")));
        }
        let hostnames = context.hostnames.join(",");
        if !says.by_route.is_empty() {
            let told = format!("{} {hostnames}", says.by_route);
            route.response_headers_to_add.push(header("x-by-route", &told));
        }
        Ok(RouteRequest {
            route: Some(route),
            post_route_context: None,
        })
    }

    fn host(&self, request: HostRequest) -> Result<HostRequest, Status> {
        let mut host = request.virtual_host.unwrap_or_default();
        let says = self.called(&format!("VirtualHost {}", host.name));
        if says.by_host.is_empty() {
            return Ok(HostRequest::default());
        }
        host.response_headers_to_add.push(header("x-by-host", says.by_host));
        Ok(HostRequest {
            virtual_host: Some(host),
        })
    }

    fn listener(&self, request: ListenerRequest) -> Result<ListenerRequest, Status> {
        let mut listener = request.listener.unwrap_or_default();
        let says = self.called(&format!("Listener {}", listener.name));
        let context = request.post_listener_context.unwrap_or_default();
        let policies: Vec<String> = context
            .extension_resources
            .iter()
            .filter_map(ExtensionResource::told)
            .collect();
        self.called(&format!("{} with {}", listener.name, policies.join(",")));
        let chains = listener
            .filter_chains
            .iter_mut()
            .chain(&mut listener.default_filter_chain);
        for filter in chains.flat_map(|chain| &mut chain.filters) {
            let Some(ConfigType::TypedConfig(any)) = &mut filter.config_type else {
                continue;
            };
            let mut manager = HttpConnectionManager::decode(any.value.as_slice())
                .map_err(|error| Status::invalid_argument(error.to_string()))?;
            manager.max_request_headers_kb = says.head.map(|value| UInt32Value { value });
            *any = Any {
                type_url: any.type_url.clone(),
                value: manager.encode_to_vec(),
            };
        }
        Ok(ListenerRequest {
            listener: Some(listener),
            post_listener_context: None,
        })
    }

    fn cluster(&self, request: ClusterRequest) -> Result<ClusterRequest, Status> {
        let mut cluster = request.cluster.unwrap_or_default();
        let says = self.called(&format!("Cluster {}", cluster.name));
        if says.full.is_some_and(|name| cluster.name.contains(name)) {
            let none = Some(UInt32Value { value: 0 });
            cluster.circuit_breakers = Some(CircuitBreakers {
                thresholds: vec![Thresholds {
                    max_requests: none,
                    max_pending_requests: none,
                    max_connections: none,
                    ..Thresholds::default()
                }],
                ..CircuitBreakers::default()
            });
        }
        let context = request.post_cluster_context.unwrap_or_default();
        self.called(&format!("{} for {}", cluster.name, context.told().join(",")));
        Ok(ClusterRequest {
            cluster: Some(cluster),
            post_cluster_context: None,
        })
    }

    /// A backend that only the service knows is at the port of this machine that its object says.
    fn endpoints(&self, request: EndpointsRequest) -> Result<EndpointsRequest, Status> {
        let mut list = request.load_assignment.unwrap_or_default();
        let context = request.post_endpoints_context.unwrap_or_default();
        for backend in context.told() {
            let port = backend.split_once('=').and_then(|(_, port)| port.parse().ok());
            let port = port.ok_or_else(|| Status::invalid_argument(format!("{backend} is nowhere")))?;
            list.endpoints.push(LocalityLbEndpoints {
                lb_endpoints: vec![endpoint(port)],
                load_balancing_weight: Some(UInt32Value { value: 1 }),
                ..LocalityLbEndpoints::default()
            });
        }
        Ok(EndpointsRequest {
            load_assignment: Some(list),
            post_endpoints_context: None,
        })
    }

    /// Tells clients of all tables, and adds a cluster that nobody asked for.
    fn all(&self, request: AllRequest) -> Result<AllResponse, Status> {
        let says = self.called("all");
        if says.refused.is_some() {
            return Err(Status::new(Code::Internal, "not as it is"));
        }
        let AllRequest {
            mut clusters,
            secrets,
            listeners,
            mut routes,
        } = request;
        for table in &mut routes {
            table.response_headers_to_add.push(header("x-by-route", says.by_route));
        }
        clusters.push(Cluster {
            name: "added".into(),
            ..Cluster::default()
        });
        Ok(AllResponse {
            clusters,
            secrets,
            listeners,
            routes,
        })
    }
}

fn endpoint(port: u32) -> LbEndpoint {
    let address = SocketAddress {
        address: "127.0.0.1".into(),
        port_specifier: Some(PortSpecifier::PortValue(port)),
        ..SocketAddress::default()
    };
    let endpoint = Endpoint {
        address: Some(Address {
            address: Some(address::Address::SocketAddress(address)),
        }),
        ..Endpoint::default()
    };
    LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(endpoint)),
        ..LbEndpoint::default()
    }
}

fn header(name: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            value: value.to_owned(),
            ..HeaderValue::default()
        }),
        ..HeaderValueOption::default()
    }
}

impl NamedService for Service {
    const NAME: &'static str = "edgegateway.extension.EdgeGatewayExtension";
}

impl tower::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
            Ok(match &*method {
                "PostRouteModify" => answer(service, Self::route, request).await,
                "PostVirtualHostModify" => answer(service, Self::host, request).await,
                "PostHTTPListenerModify" => answer(service, Self::listener, request).await,
                "PostClusterModify" => answer(service, Self::cluster, request).await,
                "PostEndpointsModify" => answer(service, Self::endpoints, request).await,
                "PostTranslateModify" => answer(service, Self::all, request).await,
                _ => Status::unimplemented(method).into_http(),
            })
        })
    }
}

/// One method of the service.
struct Method<Q, A> {
    service: Service,
    answer: fn(&Service, Q) -> Result<A, Status>,
    is: PhantomData<(Q, A)>,
}

impl<Q, A: Message + 'static> UnaryService<Q> for Method<Q, A> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready((self.answer)(&self.service, request.into_inner()).map(Response::new))
    }
}

async fn answer<Q, A>(
    service: Service,
    answer: fn(&Service, Q) -> Result<A, Status>,
    request: http::Request<Body>,
) -> http::Response<Body>
where
    Q: Message + Default + 'static,
    A: Message + Default + 'static,
{
    let method = Method {
        service,
        answer,
        is: PhantomData,
    };
    Grpc::new(ProstCodec::<A, Q>::default()).unary(method, request).await
}
