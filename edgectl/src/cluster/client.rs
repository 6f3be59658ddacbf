//! How a cluster is found, as `kubectl` finds it.

use anyhow::{Context as _, Result, anyhow, bail};
use kube::{
    Client, Config, Error,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::{error::Error as StdError, fmt, future::Future, path::PathBuf, sync::Arc};
use tower::{BoxError, util::MapErr};

/// Which cluster.
#[derive(Clone, Debug, clap::Args)]
pub struct Connection {
    /// File that names clusters; without it KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of that file; without it, its current one.
    #[arg(long)]
    pub context: Option<String>,
}

impl Connection {
    /// A client of the cluster.
    ///
    /// # Errors
    /// When no cluster is named, or its file can't be read.
    pub async fn client(&self) -> Result<Client> {
        let (config, named_by) = self.config().await?;
        let server = Arc::new(Server {
            address: config.cluster_url.to_string(),
            named_by,
        });
        let told = tower::layer::layer_fn(move |requests| {
            let server = Arc::clone(&server);
            MapErr::new(requests, move |error| unreached(error, &server))
        });
        Ok(ClientBuilder::try_from(config)?.with_layer(&told).build())
    }

    /// How to speak with the cluster, and what names it.
    async fn config(&self) -> Result<(Config, String)> {
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let file = match read {
            Ok(file) => file,
            Err(error) => {
                // Inside of a cluster there is none, and none is needed.
                let asked_for = self.kubeconfig.is_some() || self.context.is_some();
                return match Config::incluster() {
                    Ok(config) if !asked_for => Ok((config, "the ServiceAccount of this pod".to_owned())),
                    _ => Err(anyhow!("no cluster is known: {error}; set KUBECONFIG or --kubeconfig")),
                };
            }
        };
        let place = self.place();
        let context = context(&file, self.context.as_deref()).with_context(|| place.clone())?;
        let named_by = format!("context {context} of {place}");
        let options = KubeConfigOptions {
            context: Some(context),
            ..KubeConfigOptions::default()
        };
        match Config::from_custom_kubeconfig(file, &options).await {
            Ok(config) => Ok((config, named_by)),
            // The words of the error hold those of its causes.
            Err(error) => Err(anyhow!("{named_by}: {error}")),
        }
    }

    /// Where contexts are read from.
    fn place(&self) -> String {
        match (&self.kubeconfig, std::env::var("KUBECONFIG")) {
            (Some(path), _) => path.display().to_string(),
            (None, Ok(paths)) if !paths.is_empty() => paths,
            (None, _) => "~/.kube/config".to_owned(),
        }
    }
}

/// The context that is meant.
fn context(file: &Kubeconfig, asked: Option<&str>) -> Result<String> {
    let known: Vec<&str> = file.contexts.iter().map(|context| &*context.name).collect();
    let choice = match known.as_slice() {
        [] => "it has none: is it the right file".to_owned(),
        known => format!("it has {}", known.join(", ")),
    };
    let current = file.current_context.as_deref().filter(|name| !name.is_empty());
    match asked.or(current) {
        Some(name) if known.contains(&name) => Ok(name.to_owned()),
        Some(name) => bail!("there is no context {name:?}; {choice}"),
        None => bail!("no context is the current one: choose one by --context; {choice}"),
    }
}

/// A cluster as somebody names it.
#[derive(Debug)]
struct Server {
    address: String,
    /// Where the address stands.
    named_by: String,
}

/// Nobody answers there.
#[derive(Debug)]
struct Unreached {
    server: Arc<Server>,
    cause: BoxError,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Server { address, named_by } = &*self.server;
        let mut why: &dyn StdError = &*self.cause;
        while let Some(deeper) = why.source() {
            why = deeper;
        }
        write!(
            f,
            "the cluster can't be reached at {address} ({named_by}): {why}; start it, or name another one by --kubeconfig or \
             --context"
        )
    }
}

impl StdError for Unreached {}

/// Says of an error of the connection which server it is about. What went wrong before a request was sent is about
/// something else, such as credentials.
fn unreached(error: BoxError, server: &Arc<Server>) -> BoxError {
    match error.is::<Error>() {
        true => error,
        false => Box::new(Unreached {
            server: Arc::clone(server),
            cause: error,
        }),
    }
}

/// Runs a command that waits for a cluster.
///
/// # Errors
/// Those of the command.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// What a cluster says about a request, and what to do.
pub fn explain(error: Error, what: &str) -> anyhow::Error {
    match error {
        Error::Api(status) => match status.code {
            401 => anyhow!(
                "{what}: the cluster doesn't know you ({}); log in again",
                status.message
            ),
            403 => anyhow!(
                "{what}: not allowed: {}. Use an account with that permission, e.g. one bound to ClusterRole \
                 cluster-admin",
                status.message
            ),
            // Of a kind that it doesn't know, it names no object.
            404 if status.details.as_ref().is_none_or(|details| details.name.is_empty()) => {
                anyhow!("{what}: the cluster doesn't know this kind: {}", status.message)
            }
            _ => anyhow!("{what}: {}", status.message),
        },
        // Whatever was asked for, that is another matter.
        Error::Service(error) if error.is::<Unreached>() => anyhow!("{error}"),
        other => anyhow::Error::new(other).context(format!("{what}: the cluster can't be asked")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;
    use serde_json::json;
    use std::fs;

    fn said(text: &str, context: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, text).unwrap();
        let connection = Connection {
            kubeconfig: Some(path.clone()),
            context: context.map(str::to_owned),
        };
        let asked = block_on(async {
            let client = connection.client().await?;
            let version = client.apiserver_version().await;
            version.map(drop).map_err(|error| explain(error, "the version"))
        });
        let error = format!("{:#}", asked.unwrap_err());
        error.replace(&path.display().to_string(), "FILE")
    }

    #[test]
    fn an_object_that_is_not_there_is_no_unknown_kind() {
        let said = |name: &str, message: &str| {
            let details = json!({ "name": name });
            let status = json!({ "status": "Failure", "message": message, "code": 404, "details": details });
            let status: Status = serde_json::from_value(status).unwrap();
            explain(Error::Api(status.boxed()), "it can't be applied").to_string()
        };
        assert_eq!(
            said("a2", "namespaces \"a2\" not found"),
            "it can't be applied: namespaces \"a2\" not found"
        );
        assert_eq!(
            said("", "the server could not find the requested resource"),
            "it can't be applied: the cluster doesn't know this kind: the server could not find the requested resource"
        );
    }

    /// One that names this address.
    fn file(address: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- {{name: here, context: {{cluster: c, user: u}}}}\n\
             - {{name: there, context: {{cluster: c, user: u}}}}\nclusters:\n- {{name: c, cluster: {{server: '{address}'}}}}\n\
             users:\n- {{name: u, user: {{}}}}\n"
        )
    }

    #[test]
    fn a_cluster_that_cannot_be_reached_is_told_with_its_address_and_what_names_it() {
        // Nobody listens there any more.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        assert_eq!(
            said(&file(&format!("http://127.0.0.1:{port}")), Some("there")),
            format!(
                "the cluster can't be reached at http://127.0.0.1:{port}/ (context there of FILE): Connection refused (os \
                 error 111); start it, or name another one by --kubeconfig or --context"
            )
        );
    }

    #[test]
    fn what_is_wrong_with_a_kubeconfig_is_told_once_with_its_file() {
        let whole = file("http://127.0.0.1:1");
        assert_eq!(
            said(&whole, Some("nope")),
            "FILE: there is no context \"nope\"; it has here, there"
        );
        assert_eq!(
            said(&whole.replace("current-context: here\n", ""), None),
            "FILE: no context is the current one: choose one by --context; it has here, there"
        );
        let empty = "apiVersion: v1\nkind: Config\n";
        assert_eq!(
            said(empty, None),
            "FILE: no context is the current one: choose one by --context; it has none: is it the right file"
        );
        let absent = Connection {
            kubeconfig: Some("/nowhere/config".into()),
            context: None,
        };
        let error = format!("{:#}", block_on(absent.client()).map(drop).unwrap_err());
        assert_eq!(error.matches("No such file").count(), 1, "{error}");
    }
}
