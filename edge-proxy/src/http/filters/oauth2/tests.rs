//! State, cookies and requests for tokens, without a provider.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::exchange::{self, Grant, Tokens};
use super::flow::{self, Callback};
use super::session::{self, Granted, Session};
use crate::config::ClusterId;
use crate::config::filter::oauth2::{
    Authorization, ClientProof, Cookie, Forwarded, Keys, Lifetimes, Login, LoginCookies, TokenEndpoint,
};
use crate::config::header::{HeaderTemplate, StringCondition};
use crate::message::head::Head;

const NOW: u64 = 1_700_000_000;

fn login() -> Login {
    let cookie = |name: &str| Cookie::new(name, "/", None, "").expect("a cookie");
    Login {
        authorization: Authorization {
            endpoint: "https://idp/auth?client_id=app&response_type=code&scope=openid".into(),
            resources: "&resource=r".into(),
            redirect: HeaderTemplate::Literal(HeaderValue::from_static("https://www/back")),
        },
        tokens: TokenEndpoint {
            cluster: ClusterId(0),
            authority: HeaderValue::from_static("idp"),
            target: PathAndQuery::from_static("/token?x"),
            timeout: None,
            retry: None,
            proof: ClientProof::Body,
            client: "app".into(),
            usual_lifetime: 0,
            secret: Arc::default(),
        },
        callback: StringCondition::Exact("/back".into()),
        sign_out: StringCondition::Exact("/logout".into()),
        end_session: None,
        passed: [].into(),
        refused: [].into(),
        forwarded: Forwarded {
            access_token: true,
            id_token: Some(HeaderName::from_static("x-id-token")),
            authorization: false,
        },
        lifetimes: Lifetimes {
            refresh_token: Some(1000),
            id_token_as_access_token: false,
            nonce: 60,
            verifier: 60,
        },
        cookies: LoginCookies {
            access_token: cookie("A"),
            id_token: cookie("I"),
            refresh_token: cookie("R"),
            proof: cookie("P"),
            expires: cookie("E"),
            nonce: cookie("N"),
            verifier: cookie("V"),
            domain: None,
            sealed: true,
        },
        keys: Arc::default(),
    }
}

fn keys() -> Keys {
    Keys::of(b"secret").expect("keys")
}

/// A request with the cookies that were set.
fn request(target: &str, set: &[HeaderValue]) -> Head {
    let mut head = Head::empty();
    head.authority = HeaderValue::from_static("www");
    head.set_target(target).expect("a target");
    for cookie in set {
        let pair = cookie.to_str().expect("text").split(';').next().expect("a pair");
        let pair = HeaderValue::from_str(pair).expect("a value");
        head.headers.append(header::COOKIE, pair);
    }
    head
}

fn tokens() -> Tokens {
    Tokens {
        access_token: "access".to_owned(),
        id_token: "id".to_owned(),
        refresh_token: "refresh".to_owned(),
        lifetime: 60,
    }
}

fn cookies(login: &Login) -> Vec<HeaderValue> {
    let granted = Granted::of(login, tokens(), &request("/", &[]), NOW);
    granted.cookies(login, &keys(), &HeaderMap::new()).expect("cookies")
}

fn state(location: &str) -> &str {
    let (_, state) = location.split_once("&state=").expect("a state");
    state.split('&').next().expect("its end")
}

#[test]
fn a_login_ends_with_the_client_that_it_began_with() {
    let (login, keys) = (login(), keys());
    let begin = || flow::start(&login, &keys, &request("/page?a=b", &[]), "https://www/back?").expect("begun");
    let (location, set) = begin();
    assert!(
        location.starts_with("https://idp/auth?client_id=app&response_type=code&scope=openid&redirect_uri=https%3A%2F%2Fwww%2Fback%3F&state="),
        "{location}"
    );
    assert!(
        location.ends_with("&code_challenge_method=S256&resource=r"),
        "{location}"
    );
    let back = |state: &str, set: &[HeaderValue]| {
        let head = request(&format!("/back?code=a%2Fb&state={state}"), set);
        Callback::read(&login, &keys, &head).map_err(|rejected| rejected.why)
    };
    let callback = back(state(&location), &set).expect("a callback");
    assert_eq!((&*callback.code, &*callback.url), ("a%2Fb", "http://www/page?a=b"));
    let head = request("/back", &set);
    assert!(flow::verifier(&login, &keys, &callback.nonce, &head).is_some_and(|verifier| verifier.len() == 43));
    assert_eq!(flow::verifier(&login, &keys, "other", &head), None);
    // The state of another login, or none at all, or a login of another client.
    let (other, others) = begin();
    assert_eq!(back(state(&other), &set), Err("oauth2_invalid_state"));
    assert_eq!(back(state(&location), &others), Err("oauth2_invalid_state"));
    assert_eq!(back(state(&location), &[]), Err("oauth2_invalid_state"));
    assert_eq!(back("x", &set), Err("oauth2_invalid_state"));
    // Several begin in one client.
    let both = [set, others].concat();
    assert!(back(state(&location), &both).is_ok() && back(state(&other), &both).is_ok());
}

#[test]
fn a_state_with_another_page_is_refused() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (login, keys) = (login(), keys());
    let (location, set) = flow::start(&login, &keys, &request("/page", &[]), "https://www/back").expect("begun");
    let told = URL_SAFE_NO_PAD.decode(state(&location)).expect("base64");
    let told = String::from_utf8(told)
        .expect("text")
        .replace("http://www/page", "http://evil/page");
    let head = request(&format!("/back?code=c&state={}", URL_SAFE_NO_PAD.encode(told)), &set);
    assert!(Callback::read(&login, &keys, &head).is_err());
}

#[test]
fn what_a_provider_says_in_vain_ends_the_login() {
    let (login, keys) = (login(), keys());
    let (location, set) = flow::start(&login, &keys, &request("/page", &[]), "https://www/back").expect("begun");
    for (parameters, why) in [
        ("error=access_denied&code=c", "oauth2_provider_error"),
        ("cod=c", "oauth2_no_code"),
        ("code=", "oauth2_no_code"),
    ] {
        let head = request(&format!("/back?{parameters}&state={}", state(&location)), &set);
        let rejected = Callback::read(&login, &keys, &head).expect_err("must be rejected");
        assert_eq!((rejected.why, rejected.nonce.is_some()), (why, true));
    }
    let (location, set) = flow::start(&login, &keys, &request("/back", &[]), "https://www/back").expect("begun");
    let head = request(&format!("/back?code=c&state={}", state(&location)), &set);
    assert_eq!(
        Callback::read(&login, &keys, &head).expect_err("a circle").why,
        "oauth2_leads_back"
    );
}

#[test]
fn a_session_is_good_here_until_it_is_over() {
    let (mut login, keys) = (login(), keys());
    for sealed in [true, false] {
        login.cookies.sealed = sealed;
        let set = cookies(&login);
        let texts: Vec<_> = set.iter().map(|cookie| cookie.to_str().expect("text")).collect();
        assert_eq!(texts.iter().any(|text| text.contains("refresh")), !sealed, "{texts:?}");
        assert!(
            texts[4].starts_with("R=") && texts[4].contains(";Max-Age=1000;"),
            "{texts:?}"
        );
        let head = request("/", &set);
        let read = |head: &Head| Session::read(&login, &keys, &head.headers);
        let session = read(&head);
        assert!(session.may_be_renewed && session.refresh_token == "refresh");
        assert!(session.is_good(&login, &keys, &head, NOW + 59));
        assert!(!session.is_good(&login, &keys, &head, NOW + 60), "it is over");
        let mut elsewhere = head.clone();
        elsewhere.authority = HeaderValue::from_static("other");
        assert!(!session.is_good(&login, &keys, &elsewhere, NOW), "another host");
        let other = Keys::of(b"other").expect("keys");
        assert!(
            !Session::read(&login, &other, &head.headers).is_good(&login, &other, &head, NOW),
            "another secret"
        );
        // Without one of them, or with another value in one, it is none.
        for left_out in 0..set.len() {
            let mut some = set.clone();
            some.remove(left_out);
            let head = request("/", &some);
            assert!(!read(&head).is_good(&login, &keys, &head, NOW), "without {left_out}");
        }
        let mut forged = set.clone();
        forged[1] = HeaderValue::from_static("E=9999999999");
        let head = request("/", &forged);
        assert!(!read(&head).is_good(&login, &keys, &head, NOW), "longer");
    }
}

#[test]
fn readable_cookies_of_a_session_go_on_when_tokens_are_sealed() {
    let (mut login, keys) = (login(), keys());
    login.cookies.sealed = false;
    let head = request("/", &cookies(&login));
    login.cookies.sealed = true;
    let session = Session::read(&login, &keys, &head.headers);
    assert!(session.is_good(&login, &keys, &head, NOW));
    // But what nobody has signed or sealed is no refresh token.
    assert!(!session.may_be_renewed);
}

#[test]
fn a_backend_gets_tokens_and_no_other_cookie_of_logins() {
    let (login, keys) = (login(), keys());
    let mut set = cookies(&login);
    let begun = flow::start(&login, &keys, &request("/", &[]), "https://www/back")
        .expect("begun")
        .1;
    set.extend(begun);
    set.insert(0, HeaderValue::from_static("own=1"));
    let mut head = request("/", &set);
    Session::read(&login, &keys, &head.headers).tell(&login, &mut head.headers);
    let values: Vec<_> = head.headers.get_all(header::COOKIE).iter().collect();
    assert_eq!(values, ["own=1; A=access; I=id"]);
    assert_eq!(head.headers[header::AUTHORIZATION], "Bearer access");
    assert_eq!(head.headers["x-id-token"], "id");
    assert!(head.headers[header::AUTHORIZATION].is_sensitive());
}

#[test]
fn cookies_last_as_long_as_their_tokens() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let jwt = |exp: u64| format!("e30.{}.x", URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{exp}}}")));
    let mut login = login();
    let lifetime = |login: &Login, id: String, refresh: String| {
        let tokens = Tokens {
            id_token: id,
            refresh_token: refresh,
            ..tokens()
        };
        let set = Granted::of(login, tokens, &request("/", &[]), NOW).cookies(login, &keys(), &HeaderMap::new());
        let set = set.expect("cookies");
        let age = |cookie: &HeaderValue| {
            let text = cookie.to_str().expect("text").to_owned();
            let (_, age) = text.split_once("Max-Age=").expect("an age");
            age.split(';').next().expect("its end").to_owned()
        };
        (age(&set[3]), age(&set[4]))
    };
    let ages = |id: &str, refresh: &str| (id.to_owned(), refresh.to_owned());
    assert_eq!(lifetime(&login, jwt(NOW + 5), jwt(NOW + 9)), ages("5", "9"));
    assert_eq!(lifetime(&login, jwt(NOW - 5), "opaque".to_owned()), ages("0", "1000"));
    login.lifetimes.id_token_as_access_token = true;
    assert_eq!(lifetime(&login, jwt(NOW + 5), "opaque".to_owned()), ages("60", "1000"));
}

#[test]
fn tokens_that_are_gone_are_deleted() {
    let (mut login, keys) = (login(), keys());
    let head = request("/", &cookies(&login));
    login.cookies.id_token.is_set = false;
    let granted = Granted::of(&login, tokens(), &head, NOW);
    let set = granted.cookies(&login, &keys, &head.headers).expect("cookies");
    assert!(set[3].as_bytes().starts_with(b"I=deleted;"), "{:?}", set[3]);
    let begun = flow::start(&login, &keys, &head, "https://www/back").expect("begun").1;
    let deleted = session::deleted(&login, &request("/", &begun).headers);
    assert_eq!(deleted.len(), 7);
    assert!(deleted[5].as_bytes().starts_with(b"N."), "{deleted:?}");
}

#[test]
fn tokens_are_asked_for_as_the_provider_wants_it() {
    let mut endpoint = login().tokens;
    let grant = Grant::Code {
        code: "a%2Fb",
        redirect: "https://www/back",
        verifier: "v",
    };
    let question = exchange::question(&endpoint, b"s&t", grant).expect("a question");
    assert_eq!(
        question.body,
        "grant_type=authorization_code&code=a%2Fb&redirect_uri=https%3A%2F%2Fwww%2Fback&code_verifier=v\
         &client_id=app&client_secret=s%26t"
    );
    assert!(!question.head.headers.contains_key(header::AUTHORIZATION));
    endpoint.proof = ClientProof::Header;
    let grant = Grant::RefreshToken { token: "r+" };
    let question = exchange::question(&endpoint, b"s&t", grant).expect("a question");
    assert_eq!(question.body, "grant_type=refresh_token&refresh_token=r%2B");
    // printf 'app:s&t' | base64
    assert_eq!(question.head.headers[header::AUTHORIZATION], "Basic YXBwOnMmdA==");
    assert!(question.head.headers[header::AUTHORIZATION].is_sensitive());
    endpoint.proof = ClientProof::Certificate;
    let question = exchange::question(&endpoint, b"", grant).expect("a question");
    assert_eq!(
        question.body,
        "grant_type=refresh_token&refresh_token=r%2B&client_id=app"
    );
    assert!(!question.head.headers.contains_key(header::AUTHORIZATION));
}

#[test]
fn an_answer_without_a_token_or_a_lifetime_is_none() {
    let read = |body: &str, usual| exchange::read(body.as_bytes(), usual).map(|tokens| tokens.lifetime);
    assert_eq!(read(r#"{"access_token":"a","expires_in":7}"#, 0), Some(7));
    assert_eq!(read(r#"{"access_token":"a","expires_in":"7"}"#, 0), Some(7));
    assert_eq!(read(r#"{"access_token":"a","id_token":null}"#, 9), Some(9));
    for body in [
        r#"{"access_token":"a"}"#,
        r#"{"access_token":"a","expires_in":0}"#,
        r#"{"access_token":"a","expires_in":-1}"#,
        r#"{"access_token":"","expires_in":7}"#,
        r#"{"expires_in":7}"#,
        r#"{"access_token":"a; domain=evil","expires_in":7}"#,
        r#"{"access_token":7,"expires_in":7}"#,
        "nothing",
    ] {
        assert_eq!(read(body, 0), None, "{body}");
    }
}
