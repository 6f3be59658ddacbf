//! One token in the compact form (RFC 7515 §7.1): its parts, and whether it is good.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD, URL_SAFE};
use serde_json::{Map, Value};

use crate::config::filter::jwt::{Algorithm, Audience, Issuer, Padding};

/// With padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_encode_padding(false),
);

/// What is wrong with the tokens of a request, in Envoy's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Failure {
    Missing,
    Form,
    HeaderBase64,
    HeaderJson,
    NoAlgorithm,
    Algorithm,
    KeyName,
    PayloadBase64,
    PayloadJson,
    /// A claim is of another kind than everybody reads it as; what the client is told.
    Claim(&'static str),
    SignatureBase64,
    UnknownIssuer,
    NotYet,
    Expired,
    Audience,
    NoKeys,
    NoKey,
    Signature,
}

impl Failure {
    /// What the client is told.
    pub(in crate::http) fn text(self) -> &'static str {
        match self {
            Self::Missing => "Jwt is missing",
            Self::Form => "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections",
            Self::HeaderBase64 => "Jwt header is an invalid Base64url encoded",
            Self::HeaderJson => "Jwt header is an invalid JSON",
            Self::NoAlgorithm => "Jwt header [alg] field is required and must be a string",
            Self::Algorithm => "Jwt header [alg] is not supported",
            Self::KeyName => "Jwt header [kid] field is not a string",
            Self::PayloadBase64 => "Jwt payload is an invalid Base64url encoded",
            Self::PayloadJson => "Jwt payload is an invalid JSON",
            Self::Claim(text) => text,
            Self::SignatureBase64 => "Jwt signature is an invalid Base64url encoded",
            Self::UnknownIssuer => "Jwt issuer is not configured",
            Self::NotYet => "Jwt not yet valid",
            Self::Expired => "Jwt is expired",
            Self::Audience => "Audiences in Jwt are not allowed",
            Self::NoKeys => "Jwks remote fetch is failed",
            Self::NoKey => "Jwks doesn't have key to match kid or alg from Jwt",
            Self::Signature => "Jwt verification fails",
        }
    }
}

/// A token that was read, which says nothing of its being good.
#[derive(Debug)]
pub(in crate::http) struct Token<'t> {
    algorithm: Algorithm,
    key: Option<String>,
    /// What is signed.
    signed: &'t str,
    encoded: &'t str,
    signature: Vec<u8>,
    /// What it claims.
    pub(in crate::http) claims: Value,
}

impl<'t> Token<'t> {
    /// Takes a token apart.
    pub(in crate::http) fn read(text: &'t str) -> Result<Self, Failure> {
        let mut parts = text.split('.');
        let mut part = || parts.next().filter(|part| !part.is_empty()).ok_or(Failure::Form);
        let (head, encoded, signature) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(Failure::Form);
        }
        let json = |part: &str, base64, json| {
            let bytes = BASE64.decode(part).map_err(|_| base64)?;
            let value: Value = serde_json::from_slice(&bytes).map_err(|_| json)?;
            if let Value::Object(_) = value {
                Ok(value)
            } else {
                Err(json)
            }
        };
        let head: Value = json(head, Failure::HeaderBase64, Failure::HeaderJson)?;
        let algorithm = head.get("alg").and_then(Value::as_str).ok_or(Failure::NoAlgorithm)?;
        let algorithm = Algorithm::named(algorithm).ok_or(Failure::Algorithm)?;
        let key = match head.get("kid") {
            None => None,
            // A name of no letters names none.
            Some(Value::String(name)) => (!name.is_empty()).then(|| name.clone()),
            Some(_) => return Err(Failure::KeyName),
        };
        let claims = json(encoded, Failure::PayloadBase64, Failure::PayloadJson)?;
        check_claims(&claims)?;
        Ok(Self {
            algorithm,
            key,
            signed: &text[..text.len() - signature.len() - 1],
            encoded,
            claims,
            signature: BASE64.decode(signature).map_err(|_| Failure::SignatureBase64)?,
        })
    }

    /// Whether it is a good one of an issuer.
    pub(super) fn verify(&self, issuer: &Issuer) -> Result<(), Failure> {
        let named = self.claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        if !issuer.name.is_empty() && *issuer.name != *named {
            return Err(Failure::UnknownIssuer);
        }
        self.is_in_time(issuer)?;
        if !issuer.audiences.is_empty() && !self.is_for(&issuer.audiences) {
            return Err(Failure::Audience);
        }
        let Some(keys) = issuer.keys.known() else {
            return Err(Failure::NoKeys);
        };
        let mut failure = Failure::NoKey;
        for key in &keys.0 {
            let is_named = match (&self.key, &key.id) {
                (Some(wanted), Some(id)) => *wanted == **id,
                _ => true,
            };
            if is_named && key.fits(self.algorithm) {
                if key.has_signed(self.algorithm, self.signed.as_bytes(), &self.signature) {
                    return Ok(());
                }
                failure = Failure::Signature;
            }
        }
        Err(failure)
    }

    fn is_in_time(&self, issuer: &Issuer) -> Result<(), Failure> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (now, skew) = (since.unwrap_or(Duration::ZERO).as_secs_f64(), issuer.skew.as_secs_f64());
        let moment = |name: &str| self.claims.get(name).and_then(Value::as_f64);
        if moment("nbf").is_some_and(|from| from > now + skew) {
            return Err(Failure::NotYet);
        }
        match moment("exp") {
            Some(until) if now > until + skew => Err(Failure::Expired),
            None if issuer.must_expire => Err(Failure::Signature),
            _ => Ok(()),
        }
    }

    fn is_for(&self, audiences: &[Audience]) -> bool {
        let is = |value: &Value| {
            let said = value.as_str();
            said.is_some_and(|said| audiences.iter().any(|audience| audience.is(said)))
        };
        match self.claims.get("aud") {
            Some(Value::Array(list)) => list.iter().any(is),
            Some(one) => is(one),
            None => false,
        }
    }

    /// What it claims, as the backend is told.
    pub(super) fn payload(&self, padding: Padding) -> String {
        let bytes = BASE64.decode(self.encoded).unwrap_or_default();
        match padding {
            Padding::Padded => URL_SAFE.encode(bytes),
            Padding::Unpadded => BASE64.encode(bytes),
        }
    }

    /// What it claims, with claims that hold several words cut into them.
    pub(super) fn spaced(&self, spaced: &[Box<str>]) -> Value {
        let mut claims = self.claims.clone();
        if let Value::Object(claims) = &mut claims {
            for name in spaced {
                cut(claims, name);
            }
        }
        claims
    }
}

/// What must be true of claims that have a meaning (RFC 7519 §4.1) before anything follows from one: each is of its
/// kind, as for Envoy. Whoever looks into the token behind the proxy then reads what was verified here.
fn check_claims(claims: &Value) -> Result<(), Failure> {
    let check = |name: &str, is_good: fn(&Value) -> bool, text| match claims.get(name) {
        Some(claim) if !is_good(claim) => Err(Failure::Claim(text)),
        _ => Ok(()),
    };
    check("iss", Value::is_string, "Jwt payload [iss] field is not a string")?;
    check("sub", Value::is_string, "Jwt payload [sub] field is not a string")?;
    for (name, not_a_number, out_of_range) in MOMENTS {
        check(name, Value::is_number, not_a_number)?;
        check(name, |claim| claim.as_f64().is_some_and(is_moment), out_of_range)?;
    }
    check("jti", Value::is_string, "Jwt payload [jti] field is not a string")?;
    let names_audiences = |claim: &Value| match claim {
        Value::Array(list) => list.iter().all(Value::is_string),
        one => one.is_string(),
    };
    let text = "Jwt payload [aud] field is not a string or string list";
    check("aud", names_audiences, text)
}

/// Claims that are moments, and what is told of those that are none.
const MOMENTS: [(&str, &str, &str); 3] = [
    (
        "iat",
        "Jwt payload [iat] field is not an integer",
        "Jwt payload [iat] field is not a positive 64 bit integer",
    ),
    (
        "nbf",
        "Jwt payload [nbf] field is not an integer",
        "Jwt payload [nbf] field is not a positive 64 bit integer",
    ),
    (
        "exp",
        "Jwt payload [exp] field is not an integer",
        "Jwt payload [exp] field is not a positive 64 bit integer",
    ),
];

/// Whether a number of seconds is one of 64 bits without a sign.
fn is_moment(seconds: f64) -> bool {
    (0.0..END_OF_U64).contains(&seconds)
}

/// The first number that 64 bits without a sign have no room for.
const END_OF_U64: f64 = 18_446_744_073_709_551_616.0;

fn cut(claims: &mut Map<String, Value>, name: &str) {
    if let Some(claim) = claims.get_mut(name)
        && let Value::String(text) = &*claim
    {
        *claim = text
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(Value::from)
            .collect();
    }
}

/// A claim as the value of a header, as stock Envoy 1.40 writes it: lists and objects as JSON in base64, and that not
/// of the kind that URLs have.
pub(in crate::http) fn text_of(claim: &Value) -> Option<String> {
    match claim {
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Number(number) => number.as_f64().map(number_text),
        Value::Bool(value) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => {
            // Protobuf escapes these in texts, and outside of them they don't stand.
            let json = claim.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
            Some(STANDARD.encode(json))
        }
        Value::Null => None,
    }
}

/// To Envoy every number is a double: as digits where it is one of 64 bits without a sign, else with six places.
fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && (0.0..END_OF_U64).contains(&number) {
        // Of a zero with a sign, too.
        return format!("{:.0}", number.abs());
    }
    format!("{number:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(head: &str, claims: &str) -> Option<&'static str> {
        let text = format!("{}.{}.AAAA", BASE64.encode(head), BASE64.encode(claims));
        Token::read(&text).err().map(Failure::text)
    }

    /// What stock Envoy 1.40 says of the same tokens, well signed.
    #[test]
    fn what_is_of_another_kind_is_refused_as_by_envoy() {
        for name in ["1", "null", "true", "[]", "{}"] {
            let head = format!(r#"{{"alg":"HS256","kid":{name}}}"#);
            assert_eq!(
                refusal(&head, "{}"),
                Some("Jwt header [kid] field is not a string"),
                "{head}"
            );
        }
        for name in [r#""""#, r#""k1""#] {
            assert_eq!(refusal(&format!(r#"{{"alg":"HS256","kid":{name}}}"#), "{}"), None);
        }
        let of = |name: &str, value: &str| refusal(r#"{"alg":"HS256"}"#, &format!(r#"{{"{name}":{value}}}"#));
        for (name, value, said) in [
            ("iss", "1", Some("Jwt payload [iss] field is not a string")),
            ("sub", "null", Some("Jwt payload [sub] field is not a string")),
            ("jti", "[]", Some("Jwt payload [jti] field is not a string")),
            ("exp", r#""1""#, Some("Jwt payload [exp] field is not an integer")),
            ("nbf", "null", Some("Jwt payload [nbf] field is not an integer")),
            (
                "exp",
                "1e300",
                Some("Jwt payload [exp] field is not a positive 64 bit integer"),
            ),
            (
                "exp",
                "-1",
                Some("Jwt payload [exp] field is not a positive 64 bit integer"),
            ),
            (
                "nbf",
                "-1e-300",
                Some("Jwt payload [nbf] field is not a positive 64 bit integer"),
            ),
            (
                "iat",
                "18446744073709551615",
                Some("Jwt payload [iat] field is not a positive 64 bit integer"),
            ),
            ("exp", "1e19", None),
            ("exp", "1.5", None),
            ("iat", "-0.0", None),
            (
                "aud",
                r#"["me",1]"#,
                Some("Jwt payload [aud] field is not a string or string list"),
            ),
            ("aud", "[]", None),
            ("aud", r#""me""#, None),
            ("exp", "1e400", Some("Jwt payload is an invalid JSON")),
        ] {
            assert_eq!(of(name, value), said, "{name}: {value}");
        }
        let unsigned = format!("{}.{}.", BASE64.encode(r#"{"alg":"HS256"}"#), BASE64.encode("{}"));
        assert_eq!(Token::read(&unsigned).err(), Some(Failure::Form));
    }

    /// What backends behind stock Envoy 1.40 see of the same claims.
    #[test]
    fn claims_are_written_into_headers_as_by_envoy() {
        let text = |json: &str| text_of(&serde_json::from_str(json).expect("JSON"));
        for (claim, header) in [
            ("42", "42"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("1e15", "1000000000000000"),
            ("9007199254740993", "9007199254740992"),
            ("1e19", "10000000000000000000"),
            ("18446744073709551615", "18446744073709551616.000000"),
            (
                "123456789012345678901234567890",
                "123456789012345677877719597056.000000",
            ),
            ("-7", "-7.000000"),
            ("1.5", "1.500000"),
            ("0.3333333333333333", "0.333333"),
            ("0.0000001", "0.000000"),
            ("false", "false"),
            ("[]", "W10="),
            (r#"["x",1,{"a":2.50}]"#, "WyJ4IiwxLHsiYSI6Mi41fV0="),
            (
                r#"[">>>???~~~\u00ff\u00ff\u00ff"]"#,
                "WyJcdTAwM2VcdTAwM2VcdTAwM2U/Pz9+fn7Dv8O/w78iXQ==",
            ),
        ] {
            assert_eq!(text(claim).as_deref(), Some(header), "{claim}");
        }
        assert_eq!((text_of(&json!("")), text_of(&Value::Null)), (None, None));
    }
}
