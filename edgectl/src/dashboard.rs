//! `edgectl x dashboard`: the admin pages of a proxy or a controller in a cluster, in a browser on this machine.

use crate::cluster::{
    client,
    pods::{self, PodSelection, Running, Tunnel},
};
use anyhow::{Context, Result};
use kube::Client;
use std::{
    io::{self, IsTerminal, Write},
    net::Ipv4Addr,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    signal::ctrl_c,
    task::JoinSet,
};

/// The port that is listened on if nothing else is asked for and it is free.
const USUAL_PORT: u16 = 19000;

/// Whose pages.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum DashboardCommand {
    /// A proxy's.
    #[command(name = "envoy-proxy", visible_aliases = ["edge-proxy", "proxy", "ep"])]
    Proxy {
        /// The pod; without it, the first of --labels or of all namespaces.
        pod: Option<String>,
        /// Where from, and where to.
        #[command(flatten)]
        args: DashboardArgs,
    },
    /// A controller's.
    #[command(name = "envoy-gateway", visible_aliases = ["edge-gateway", "gateway", "eg"])]
    Gateway(DashboardArgs),
}

/// Where the pages come from, and where they are shown.
#[derive(Clone, Debug, clap::Args)]
pub struct DashboardArgs {
    /// Port of this machine; 0 is 19000, or any other if that is taken.
    #[arg(short, long, default_value_t = 0)]
    port: u16,
    #[command(flatten)]
    place: PodSelection,
}

/// Shows the pages until it is interrupted.
///
/// # Errors
/// When the cluster or the pod can't be asked, or the port is taken.
pub fn run(command: &DashboardCommand) -> Result<()> {
    let (args, which) = match command {
        DashboardCommand::Proxy { pod, args } => (args, args.place.proxies(pod.as_deref())?),
        DashboardCommand::Gateway(args) => (args, args.place.controllers()),
    };
    client::block_on(async {
        let client = args.place.connection.client().await?;
        let pod = args.place.find(&client, which).await?.swap_remove(0);
        // What can't be reached is told here rather than in the browser.
        pods::page(&client, &pod, "/").await?;
        let listener = listen(args.port).await?;
        let url = format!("http://localhost:{}", listener.local_addr()?.port());
        show(&url)?;
        tokio::select! {
            interrupted = ctrl_c() => Ok(interrupted?),
            failed = forward(&client, &pod, listener) => failed,
        }
    })
}

/// Only this machine may connect: whoever reads the pages may also stop the proxy.
async fn listen(port: u16) -> Result<TcpListener> {
    let bind = async |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    match port {
        0 => match bind(USUAL_PORT).await {
            Ok(listener) => Ok(listener),
            Err(_) => Ok(bind(0).await?),
        },
        port => bind(port)
            .await
            .with_context(|| format!("port {port} can't be listened on; --port 0 takes a free one")),
    }
}

/// Tells where the pages are, and opens them where somebody is looking.
fn show(url: &str) -> Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{url}")?;
    out.flush()?;
    if out.is_terminal() && open::that_detached(url).is_err() {
        writeln!(out, "No browser could be opened.")?;
    }
    Ok(())
}

async fn forward(client: &Client, pod: &Running, listener: TcpListener) -> Result<()> {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, pod) = (client.clone(), pod.clone());
                connections.spawn(async move { carry(&client, &pod, accepted?.0).await });
            }
            Some(ended) = connections.join_next() => {
                // One connection's end is not the command's. Standard error may be closed; nobody is left to tell then.
                if let Ok(Err(problem)) = ended {
                    let _ = writeln!(io::stderr(), "warning: {problem:#}");
                }
            }
        }
    }
}

async fn carry(client: &Client, pod: &Running, mut browser: TcpStream) -> Result<()> {
    let mut tunnel = Tunnel::open(client, pod).await?;
    // Either end may go when it likes.
    let _ = copy_bidirectional(&mut browser, &mut tunnel.stream()?).await;
    Ok(())
}
