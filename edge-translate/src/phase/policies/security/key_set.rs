//! Keys for tokens as text (JWKS, RFC 7517), judged as a proxy does it: that refuses all of a listener for a set in
//! which it finds no key of use, and leaves a key out that stands beside one of use.

use base64::{
    Engine,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use num_bigint::BigUint;
use serde_json::Value;

/// Numbers come without padding (RFC 7515, 2); proxies bear it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why no proxy can use a set of keys.
pub(super) fn check(text: &str) -> Result<(), String> {
    let set = serde_json::from_str::<Value>(text).ok();
    let keys = set.as_ref().and_then(|set| set["keys"].as_array());
    let Some(keys) = keys.filter(|keys| !keys.is_empty()) else {
        return Err("local JWKS is not a set of keys: it must be JSON with a list `keys`".to_owned());
    };
    let mut why = None;
    for (i, key) in keys.iter().enumerate() {
        match usable(key) {
            Ok(()) => return Ok(()),
            Err(flaw) => why = why.or(Some((i, flaw))),
        }
    }
    let (i, flaw) = why.unwrap_or_default();
    Err(format!("local JWKS has no key that a proxy can use: keys[{i}] {flaw}"))
}

fn usable(key: &Value) -> Result<(), &'static str> {
    let algorithm = key["alg"].as_str();
    match key["kty"].as_str() {
        Some("RSA") => rsa(key, algorithm),
        Some("EC") => elliptic(key, algorithm),
        Some("oct") => secret(key, algorithm),
        Some("OKP") => edwards(key, algorithm),
        Some(_) => Err("is of a kind other than RSA, EC, oct and OKP"),
        None => Err("has no kty"),
    }
}

fn bytes(key: &Value, field: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(key[field].as_str()?).ok()?;
    (!bytes.is_empty()).then_some(bytes)
}

fn number(key: &Value, field: &str) -> Option<BigUint> {
    Some(BigUint::from_bytes_be(&bytes(key, field)?))
}

/// Whether an algorithm, if one is named, is of a family.
fn is_of(algorithm: Option<&str>, families: &[&str]) -> bool {
    algorithm.is_none_or(|name| families.iter().any(|family| name.starts_with(family)))
}

fn rsa(key: &Value, algorithm: Option<&str>) -> Result<(), &'static str> {
    if !is_of(algorithm, &["RS", "PS"]) {
        return Err("is for RSA, and its alg isn't");
    }
    let (Some(modulus), Some(exponent)) = (number(key, "n"), number(key, "e")) else {
        return Err("has no n and e in base64url");
    };
    // What proxies' libraries of cryptography bear.
    let is_odd = |number: &BigUint| number.bit(0);
    let (is_modulus, is_exponent) = (
        (512..=16_384).contains(&modulus.bits()) && is_odd(&modulus),
        (2..=32).contains(&exponent.bits()) && is_odd(&exponent),
    );
    (is_modulus && is_exponent)
        .then_some(())
        .ok_or("has an n or e that no key of RSA has")
}

/// A curve of the form y² = x³ - 3x + b over the numbers below a prime (FIPS 186-4, D.1.2).
struct Curve {
    name: &'static str,
    algorithm: &'static str,
    prime: &'static str,
    b: &'static str,
}

const CURVES: [Curve; 3] = [
    Curve {
        name: "P-256",
        algorithm: "ES256",
        prime: "ffffffff00000001000000000000000000000000ffffffffffffffffffffffff",
        b: "5ac635d8aa3a93e7b3ebbd55769886bc651d06b0cc53b0f63bce3c3e27d2604b",
    },
    Curve {
        name: "P-384",
        algorithm: "ES384",
        prime: "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffeffffffff0000000000000000ffffffff",
        b: "b3312fa7e23ee7e4988e056be3f82d19181d9c6efe8141120314088f5013875ac656398d8a2ed19d2a85c8edd3ec2aef",
    },
    Curve {
        name: "P-521",
        algorithm: "ES512",
        prime: "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\
                ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        b: "0051953eb9618e1c9a1f929a21a0b68540eea2da725b99b315f3b8b489918ef109e156193951ec7e937b1652c0bd3bb1bf073573df883d2c34f1ef451fd46b503f00",
    },
];

impl Curve {
    fn holds(&self, x: &BigUint, y: &BigUint) -> bool {
        let read = |digits: &str| BigUint::parse_bytes(digits.as_bytes(), 16);
        let (Some(prime), Some(b)) = (read(self.prime), read(self.b)) else {
            return false;
        };
        if *x >= prime || *y >= prime {
            return false;
        }
        let minus_three = &prime - 3_u8;
        (y * y) % &prime == (x * x * x + minus_three * x + b) % &prime
    }
}

fn elliptic(key: &Value, algorithm: Option<&str>) -> Result<(), &'static str> {
    let curve = match (key["crv"].as_str(), algorithm) {
        (Some(name), _) => CURVES.iter().find(|curve| curve.name == name),
        (None, Some(algorithm)) => CURVES.iter().find(|curve| curve.algorithm == algorithm),
        (None, None) => CURVES.first(),
    };
    let curve = curve.ok_or("is on a curve other than P-256, P-384 and P-521")?;
    if algorithm.is_some_and(|name| name != curve.algorithm) {
        return Err("has an alg that isn't its curve's");
    }
    let (Some(x), Some(y)) = (number(key, "x"), number(key, "y")) else {
        return Err("has no x and y in base64url");
    };
    curve.holds(&x, &y).then_some(()).ok_or("is no point of its curve")
}

fn secret(key: &Value, algorithm: Option<&str>) -> Result<(), &'static str> {
    if !is_of(algorithm, &["HS"]) {
        return Err("is for HMAC, and its alg isn't");
    }
    bytes(key, "k").map(drop).ok_or("has no k in base64url")
}

fn edwards(key: &Value, algorithm: Option<&str>) -> Result<(), &'static str> {
    if algorithm.is_some_and(|name| name != "EdDSA") {
        return Err("is for EdDSA, and its alg isn't");
    }
    if key["crv"].as_str() != Some("Ed25519") {
        return Err("is on a curve other than Ed25519");
    }
    let key = bytes(key, "x").filter(|x| x.len() == 32);
    key.map(drop).ok_or("has no x of 32 bytes in base64url")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Points that the curves are defined with, each with the length of a number.
    const POINTS: [(&str, &str, &str); 3] = [
        (
            "P-256",
            "axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY",
            "T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU",
        ),
        (
            "P-384",
            "qofKIr6LBTeOscce8yCtdG4dO2KLp5uYWfdB4IJUKjhVAvJdv1UpbDpUXjhydgq3",
            "NhfeSpYmLG9dnpi_kpLcKfj0Hb0omhR86doxE7XwuMAKYLHOHX6BnXpDHXyQ6g5f",
        ),
        (
            "P-521",
            "AMaFjga3BATpzZ4-y2YjlbRCnGSBOQU_tSH4KK9ga009uqFLXnfv51ko_h3BJ6L_qN4zSLPBhWpCm_l-fjHC5b1m",
            "ARg5KWp4mjvABFyKX7QsfRvZmPVESVebRGgXr70XJz5mLJfucple9CZAxVC5AT-tB2E1PHCGonLCQIi-lHaf0WZQ",
        ),
    ];

    fn rsa(n: &[u8], e: &[u8]) -> Value {
        json!({"kty": "RSA", "n": BASE64.encode(n), "e": BASE64.encode(e)})
    }

    #[test]
    fn keys_are_usable_that_stock_envoy_takes() {
        for (curve, x, y) in POINTS {
            let key = json!({"kty": "EC", "crv": curve, "x": x, "y": y});
            assert_eq!(usable(&key), Ok(()), "{curve}");
            assert!(usable(&json!({"kty": "EC", "crv": curve, "x": x, "y": x})).is_err());
            let other = json!({"kty": "EC", "crv": curve, "alg": "ESX", "x": x, "y": y});
            assert!(usable(&other).is_err());
        }
        let (_, x, y) = POINTS[0];
        assert_eq!(usable(&json!({"kty": "EC", "x": x, "y": y})), Ok(()));
        assert!(usable(&json!({"kty": "EC", "alg": "ES384", "x": x, "y": y})).is_err());
        assert_eq!(usable(&rsa(&[0xff; 64], &[3])), Ok(()));
        assert_eq!(usable(&rsa(&[0xff; 2048], &[1, 0, 1])), Ok(()));
        assert_eq!(
            usable(&json!({"kty": "oct", "k": "YQ", "alg": "HS512", "kid": 5})),
            Ok(())
        );
        let ed = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
        assert_eq!(usable(&ed), Ok(()));
    }

    #[test]
    fn keys_are_refused_that_stock_envoy_refuses() {
        let refused = [
            json!("a"),
            json!({}),
            json!({"kty": "rsa"}),
            json!({"kty": "RSA"}),
            rsa(&[0xff; 63], &[3]),
            rsa(&[0xff; 2049], &[3]),
            rsa(&[0xfe; 64], &[3]),
            rsa(&[0xff; 64], &[1]),
            rsa(&[0xff; 64], &[2]),
            rsa(&[0xff; 64], &[1, 0, 0, 0, 1]),
            json!({"kty": "RSA", "n": "+/+/", "e": "AQAB"}),
            json!({"kty": "oct", "k": ""}),
            json!({"kty": "oct", "k": "%%"}),
            json!({"kty": "oct", "k": "YQ", "alg": "RS256"}),
            json!({"kty": "EC", "crv": "P-257", "x": POINTS[0].1, "y": POINTS[0].2}),
            json!({"kty": "OKP", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}),
            json!({"kty": "OKP", "crv": "Ed25519", "x": "YQ"}),
        ];
        for key in refused {
            assert!(usable(&key).is_err(), "{key}");
            let set = |keys: Value| check(&json!({ "keys": keys }).to_string());
            assert!(set(json!([key])).is_err());
            assert_eq!(set(json!([key, {"kty": "oct", "k": "YQ"}])), Ok(()));
        }
        assert!(check("{}").is_err() && check("").is_err() && check(r#"{"keys": []}"#).is_err());
    }
}
