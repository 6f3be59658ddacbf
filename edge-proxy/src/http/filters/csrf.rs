//! Requests that another site has forged, as Envoy's `csrf` refuses them.
//!
//! A request that changes something must say that it comes from the site that it goes to, or from one that is
//! trusted. Browsers say so in `origin`, older ones in `referer`; who says nothing is refused.

use http::header::{ORIGIN, REFERER};
use http::uri::{Authority, Uri};
use http::{HeaderName, Method, StatusCode};

use crate::config::filter::csrf::SiteCheck;
use crate::http::Arrived;
use crate::http::filters::Flow;
use crate::message::head::Head;

/// Lets a request through that comes from where it may.
pub(super) fn request(check: &SiteCheck, arrived: &Arrived<'_>) -> Flow {
    let (head, random) = (&arrived.head, arrived.exchange.connection.worker.random.next());
    let changes = [Method::POST, Method::PUT, Method::DELETE, Method::PATCH].contains(&head.method);
    if !changes || !check.enforced.takes(random) || is_known(check, head) {
        return Flow::Continue;
    }
    Flow::refuse(arrived, StatusCode::FORBIDDEN, "Invalid origin", "csrf_origin_mismatch")
}

fn is_known(check: &SiteCheck, head: &Head) -> bool {
    let source = site(head, &ORIGIN)
        .filter(|site| !site.is_empty())
        .or_else(|| site(head, &REFERER))
        .unwrap_or_default();
    (!source.is_empty() && source == head.authority_text())
        || check.trusted.iter().any(|condition| condition.matches(&source))
}

/// Host and port of the URL in a field; what is none stays as it is.
fn site(head: &Head, name: &HeaderName) -> Option<String> {
    let text = head.headers.get(name)?.to_str().ok()?;
    let authority = text.parse::<Uri>().ok().filter(|uri| uri.scheme().is_some());
    let authority = authority.as_ref().and_then(Uri::authority).map(Authority::as_str);
    // Not who asks.
    let host = authority.map(|authority| authority.rsplit_once('@').map_or(authority, |(_, host)| host));
    Some(host.unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::config::header::StringCondition;
    use crate::config::route::Fraction;

    #[test]
    fn a_request_says_where_it_comes_from() {
        let check = SiteCheck {
            enforced: Fraction {
                numerator: 1,
                denominator: 1,
            },
            trusted: [StringCondition::Suffix(".trusted.example".into())].into(),
        };
        let known = |fields: &[(HeaderName, &'static str)]| {
            let mut head = Head::empty();
            head.authority = HeaderValue::from_static("www.example:8443");
            for (name, value) in fields {
                head.headers.insert(name, HeaderValue::from_static(value));
            }
            is_known(&check, &head)
        };
        assert!(known(&[(ORIGIN, "https://www.example:8443")]));
        assert!(known(&[(REFERER, "https://www.example:8443/page?a")]));
        assert!(known(&[(ORIGIN, "http://a.trusted.example")]));
        assert!(!known(&[]) && !known(&[(ORIGIN, "null")]) && !known(&[(ORIGIN, "")]));
        assert!(!known(&[(ORIGIN, "https://www.example")]));
        // The origin counts where there is one.
        assert!(!known(&[
            (ORIGIN, "https://bad.example"),
            (REFERER, "https://www.example:8443/")
        ]));
        assert!(!known(&[(ORIGIN, "https://www.example:8443@bad.example")]));
    }
}
