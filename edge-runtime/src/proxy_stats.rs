//! The statistics of a proxy, as its admin interface has them (Envoy's `/stats`): what clients have open on it.

use edge_xds::names::OWN_LISTENERS;

/// Sums over a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenToClients {
    /// Connections.
    pub(crate) connections: u64,
    /// Those of them that speak HTTP.
    pub(crate) http: u64,
    /// Requests in flight.
    pub(crate) requests: u64,
}

/// What the admin interface is called in statistics of HTTP.
const ADMIN: &str = "admin";

impl OpenToClients {
    /// What a page says. The proxy's own listeners, which are known by their ports, and the shares of workers don't
    /// count.
    pub(crate) fn of(page: &str, own_ports: &[u16]) -> Self {
        let mut open = Self::default();
        for (name, count) in page.lines().filter_map(|line| line.split_once(": ")) {
            let (Some((of, figure)), Ok(count)) = (name.rsplit_once('.'), count.trim().parse::<u64>()) else {
                continue;
            };
            let listener = of.strip_prefix("listener.").filter(|at| is_for_clients(at, own_ports));
            let http = of
                .strip_prefix("http.")
                .filter(|name| *name != ADMIN && !name.starts_with(OWN_LISTENERS));
            match (listener, http, figure) {
                (Some(_), _, "downstream_cx_active") => open.connections += count,
                (_, Some(_), "downstream_cx_active") => open.http += count,
                (_, Some(_), "downstream_rq_active") => open.requests += count,
                _ => {}
            }
        }
        open
    }
}

/// Whether a listener, named by its address, is one for clients, and all of it: Envoy tells the share of each worker
/// besides, and that of its main thread, which serves the admin interface.
fn is_for_clients(at: &str, own_ports: &[u16]) -> bool {
    let last = at.rsplit('.').next().unwrap_or(at);
    let is_share = last.starts_with("worker_") || last == "main_thread";
    let port = at.rsplit_once('_').and_then(|(_, port)| port.parse::<u16>().ok());
    at != ADMIN && !is_share && !port.is_some_and(|port| own_ports.contains(&port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_clients_have_open_counts() {
        let page = "http.admin.downstream_cx_active: 1\n\
                    http.admin.downstream_rq_active: 1\n\
                    http.edge-gateway-proxy-stats.downstream_cx_active: 1\n\
                    http.http-8888.downstream_cx_active: 2\n\
                    http.http-8888.downstream_rq_active: 5\n\
                    listener.0.0.0.0_8888.downstream_cx_active: 2\n\
                    listener.0.0.0.0_8888.worker_0.downstream_cx_active: 2\n\
                    listener.127.0.0.1_41001.downstream_cx_active: 1\n\
                    listener.admin.downstream_cx_active: 1\n\
                    listener.admin.main_thread.downstream_cx_active: 1\n\
                    listener.0.0.0.0_19001.downstream_cx_active: 4\n\
                    listener.[__]_8443.downstream_cx_active: 3\n";
        let open = |connections| OpenToClients {
            connections,
            http: 2,
            requests: 5,
        };
        assert_eq!(
            OpenToClients::of(page, &[41000, 41001]),
            open(9),
            "whichever ports the proxy's own are"
        );
        assert_eq!(OpenToClients::of(page, &[19001, 41001]), open(5));
    }
}
