//! The certificates of an installation in a cluster: Secrets in the controller's namespace, and the authority in the
//! configuration of our webhook.

use super::{
    Existing, OIDC_HMAC, Outcome,
    set::{self, Contents, Purpose, Renewal, SECRETS, TRUSTED, content},
};
use crate::Error;
use edge_ir::label::MANAGED_BY;
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{admissionregistration::v1::MutatingWebhookConfiguration, core::v1::Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, Error as KubeError, api::PostParams};
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// The field manager of what we write.
const FIELD_MANAGER: &str = "edge-gateway";
/// Attempts when somebody else writes at the same time.
const ATTEMPTS: usize = 5;

/// Where an installation is.
#[derive(Clone, Copy, Debug)]
pub struct Installation<'a> {
    /// Namespace of the controller.
    pub namespace: &'a str,
    /// DNS domain of the cluster.
    pub dns_domain: &'a str,
    /// Says in words what is wrong with the API server.
    pub describe: fn(&KubeError) -> String,
}

/// What became of the webhook's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Webhook {
    /// It trusts our authority, now or already before.
    Trusting,
    /// There is none.
    Absent,
}

/// Makes the Secrets, unless they are all there, agree, don't expire soon, and may stay.
pub async fn ensure_secrets(client: Client, place: &Installation<'_>, existing: Existing) -> Result<Outcome, Error> {
    let secrets: Api<Secret> = Api::namespaced(client, place.namespace);
    let mut attempt = 1;
    loop {
        match attempt_once(&secrets, place, existing).await {
            Err((_, KubeError::Api(status))) if status.code == 409 && attempt < ATTEMPTS => attempt += 1,
            Err((name, error)) => {
                let (namespace, problem) = (place.namespace, (place.describe)(&error));
                return Err(Error::Cluster(format!("Secret {namespace}/{name}: {problem}")));
            }
            Ok(done) => return done,
        }
    }
}

/// A fault of the API server, with the Secret that it is about.
type Fault = (&'static str, KubeError);

async fn attempt_once(
    secrets: &Api<Secret>,
    place: &Installation<'_>,
    existing: Existing,
) -> Result<Result<Outcome, Error>, Fault> {
    let mut there = BTreeMap::new();
    for (name, _) in SECRETS {
        if let Some(secret) = secrets.get_opt(name).await.map_err(|error| (name, error))? {
            there.insert(name, secret);
        }
    }
    let purpose = Purpose {
        namespace: place.namespace,
        dns_domain: place.dns_domain,
        further_names: &[],
        addresses: &[],
        existing,
        now: Timestamp::now(),
    };
    let Renewal { trust, leaves, outcome } = match set::renew(&contents(&there), &purpose) {
        Ok(renewal) => renewal,
        Err(error) => return Ok(Err(Error::Cluster(format!("can't make certificates: {error}")))),
    };
    // A Secret of type kubernetes.io/tls can't be without its leaf, so what is new is written as a whole.
    let (mut first, mut then) = (Contents::new(), leaves);
    for (name, files) in trust {
        let is_whole = there.contains_key(name) || !then.contains_key(name);
        let phase = if is_whole { &mut first } else { &mut then };
        phase.entry(name).or_default().extend(files);
    }
    for contents in [first, then] {
        for (name, files) in contents {
            let written = put(secrets, name, there.get(name), files).await;
            there.insert(name, written.map_err(|error| (name, error))?);
        }
    }
    Ok(Ok(outcome))
}

fn contents(there: &BTreeMap<&'static str, Secret>) -> Contents {
    let mut contents = Contents::new();
    for (name, files) in SECRETS {
        let data = there.get(name).and_then(|secret| secret.data.as_ref());
        for file in files {
            if let Some(content) = data.and_then(|data| data.get(*file)) {
                contents.entry(name).or_default().insert(file, content.0.clone());
            }
        }
    }
    contents
}

/// Writes files of a Secret; what else it holds stays.
async fn put(
    secrets: &Api<Secret>,
    name: &'static str,
    there: Option<&Secret>,
    files: BTreeMap<&'static str, Vec<u8>>,
) -> Result<Secret, KubeError> {
    let files = files
        .into_iter()
        .map(|(file, content)| (file.to_owned(), ByteString(content)));
    if let Some(there) = there {
        let mut secret = there.clone();
        secret.data.get_or_insert_default().extend(files);
        return secrets.replace(name, &parameters(), &secret).await;
    }
    let labels = [(MANAGED_BY, FIELD_MANAGER), ("control-plane", FIELD_MANAGER)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let kind = if name == OIDC_HMAC {
        "Opaque"
    } else {
        "kubernetes.io/tls"
    };
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        type_: Some(kind.to_owned()),
        data: Some(files.collect()),
        ..Secret::default()
    };
    secrets.create(&parameters(), &secret).await
}

fn parameters() -> PostParams {
    PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

/// Lets the API server trust our webhook: the authorities go into its configuration.
pub async fn trust_webhook(client: Client, place: &Installation<'_>) -> Result<Webhook, Error> {
    let name = format!("edge-gateway-topology-injector.{}", place.namespace);
    let failed = |error: KubeError| {
        let problem = (place.describe)(&error);
        Error::Cluster(format!(
            "MutatingWebhookConfiguration {name}: {problem} (--disable-topology-injector leaves it alone)"
        ))
    };
    let secrets: Api<Secret> = Api::namespaced(client.clone(), place.namespace);
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(client);
    let Some(mut configuration) = configurations.get_opt(&name).await.map_err(failed)? else {
        return Ok(Webhook::Absent);
    };
    let secret = secrets.get(super::CONTROLLER).await.map_err(failed)?;
    let there = contents(&[(super::CONTROLLER, secret)].into());
    let trusted = ByteString(content(&there, super::CONTROLLER, TRUSTED).to_vec());
    let mut has_changed = false;
    for webhook in configuration.webhooks.iter_mut().flatten() {
        let bundle = &mut webhook.client_config.ca_bundle;
        has_changed |= bundle.as_ref() != Some(&trusted);
        *bundle = Some(trusted.clone());
    }
    if has_changed {
        let replaced = configurations.replace(&name, &parameters(), &configuration).await;
        replaced.map_err(failed)?;
    }
    Ok(Webhook::Trusting)
}
