//! Where the connection manager finds the address of a client → [`ClientAddress`].

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;
use envoy_types::pb::envoy::extensions::http::original_ip_detection::custom_header::v3::CustomHeaderConfig;
use envoy_types::pb::envoy::extensions::http::original_ip_detection::xff::v3::{XffConfig, XffTrustedCidrs};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use http::{HeaderName, StatusCode};

use crate::compile::field::{At, Rejection, fields, is, truth, unpack};
use crate::compile::http::{address_ranges, internal_ranges};
use crate::config::address::{ClientAddress, Detection};

/// Compiles the fields of a manager that say so.
pub(super) fn client_address(at: &At<'_>, manager: &HttpConnectionManager) -> Result<ClientAddress, Rejection> {
    let use_remote_address = truth(manager.use_remote_address.as_ref());
    let detection = detection(
        &at.field("original_ip_detection_extensions"),
        &manager.original_ip_detection_extensions,
    )?;
    if detection.is_some() && (use_remote_address || manager.xff_num_trusted_hops > 0) {
        let at = at.field("original_ip_detection_extensions");
        return Err(at.error("can't be used with use_remote_address or xff_num_trusted_hops"));
    }
    Ok(ClientAddress {
        use_remote_address,
        xff_trusted_hops: manager.xff_num_trusted_hops,
        skip_xff_append: manager.skip_xff_append,
        internal_ranges: internal_ranges(at, manager.internal_address_config.as_ref())?,
        detection,
    })
}

fn detection(at: &At<'_>, list: &[TypedExtensionConfig]) -> Result<Option<Detection>, Rejection> {
    let [extension] = list else {
        return match list {
            [] => Ok(None),
            _ => Err(at.error("more than one is not supported by this proxy")),
        };
    };
    let at = at.index(0);
    let at = at.field("typed_config");
    let Some(config) = &extension.typed_config else {
        return Err(at.error("is required"));
    };
    let found = match is::<XffConfig>(config) {
        true => networks(&at, &unpack(&at, config)?),
        false => header(&at, &unpack(&at, config)?),
    };
    found.map(Some)
}

fn networks(at: &At<'_>, message: &XffConfig) -> Result<Detection, Rejection> {
    fields!(at, message => XffConfig { xff_trusted_cidrs, skip_xff_append; ignore; refuse xff_num_trusted_hops });
    let at = at.field("xff_trusted_cidrs");
    let Some(trusted) = xff_trusted_cidrs else {
        return Err(at.error("is required by this proxy"));
    };
    fields!(&at, trusted => XffTrustedCidrs { cidrs; ignore; refuse });
    Ok(Detection::Networks {
        trusted: address_ranges(&at.field("cidrs"), cidrs)?,
        skip_append: skip_xff_append.as_ref().is_none_or(|skip| skip.value),
    })
}

fn header(at: &At<'_>, message: &CustomHeaderConfig) -> Result<Detection, Rejection> {
    fields!(at, message => CustomHeaderConfig {
        header_name, allow_extension_to_set_address_as_trusted, reject_with_status; ignore; refuse
    });
    let name = HeaderName::try_from(header_name.as_str());
    Ok(Detection::Header {
        name: name.map_err(|_| at.field("header_name").error(format!("{header_name:?} is not a name")))?,
        is_trusted: *allow_extension_to_set_address_as_trusted,
        missing: reject_with_status.as_ref().map(refusal),
    })
}

/// Any code that isn't of an error means 403, as with Envoy.
fn refusal(message: &HttpStatus) -> StatusCode {
    let status = u16::try_from(message.code).ok();
    let status = status.and_then(|code| StatusCode::from_u16(code).ok());
    let error = status.filter(|status| status.is_client_error() || status.is_server_error());
    error.unwrap_or(StatusCode::FORBIDDEN)
}
