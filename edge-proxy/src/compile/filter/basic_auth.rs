//! BasicAuth → [`BasicAuth`], and the users of a route.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use envoy_types::pb::envoy::config::core::v3::DataSource;
use envoy_types::pb::envoy::extensions::filters::http::basic_auth::v3::{BasicAuth as ProtoAuth, BasicAuthPerRoute};
use envoy_types::pb::google::protobuf::Any;
use http::header;

use crate::compile::Context;
use crate::compile::field::{At, Rejection, fields, unpack};
use crate::compile::files::{self, Files};
use crate::compile::template::header_name;
use crate::config::filter::basic_auth::{BasicAuth, Users};
use crate::config::filter::{FilterKind, FilterSettings};

/// Compiles the filter of a chain.
pub(super) fn on_chain(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterKind, Rejection> {
    let message: ProtoAuth = unpack(at, config)?;
    fields!(at, &message => ProtoAuth {
        users, forward_username_header, authentication_header;
        ignore;
        refuse allow_missing, emit_dynamic_metadata
    });
    let named = |field: &str, name: &str| header_name(&at.field(field), name);
    Ok(FilterKind::BasicAuth(BasicAuth {
        users: self::users(&at.field("users"), users.as_ref(), &*context.files)?,
        user_header: (!forward_username_header.is_empty())
            .then(|| named("forward_username_header", forward_username_header))
            .transpose()?,
        carrier: if authentication_header.is_empty() {
            header::AUTHORIZATION
        } else {
            named("authentication_header", authentication_header)?
        },
    }))
}

/// Compiles what a route says.
pub(super) fn of_route(at: &At<'_>, config: &Any, context: &mut Context) -> Result<FilterSettings, Rejection> {
    let message: BasicAuthPerRoute = unpack(at, config)?;
    fields!(at, &message => BasicAuthPerRoute { users; ignore; refuse });
    self::users(&at.field("users"), users.as_ref(), &*context.files).map(FilterSettings::BasicAuth)
}

/// Lines of htpasswd with SHA-1, the one form that Envoy takes. What is wrong is told without the line: it is a secret.
fn users(at: &At<'_>, source: Option<&DataSource>, files: &dyn Files) -> Result<Users, Rejection> {
    let Some(source) = source else {
        return Err(at.error("is required"));
    };
    let text = String::from_utf8(files::bytes(at, source, files)?).map_err(|_| at.error("is not UTF-8"))?;
    let mut users = Users::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end_matches('\r');
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |what: &str| at.error(format!("line {}: {what}", index + 1));
        let (name, hash) = line
            .split_once(':')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| wrong("user:{SHA}hash is expected"))?;
        let hash = hash
            .strip_prefix("{SHA}")
            .ok_or_else(|| wrong("a password must be hashed by {SHA}"))?;
        let hash = STANDARD.decode(hash).ok().and_then(|hash| hash.try_into().ok());
        let hash = hash.ok_or_else(|| wrong("the hash is not a SHA-1 in base64"))?;
        if users.insert(name.into(), hash).is_some() {
            return Err(wrong("this user is there already"));
        }
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;

    use super::*;
    use crate::compile::files::Disk;

    fn read(text: &str) -> Result<Users, Rejection> {
        let source = DataSource {
            specifier: Some(Specifier::InlineString(text.to_owned())),
            ..DataSource::default()
        };
        users(&At::root(), Some(&source), &Disk)
    }

    #[test]
    fn lines_of_htpasswd_are_read() {
        let users = read("# us\n\nann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\r\nbob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n");
        assert_eq!(users.map(|users| users.len()), Ok(2));
        for bad in [
            "ann",
            ":{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
            "ann:$apr1$x",
            "ann:{SHA}5en6",
            "a:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\na:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
