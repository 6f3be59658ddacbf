//! What holds of an object that was written, whose one is, and what is done about those that can't be changed.

use super::*;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use std::convert::Infallible;
use tower::service_fn;

fn sight(text: &str) -> Arc<ObservedObject> {
    let object = json!({"metadata": {"name": "n"}, "data": {"text": text}});
    Arc::new(ObservedObject::new(
        ObjectKind::ConfigMap,
        serde_json::from_value(object).unwrap(),
    ))
}

fn settled(before: Option<&Arc<ObservedObject>>, losses: u64) -> Settled {
    Settled {
        revision: "1".into(),
        fingerprint: Some(sight("ours").fingerprint),
        before: Some((before.cloned(), losses)),
    }
}

#[test]
fn what_was_created_is_there_although_no_watch_has_told_until_something_has_gone() {
    let wanted = Value::from("1");
    let mut created = settled(None, 4);
    assert!(created.holds(&wanted, (None, 4)));
    assert!(!created.holds(&"2".into(), (None, 4)), "something else is wanted");
    assert!(created.holds(&wanted, (Some(&sight("ours")), 4)), "a watch has told");
    assert!(!created.holds(&wanted, (None, 4)), "and now it is gone");
    assert!(!settled(None, 4).holds(&wanted, (None, 5)), "it came and went unseen");
    assert!(
        !settled(None, 4).holds(&wanted, (Some(&sight("theirs")), 4)),
        "it drifts"
    );
}

#[test]
fn what_is_used_as_it_was_found_is_made_as_it_is_wanted_once_it_is_ours() {
    let (wanted, found) = (Value::from("1"), sight("theirs"));
    let mut used = Settled {
        fingerprint: None,
        ..settled(None, 4)
    };
    assert!(used.holds(&wanted, (None, 4)), "it is another fleet's");
    assert!(!used.holds(&wanted, (Some(&found), 4)), "it has come to this one");
}

#[test]
fn what_was_changed_is_as_we_left_it_until_a_watch_tells_more() {
    let (wanted, before) = (Value::from("1"), sight("before"));
    let mut changed = settled(Some(&before), 4);
    assert!(changed.holds(&wanted, (Some(&before), 4)));
    assert!(changed.holds(&wanted, (Some(&sight("ours")), 5)));
    assert!(
        !changed.holds(&wanted, (Some(&sight("before")), 5)),
        "somebody took it back"
    );
    assert!(!settled(Some(&before), 4).holds(&wanted, (None, 5)), "it is gone");
}

#[test]
fn an_object_is_known_by_its_marks_or_by_its_labels_and_a_foreign_one_is_left_alone() {
    let labels = json!({"app.kubernetes.io/managed-by": "edge-gateway", "gateway.edge/owning-gateway-name": "g"});
    let marks = json!({CONTROLLER: "c", FLEET: "ns/g", REVISION: "1"});
    let wanted = Object {
        kind: ObjectKind::Service,
        namespace: "ns".into(),
        name: "n".into(),
        body: json!({"metadata": {"labels": labels, "annotations": marks}}),
    };
    let found = |labels: &Value, annotations: Value| -> Result<(), String> {
        let found = json!({"metadata": {"name": "n", "labels": labels, "annotations": annotations}});
        check_owner(&serde_json::from_value(found).unwrap(), &wanted)
    };
    let none = json!({});
    assert_eq!(found(&labels, marks.clone()), Ok(()));
    assert_eq!(found(&none, marks.clone()), Ok(()), "somebody took the labels away");
    assert_eq!(found(&labels, none.clone()), Ok(()), "somebody took the marks away");
    let other_controller = |fleet: &str| json!({CONTROLLER: "other", FLEET: fleet});
    assert_eq!(
        found(&labels, other_controller("ns/g")),
        Ok(()),
        "the Gateway was another controller's"
    );
    for (labels, marks) in [
        (&none, none.clone()),
        (&none, other_controller("ns/g")),
        (&labels, other_controller("ns/h")),
        (&labels, json!({FLEET: "ns/h"})),
    ] {
        let message = found(labels, marks).unwrap_err();
        assert!(
            message.starts_with("Service ns/n exists and is not of this Gateway"),
            "{message}"
        );
    }
}

/// An API server to which a webhook belongs: answers requests to create, and says what it was asked.
async fn asked_of(answer: impl Fn(Value) -> (u16, Value) + Clone + Send + 'static) -> (Vec<String>, Result<(), Fault>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn({
        let asked = Arc::clone(&asked);
        move |request: Request<Body>| {
            let (asked, answer) = (Arc::clone(&asked), answer.clone());
            async move {
                let method = request.method().clone();
                let dry = request.uri().query().is_some_and(|query| query.contains("dryRun=All"));
                asked
                    .lock()
                    .await
                    .push(format!("{method}{}", if dry { " dry" } else { "" }));
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&bytes).unwrap();
                let (status, body) = match method {
                    Method::POST => answer(body),
                    // No API server changes it.
                    Method::PATCH if body["spec"]["loadBalancerClass"] != "a" => (422, json!({})),
                    _ => (200, json!({"metadata": {"name": "n"}})),
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
            }
        }
    });
    let mut writer = Writer {
        fleet: "ns/g".into(),
        client: Client::new(service, "default"),
        metrics: Arc::default(),
        turns: Arc::new(Turns::new()),
        settled: BTreeMap::new(),
    };
    let service = |class: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "n", "namespace": "ns", "uid": "u"},
            "spec": {"type": "LoadBalancer", "loadBalancerClass": class},
        })
    };
    let wanted = Object {
        kind: ObjectKind::Service,
        namespace: "ns".into(),
        name: "n".into(),
        body: service("b"),
    };
    let seen = ObservedObject::new(ObjectKind::Service, serde_json::from_value(service("a")).unwrap());
    let view = View::from([(id(&wanted), Arc::new(seen))]);
    let wish = Wish {
        scaled: Scaled::AsApplied,
        account: Account::Own,
    };
    let done = writer.apply(&wanted, &view, 0, wish).await;
    let asked = asked.lock().await.clone();
    (asked, done)
}

#[tokio::test]
async fn a_service_makes_place_for_one_that_would_be_another() {
    let named = |mut service: Value| {
        service["metadata"]["name"] = "edge-probe-1".into();
        service
    };
    let (asked, done) = asked_of(move |service| (201, named(service))).await;
    assert_eq!(
        (asked, done),
        (vec!["POST dry".to_owned(), "DELETE".to_owned()], Ok(()))
    );
    let webhook = move |service| {
        let mut service = named(service);
        service["spec"]["loadBalancerClass"] = "a".into();
        (201, service)
    };
    let (asked, done) = asked_of(webhook).await;
    assert_eq!(
        (asked, done),
        (vec!["POST dry".to_owned(), "PATCH".to_owned()], Ok(())),
        "it is what it would be again, and the rest of it is written"
    );
    let refused = |_| {
        let message = "services \"edge-probe-x7k2p\" is forbidden: exceeded quota: q";
        let status =
            json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
        (403, status)
    };
    let (asked, done) = asked_of(refused).await;
    assert_eq!(asked, ["POST dry"]);
    let told = done.unwrap_err();
    assert!(
        told.text().ends_with("services \"n\" is forbidden: exceeded quota: q"),
        "the same each time: {told:?}"
    );
}
