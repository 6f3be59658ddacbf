//! Which coding a client gets: the one that it likes best of those that are offered (RFC 9110 §12.5.3).

use crate::config::filter::compressor::{Compressor, Encoding};

/// What becomes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It stays as it is.
    Identity,
    /// It is compressed so.
    Encoding(Encoding),
}

/// A coding that a client names.
struct Wish<'t> {
    name: &'t str,
    quality: f32,
}

/// Decides by what a client says, and by the compressors that are for the type of the response.
pub(super) fn choose(accepted: &str, offers: &[&Compressor], media_type: Option<&str>) -> Decision {
    let media_type = media_type.filter(|media_type| !media_type.is_empty());
    let wishes: Vec<_> = accepted.split(',').filter_map(wish).collect();
    let mut offered: Vec<&Compressor> = Vec::new();
    for offer in offers {
        let is_refused = wishes
            .iter()
            .any(|wish| wish.quality == 0.0 && wish.name == offer.encoding.name());
        // Of two for one coding the first counts.
        let is_there = offered.iter().any(|other| other.encoding == offer.encoding);
        if offer.is_for(media_type) && !is_refused && !is_there {
            offered.push(offer);
        }
    }
    let Some(first) = offered.first() else {
        return Decision::Identity;
    };
    let mut best = (Decision::Identity, 0.0);
    for wish in &wishes {
        let offer = offered.iter().find(|offer| offer.encoding.name() == wish.name);
        let decision = match (offer, wish.name) {
            (Some(offer), _) => Decision::Encoding(offer.encoding),
            (None, "identity") => Decision::Identity,
            (None, "*") => Decision::Encoding(first.encoding),
            (None, _) => continue,
        };
        let is_first = wish.quality == best.1 && offer.is_some_and(|offer| offer.is_first);
        if wish.quality > best.1 || is_first {
            best = (decision, wish.quality);
        }
    }
    best.0
}

/// A member of the list; none where its quality is no number.
fn wish(member: &str) -> Option<Wish<'_>> {
    let (name, parameters) = match member.split_once(';') {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (member, None),
    };
    let quality = parameters
        .and_then(|parameters| parameters.split_once('='))
        .filter(|(key, _)| key.trim().eq_ignore_ascii_case("q"))
        .map_or(Some(1.0), |(_, value)| value.trim().parse().ok())?;
    let name = name.trim();
    (!name.is_empty()).then_some(Wish { name, quality })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressor(encoding: Encoding, is_first: bool) -> Compressor {
        Compressor {
            encoding,
            min_length: 30,
            media_types: ["text/plain".into()].into(),
            is_first,
            keeps_tagged: false,
            hides_accepted: false,
        }
    }

    #[test]
    fn the_best_of_what_is_offered_is_chosen() {
        let (gzip, brotli) = (compressor(Encoding::Gzip, true), compressor(Encoding::Brotli, false));
        let identity = Decision::Identity;
        let (gzip_it, brotli_it) = (Decision::Encoding(Encoding::Gzip), Decision::Encoding(Encoding::Brotli));
        for (accepted, wanted) in [
            ("gzip", gzip_it),
            ("br", brotli_it),
            // Of equals the preferred one, wherever it stands.
            ("br, gzip", gzip_it),
            ("gzip, br", gzip_it),
            ("gzip;q=0.5, br", brotli_it),
            ("gzip;q=0.5, br;Q=0.6", brotli_it),
            ("gzip; q = 0.7 , br;q=0.6", gzip_it),
            // Whoever is first on the chain.
            ("*", brotli_it),
            ("br;q=0, *", gzip_it),
            ("gzip;q=0, br;q=0, *", identity),
            ("deflate, *;q=0.1", brotli_it),
            ("identity, br;q=0.9", identity),
            ("identity;q=0.5, br;q=0.9", brotli_it),
            ("deflate", identity),
            ("gzip;q=0", identity),
            ("gzip;q=much", identity),
            ("", identity),
            (",,", identity),
            ("x-gzip", identity),
        ] {
            assert_eq!(
                choose(accepted, &[&brotli, &gzip], Some("text/plain")),
                wanted,
                "{accepted:?}"
            );
        }
    }

    #[test]
    fn compressors_for_other_types_offer_nothing() {
        let gzip = compressor(Encoding::Gzip, false);
        let choose = |media_type| choose("gzip", &[&gzip], media_type);
        assert_eq!(choose(Some("text/html")), Decision::Identity);
        for media_type in [None, Some(""), Some("TEXT/plain")] {
            assert_eq!(choose(media_type), Decision::Encoding(Encoding::Gzip), "{media_type:?}");
        }
    }
}
