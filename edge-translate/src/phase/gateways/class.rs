//! Whether a GatewayClass is ours, and the EdgeProxy it brings.

use super::proxy_settings::{self, ProxyProblem};
use crate::{
    api::{self, EdgeProxy},
    engine::reader::Reader,
    name::{Id, Sym},
    settings::Settings,
};
use std::sync::Arc;

/// The judgement on a class.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Class {
    /// It names another controller.
    Foreign,
    /// It names us, but its parameters can't be used. Its Gateways serve all the same, on the infrastructure that is
    /// there: a slip in an EdgeProxy must not stop traffic, nor move it.
    Refused {
        /// Why.
        error: ProxyProblem,
        /// The EdgeProxy all the same, if there is one: what of it shapes the fleet stays in force.
        proxy: Option<Arc<EdgeProxy>>,
    },
    /// It is ours.
    Accepted {
        /// Its EdgeProxy, checked.
        proxy: Option<Arc<EdgeProxy>>,
    },
}

impl Class {
    /// Its EdgeProxy, if it is ours and has one.
    pub(crate) fn proxy(&self) -> Option<&Arc<EdgeProxy>> {
        match self {
            Self::Foreign => None,
            Self::Refused { proxy, .. } | Self::Accepted { proxy } => proxy.as_ref(),
        }
    }
}

/// Judges a class; none when it doesn't exist.
pub(crate) fn class(reader: &Reader<'_>, name: Sym) -> Option<Class> {
    let id = Id {
        namespace: reader.sym(""),
        name,
    };
    let class = reader.class_object(id)?;
    if *class.spec.controller_name != *reader.settings().controller_name {
        return Some(Class::Foreign);
    }
    let Some(parameters) = &class.spec.parameters_ref else {
        return Some(default_proxy(reader.settings()));
    };
    Some(match proxy_of(reader, parameters) {
        Ok(proxy) => Class::Accepted { proxy: Some(proxy) },
        Err(error) => Class::Refused {
            error,
            proxy: named_proxy(reader, parameters),
        },
    })
}

/// What a class gets that names no parameters.
fn default_proxy(settings: &Settings) -> Class {
    let proxy = settings.edge_proxy.clone();
    match settings.check_default_proxy() {
        Ok(()) => Class::Accepted { proxy },
        Err(error) => Class::Refused {
            error: format!("edgeProxy in the controller's configuration: {error}"),
            proxy,
        },
    }
}

/// The EdgeProxy of a class, over that of the controller's configuration if it asks for that.
fn named_proxy(reader: &Reader<'_>, parameters: &api::ParametersRef) -> Option<Arc<EdgeProxy>> {
    proxy_settings::check_reference(&parameters.group, &parameters.kind).ok()?;
    let own = reader.edge_proxy(reader.id(parameters.namespace.as_deref()?, &parameters.name))?;
    let settings = reader.settings();
    Some(proxy_settings::over(own, settings.edge_proxy.as_ref(), settings))
}

fn proxy_of(reader: &Reader<'_>, parameters: &api::ParametersRef) -> Result<Arc<EdgeProxy>, ProxyProblem> {
    proxy_settings::check_reference(&parameters.group, &parameters.kind)?;
    let Some(namespace) = parameters.namespace.as_deref() else {
        return Err("namespace must be specified in parametersRef".into());
    };
    let Some(proxy) = named_proxy(reader, parameters) else {
        return Err(format!("edgeproxy {namespace}/{} not found", parameters.name));
    };
    proxy_settings::check_of_class(&proxy, reader.settings())?;
    Ok(proxy)
}
