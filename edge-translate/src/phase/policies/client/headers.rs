//! Headers of clients.

use super::Problems;
use crate::{
    api::{
        HeaderSettings, HttpHeader,
        client_headers::{
            HeaderFilter, RequestIdAction, WithUnderscoresAction, XForwardedClientCert, XfccCertData, XfccForwardMode,
        },
        string_match::StringMatchType,
    },
    phase::{
        header::{WHOSE_FRAMING, is_framing},
        policies::text_match::text_match,
    },
};
use edge_ir::{
    CertificateDetail, ClientHeaders, ForwardedCertificate, ForwardedCertificateMode, HeaderMutation, OwnHeaders,
    RequestId, TrailingDot, Underscores,
};
use std::sync::Arc;

const AREA: &str = "Headers";

/// How a policy treats headers.
pub(super) fn headers(headers: &HeaderSettings, problems: &mut Problems) -> ClientHeaders {
    ClientHeaders {
        max_request_kib: max_request_kib(headers, problems),
        underscores: match &headers.with_underscores_action {
            None | Some(WithUnderscoresAction::RejectRequest) => Underscores::Refused,
            Some(WithUnderscoresAction::DropHeader) => Underscores::Dropped,
            Some(WithUnderscoresAction::Allow) => Underscores::Allowed,
            Some(WithUnderscoresAction::Other(other)) => {
                problems.add(AREA, format_args!("unsupported withUnderscoresAction {other}"));
                Underscores::default()
            }
        },
        request_id: request_id(headers, problems),
        own: match headers.enable_envoy_headers.or(headers.enable_edge_headers) {
            Some(true) | None => OwnHeaders::Added,
            Some(false) => OwnHeaders::Suppressed,
        },
        client_certificate: headers
            .x_forwarded_client_cert
            .as_deref()
            .map(|it| forwarded_certificate(it, problems))
            .unwrap_or_default(),
        trailing_host_dot: match &headers.host {
            Some(host) if host.strip_trailing_host_dot => TrailingDot::Stripped,
            Some(_) | None => TrailingDot::Kept,
        },
        early_request: mutations(
            "EarlyRequestHeaders",
            headers.early_request_headers.as_deref(),
            problems,
        ),
    }
}

/// Whole kibibytes, of which a proxy takes 8192.
fn max_request_kib(headers: &HeaderSettings, problems: &mut Problems) -> Option<u32> {
    const MOST: u64 = 8192;
    let text = headers.max_request_header_limit.as_ref()?;
    let bytes = problems.quantity(AREA, "MaxRequestHeaderLimit", Some(text))?;
    let kib = bytes.div_ceil(1024);
    if bytes < 1024 {
        let text = text.as_str();
        problems.add(
            AREA,
            format_args!("MaxRequestHeaderLimit value {text} must be at least 1Ki"),
        );
    } else if kib > MOST {
        let text = text.as_str();
        let what = format_args!("MaxRequestHeaderLimit value {text} exceeds the maximum of {MOST}Ki");
        problems.add(AREA, what);
    }
    u32::try_from(kib).ok()
}

/// The older form counts where the newer one is absent.
fn request_id(headers: &HeaderSettings, problems: &mut Problems) -> RequestId {
    match (&headers.request_id, headers.preserve_x_request_id) {
        (Some(_), Some(_)) => {
            problems.add(AREA, "preserveXRequestID and requestID cannot both be set");
            RequestId::default()
        }
        (None, Some(true)) | (Some(RequestIdAction::PreserveOrGenerate), None) => RequestId::KeptOrGenerated,
        (None, Some(false) | None) | (Some(RequestIdAction::Generate), None) => RequestId::Generated,
        (Some(RequestIdAction::Preserve), None) => RequestId::Kept,
        (Some(RequestIdAction::Disable), None) => RequestId::Disabled,
        (Some(RequestIdAction::Other(other)), None) => {
            problems.add(AREA, format_args!("unsupported requestID {other}"));
            RequestId::default()
        }
    }
}

fn forwarded_certificate(forwarded: &XForwardedClientCert, problems: &mut Problems) -> ForwardedCertificate {
    let mode = match &forwarded.mode {
        None | Some(XfccForwardMode::Sanitize) => ForwardedCertificateMode::Removed,
        Some(XfccForwardMode::ForwardOnly) => ForwardedCertificateMode::Forwarded,
        Some(XfccForwardMode::AppendForward) => ForwardedCertificateMode::Appended,
        Some(XfccForwardMode::SanitizeSet) => ForwardedCertificateMode::Replaced,
        Some(XfccForwardMode::AlwaysForwardOnly) => ForwardedCertificateMode::AlwaysForwarded,
        Some(XfccForwardMode::Other(other)) => {
            problems.add(AREA, format_args!("unsupported xForwardedClientCert.mode {other}"));
            ForwardedCertificateMode::default()
        }
    };
    let adds = matches!(
        mode,
        ForwardedCertificateMode::Appended | ForwardedCertificateMode::Replaced
    );
    let mut details: Vec<CertificateDetail> = forwarded
        .cert_details_to_add
        .iter()
        .filter_map(|detail| match detail {
            XfccCertData::Subject => Some(CertificateDetail::Subject),
            XfccCertData::Cert => Some(CertificateDetail::Certificate),
            XfccCertData::Chain => Some(CertificateDetail::Chain),
            XfccCertData::Dns => Some(CertificateDetail::Dns),
            XfccCertData::Uri => Some(CertificateDetail::Uri),
            XfccCertData::Other(other) => {
                problems.add(AREA, format_args!("unsupported certDetailsToAdd {other}"));
                None
            }
        })
        .collect();
    // Where nothing is added they have no effect. An API server refuses them then, and so nobody takes them for
    // working.
    details.retain(|_| adds);
    details.sort_unstable();
    details.dedup();
    ForwardedCertificate { mode, details }
}

/// Bytes that a proxy takes of a name or value to be written; each `%` stands for itself by being doubled.
const LONGEST: usize = 16_384;

/// An edit by the name and value of a header.
type Edit = fn(Arc<str>, Arc<str>) -> HeaderMutation;

/// Edits in the order in which they are done: what is set and added first, what is removed last. Of several entries
/// with a name the first counts.
pub(super) fn mutations(what: &str, filter: Option<&HeaderFilter>, problems: &mut Problems) -> Vec<HeaderMutation> {
    let Some(filter) = filter else {
        return Vec::new();
    };
    let mut edits = Vec::new();
    let lists: [(_, &[HttpHeader], Edit); 3] = [
        ("set", &filter.set, |name, value| HeaderMutation::Set { name, value }),
        ("add", &filter.add, |name, value| HeaderMutation::Add { name, value }),
        ("addIfAbsent", &filter.add_if_absent, |name, value| {
            HeaderMutation::AddIfAbsent { name, value }
        }),
    ];
    for (verb, list, edit) in lists {
        for (i, header) in list.iter().enumerate() {
            let is_known = |other: &HttpHeader| other.name.eq_ignore_ascii_case(&header.name);
            if list[..i].iter().any(is_known) {
                continue;
            }
            check_name(what, verb, &header.name, problems);
            let is_long = header
                .name
                .len()
                .max(header.value.len() + header.value.matches('%').count())
                > LONGEST;
            if is_long || header.value.chars().any(|c| c.is_control() && c != '\t') {
                let name = &header.name;
                problems.add(
                    AREA,
                    format_args!("{what} cannot {verb} a header with an invalid value. Header: '{name:?}'"),
                );
            }
            edits.push(edit((&*header.name).into(), (&*header.value).into()));
        }
    }
    for (i, name) in filter.remove.iter().enumerate() {
        if filter.remove[..i].contains(name) {
            continue;
        }
        check_name(what, "remove", name, problems);
        edits.push(HeaderMutation::Remove((&**name).into()));
    }
    for name in &filter.remove_on_match {
        if name.value.is_empty() {
            let what = format_args!("{what} cannot remove a header with an empty matcher value");
            problems.add(AREA, what);
            continue;
        }
        if name.r#type == StringMatchType::Exact {
            check_name(what, "remove", &name.value, problems);
        }
        edits.extend(text_match(AREA, name, problems).map(HeaderMutation::RemoveMatching));
    }
    if edits.is_empty() {
        problems.add(
            AREA,
            format_args!("{what} did not provide valid configuration to add/set/remove any headers"),
        );
    }
    edits
}

/// The parts of the request line aren't edited as headers, and a proxy refuses a configuration that does so.
fn check_name(what: &str, verb: &str, name: &str, problems: &mut Problems) {
    if name.is_empty() {
        problems.add(AREA, format_args!("{what} cannot {verb} a header with an empty name"));
    } else if name.contains(['/', ':']) {
        problems.add(
            AREA,
            format_args!("{what} cannot {verb} a header with a '/' or ':' character in them. Header: '{name:?}'"),
        );
    } else if name.eq_ignore_ascii_case("host") {
        problems.add(AREA, format_args!("{what} cannot {verb} the Host header"));
    } else if is_framing(name) {
        problems.add(AREA, format_args!("{what} cannot {verb} {name}: {WHOSE_FRAMING}"));
    } else {
        problems.token(AREA, what, name);
    }
}
