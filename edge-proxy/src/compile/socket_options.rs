//! Options of sockets, by the numbers that Linux has for them. All are set before a socket listens or connects,
//! whatever state a message names: only then does TCP go by the size of a buffer.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::socket_option::Value;
use envoy_types::pb::envoy::config::core::v3::{BindConfig, SocketOption};

use crate::compile::field::{At, Rejection, fields};
use crate::config::socket::{SocketOptions, TcpKeepalive};

const SOL_SOCKET: i64 = 1;
const SO_SNDBUF: i64 = 7;
const SO_RCVBUF: i64 = 8;
const SO_KEEPALIVE: i64 = 9;
const IPPROTO_TCP: i64 = 6;
const TCP_KEEPIDLE: i64 = 4;
const TCP_KEEPINTVL: i64 = 5;
const TCP_KEEPCNT: i64 = 6;

/// What a list of options asks for.
pub(super) fn read(list: &At<'_>, options: &[SocketOption]) -> Result<SocketOptions, Rejection> {
    let mut read = SocketOptions::default();
    let mut probes = TcpKeepalive::default();
    let mut probed = false;
    for (index, option) in options.iter().enumerate() {
        let at = &list.index(index);
        fields!(at, option => SocketOption { level, name, value; ignore description, state; refuse r#type, ip_version });
        let Some(Value::IntValue(value)) = *value else {
            return Err(at
                .field("int_value")
                .error("is required: no option that this proxy knows is of another type"));
        };
        let number = u32::try_from(value).map_err(|_| at.field("int_value").error("is no size, time or count"))?;
        let seconds = Duration::from_secs(number.into());
        match (*level, *name) {
            (SOL_SOCKET, SO_SNDBUF) => read.send_buffer = Some(number as usize),
            (SOL_SOCKET, SO_RCVBUF) => read.receive_buffer = Some(number as usize),
            (SOL_SOCKET, SO_KEEPALIVE) => probed = number != 0,
            (IPPROTO_TCP, TCP_KEEPIDLE) => probes.time = Some(seconds),
            (IPPROTO_TCP, TCP_KEEPINTVL) => probes.interval = Some(seconds),
            (IPPROTO_TCP, TCP_KEEPCNT) => probes.probes = Some(number),
            (level, name) => {
                return Err(at.error(format!("option {name} of level {level} is not supported by this proxy")));
            }
        }
    }
    read.keepalive = probed.then_some(probes);
    Ok(read)
}

/// What the sockets of a cluster are bound with.
pub(super) fn bind_config(at: &At<'_>, config: Option<&BindConfig>) -> Result<SocketOptions, Rejection> {
    let Some(config) = config else {
        return Ok(SocketOptions::default());
    };
    fields!(at, config => BindConfig {
        socket_options;
        ignore;
        refuse source_address, freebind, extra_source_addresses, additional_source_addresses, local_address_selector,
               validate_network_namespaces
    });
    read(&at.field("socket_options"), socket_options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(level: i64, name: i64, value: i64) -> SocketOption {
        SocketOption {
            level,
            name,
            value: Some(Value::IntValue(value)),
            ..Default::default()
        }
    }

    fn options(options: &[SocketOption]) -> Result<SocketOptions, String> {
        let root = At::root();
        read(&root.field("socket_options"), options).map_err(|rejection| rejection.to_string())
    }

    #[test]
    fn options_are_read_by_their_numbers() {
        let keepalive = [option(1, 9, 1), option(6, 6, 3), option(6, 4, 60), option(6, 5, 5)];
        let probes = TcpKeepalive {
            probes: Some(3),
            time: Some(Duration::from_secs(60)),
            interval: Some(Duration::from_secs(5)),
        };
        assert_eq!(options(&keepalive).unwrap().keepalive, Some(probes));
        let buffers = options(&[option(1, 7, 4096), option(1, 8, 8192)]).unwrap();
        assert_eq!((buffers.send_buffer, buffers.receive_buffer), (Some(4096), Some(8192)));
        assert_eq!(buffers.keepalive, None);
        // Times without the option that switches probes on say nothing.
        assert_eq!(options(&[option(6, 4, 60)]).unwrap().keepalive, None);
    }

    #[test]
    fn options_that_nobody_sets_here_are_refused_by_name() {
        let error = options(&[option(1, 9, 1), option(6, 23, 5)]).unwrap_err();
        assert!(
            error.contains("socket_options[1]") && error.contains("option 23 of level 6"),
            "{error}"
        );
        assert!(options(&[option(1, 7, -1)]).is_err());
    }
}
