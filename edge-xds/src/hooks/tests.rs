//! What is asked, what is served of the answers, and what while there are none.

use super::*;
use crate::{
    lower::Lowering,
    sample::{cluster, endpoints, fleet, host, route},
};
use edge_ir::{CustomObjects, Fleet, Route as IrRoute, VirtualHost as IrHost};
use envoy_types::pb::envoy::config::{
    listener::v3::Listener,
    route::v3::{Route, RouteConfiguration, VirtualHost, route::Action, route_match::PathSpecifier},
};

mod guards;
mod laws;

type Service = Box<dyn FnMut(&Question) -> Result<Answer, &'static str>>;

/// A fleet, what services say, and what was asked.
struct Rig {
    hooks: Hooks,
    lowering: Lowering,
    hooked: Hooked,
    answers: Answers,
    n_asked: usize,
    service: Service,
}

impl Rig {
    fn new(hooks: &[Hook], whole: &[ResourceType]) -> Self {
        Self {
            hooks: Hooks {
                hooks: hooks.iter().copied().collect(),
                whole: whole.iter().copied().collect(),
            },
            lowering: Lowering::new(),
            hooked: Hooked::default(),
            answers: Answers::default(),
            n_asked: 0,
            service: Box::new(|question| Ok(same(question))),
        }
    }

    fn says(&mut self, service: impl FnMut(&Question) -> Result<Answer, &'static str> + 'static) {
        self.service = Box::new(service);
    }

    fn look(&mut self, fleet: &Fleet) -> Applied {
        let built = self.lowering.lower(fleet);
        self.answers.begin();
        let applied = self
            .hooked
            .apply(&built, &Arc::new(Shown::of(fleet)), &self.hooks, &mut self.answers);
        self.answers.end();
        applied
    }

    /// Asks until all is answered, what failed too.
    fn settle(&mut self, fleet: &Fleet) -> Applied {
        loop {
            let applied = self.look(fleet);
            let questions = self.answers.questions().clone();
            let open = questions
                .into_iter()
                .filter(|(key, _)| !self.answers.outcomes.contains_key(key));
            let open: Vec<_> = open.collect();
            if open.is_empty() {
                assert!(!applied.is_pending);
                return applied;
            }
            for (key, asked) in open {
                self.n_asked += 1;
                let outcome = outcome((self.service)(&asked.question));
                self.answers.take(key, asked.number, outcome);
            }
        }
    }

    /// Asks again what failed.
    fn again(&mut self, fleet: &Fleet) -> Applied {
        for (key, asked) in self.answers.questions().clone() {
            let outcome = outcome((self.service)(&asked.question));
            self.answers.take(key, asked.number, outcome);
        }
        self.settle(fleet)
    }
}

fn outcome(said: Result<Answer, &'static str>) -> Outcome {
    match said {
        Ok(answer) => Outcome {
            answer: Some(answer),
            problem: None,
        },
        Err(text) => Outcome {
            answer: None,
            problem: Some(problem(text)),
        },
    }
}

fn problem(text: &str) -> Problem {
    Problem {
        text: text.into(),
        cause: Cause::Refused,
    }
}

fn same(question: &Question) -> Answer {
    match question {
        Question::One { resource, .. } => Answer::One(resource.clone()),
        Question::All { resources, .. } => Answer::All(resources.clone()),
    }
}

/// Changes what one hook is asked about; others are as they were.
fn changing<M: prost::Message + Default>(
    wanted: Hook,
    change: impl Fn(&mut M) + 'static,
) -> impl FnMut(&Question) -> Result<Answer, &'static str> {
    move |question| match question {
        Question::One { hook, resource, .. } if *hook == wanted => {
            let mut message = M::decode(resource.clone()).unwrap();
            change(&mut message);
            Ok(Answer::One(message.encode_to_vec().into()))
        }
        other => Ok(same(other)),
    }
}

/// Fails over routes whose name holds a text.
fn failing_over(text: &'static str) -> impl FnMut(&Question) -> Result<Answer, &'static str> {
    move |question| match question {
        Question::One {
            hook: Hook::Route,
            resource,
            ..
        } if Route::decode(resource.clone()).unwrap().name.contains(text) => Err("down"),
        other => Ok(same(other)),
    }
}

fn one_host(routes: &[(&str, &str, &str)]) -> Arc<IrHost> {
    let routes: Vec<Arc<IrRoute>> = routes
        .iter()
        .map(|(name, prefix, to)| route(name, prefix, to))
        .collect();
    host("a.example", routes)
}

fn table(snapshot: &Snapshot) -> RouteConfiguration {
    let bytes = snapshot.section(ResourceType::Routes).entries()[0].body.contiguous();
    RouteConfiguration::decode(bytes).unwrap()
}

/// Each route by its path and the cluster, or status, that it leads to.
fn leads(host: &VirtualHost) -> Vec<(String, String)> {
    let one = |route: &Route| {
        let path = match route
            .r#match
            .as_ref()
            .and_then(|matched| matched.path_specifier.clone())
        {
            Some(PathSpecifier::Prefix(path) | PathSpecifier::PathSeparatedPrefix(path)) => path,
            other => panic!("{other:?}"),
        };
        let to = match route.action.as_ref().unwrap() {
            Action::Route(to) => match to.cluster_specifier.as_ref().unwrap() {
                envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier::Cluster(name) => {
                    name.clone()
                }
                other => panic!("{other:?}"),
            },
            Action::DirectResponse(answer) => answer.status.to_string(),
            other => panic!("{other:?}"),
        };
        (path, to)
    };
    host.routes.iter().map(one).collect()
}

fn led(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs.map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

fn names(snapshot: &Snapshot, kind: ResourceType) -> Vec<String> {
    let entries = snapshot.section(kind).entries().iter();
    entries.map(|entry| entry.name.to_string()).collect()
}

const ALL: [Hook; 5] = [
    Hook::Route,
    Hook::VirtualHost,
    Hook::HttpListener,
    Hook::Cluster,
    Hook::Endpoints,
];

#[test]
fn what_services_leave_alone_keeps_its_place_and_is_asked_about_once() {
    let mut rig = Rig::new(&ALL, &[]);
    let before = fleet(
        vec![
            one_host(&[("x", "/x", "c0"), ("y", "/y", "c1")]),
            host("b.example", vec![route("z", "/", "c0")]),
        ],
        &["c0", "c1"],
    );
    let applied = rig.settle(&before);
    let built = rig.lowering.lower(&before);
    for kind in ResourceType::ALL {
        assert!(
            Arc::ptr_eq(applied.snapshot.section(kind), built.section(kind)),
            "{kind:?}"
        );
    }
    // Three routes, two hosts, a listener, two clusters with endpoints; the listener for readiness is none of HTTP's.
    let n_first = rig.n_asked;
    assert!((10..=11).contains(&n_first), "{n_first}");
    rig.settle(&before);
    assert_eq!(rig.n_asked, n_first);
    let after = fleet(
        vec![
            one_host(&[("x", "/x", "c0"), ("y", "/y", "c0")]),
            host("b.example", vec![route("z", "/", "c0")]),
        ],
        &["c0", "c1"],
    );
    rig.settle(&after);
    assert_eq!(rig.n_asked, n_first + 2, "a route and its host");
    assert!(rig.answers.questions().is_empty());
}

#[test]
fn what_services_change_is_served() {
    let mut rig = Rig::new(&ALL, &[]);
    let fleet = fleet(vec![one_host(&[("x", "/x", "c0")])], &["c0"]);
    rig.says(changing(Hook::Route, |route: &mut Route| {
        route.stat_prefix = "told".into()
    }));
    let applied = rig.settle(&fleet);
    assert_eq!(table(&applied.snapshot).virtual_hosts[0].routes[0].stat_prefix, "told");

    let mut rig = Rig::new(&ALL, &[]);
    rig.says(changing(Hook::VirtualHost, |host: &mut VirtualHost| {
        host.response_headers_to_remove.push("x-gone".into());
    }));
    let applied = rig.settle(&fleet);
    assert_eq!(
        table(&applied.snapshot).virtual_hosts[0].response_headers_to_remove,
        ["x-gone"]
    );

    let mut rig = Rig::new(&ALL, &[]);
    rig.says(changing(Hook::Cluster, |cluster: &mut Cluster| {
        cluster.alt_stat_name = "told".into()
    }));
    let applied = rig.settle(&fleet);
    let entry = &applied.snapshot.section(ResourceType::Cluster).entries()[0];
    assert_eq!(Cluster::decode(entry.body.contiguous()).unwrap().alt_stat_name, "told");
    assert_eq!(entry.warmed_by.as_deref(), Some("c0"));

    let mut rig = Rig::new(&ALL, &[]);
    rig.says(changing(Hook::HttpListener, |listener: &mut Listener| {
        listener.stat_prefix = "told".into();
    }));
    let applied = rig.settle(&fleet);
    let entry = applied.snapshot.section(ResourceType::Listener).get("tcp-80").unwrap();
    assert_eq!(Listener::decode(entry.body.contiguous()).unwrap().stat_prefix, "told");
}

#[test]
fn a_new_route_that_a_service_fails_over_is_closed_and_the_rest_is_served() {
    let mut rig = Rig::new(&[Hook::Route, Hook::VirtualHost], &[]);
    rig.says(failing_over("/new/"));
    let fleet = fleet(vec![one_host(&[("new", "/new", "c0"), ("x", "/", "c0")])], &["c0"]);
    let applied = rig.settle(&fleet);
    assert_eq!(
        leads(&table(&applied.snapshot).virtual_hosts[0]),
        led(&[("/new", "500"), ("/", "c0")])
    );
    assert_eq!(applied.held.len(), 1);
    assert_eq!(&*applied.held[0].origins[0].name, "new");
    rig.says(|question| Ok(same(question)));
    let applied = rig.again(&fleet);
    assert_eq!(
        leads(&table(&applied.snapshot).virtual_hosts[0]),
        led(&[("/new", "c0"), ("/", "c0")])
    );
    assert_eq!(applied.held, []);
}

#[test]
fn a_route_that_a_service_fails_over_leads_where_it_led_and_that_stays() {
    let mut rig = Rig::new(&[Hook::Route], &[]);
    let before = fleet(vec![one_host(&[("x", "/x", "c0"), ("y", "/y", "c0")])], &["c0"]);
    rig.settle(&before);
    rig.says(failing_over("/x/"));
    let after = fleet(vec![one_host(&[("x", "/x", "c1"), ("y", "/y", "c1")])], &["c1"]);
    let applied = rig.settle(&after);
    assert_eq!(
        leads(&table(&applied.snapshot).virtual_hosts[0]),
        led(&[("/x", "c0"), ("/y", "c1")])
    );
    assert_eq!(names(&applied.snapshot, ResourceType::Cluster), ["c0", "c1"]);
    assert_eq!(names(&applied.snapshot, ResourceType::Endpoints), ["c0", "c1"]);
    rig.says(|question| Ok(same(question)));
    let applied = rig.again(&after);
    assert_eq!(
        leads(&table(&applied.snapshot).virtual_hosts[0]),
        led(&[("/x", "c1"), ("/y", "c1")])
    );
    assert_eq!(names(&applied.snapshot, ResourceType::Cluster), ["c1"]);
}

#[test]
fn a_host_stays_as_it_was_when_a_match_changes_that_a_service_fails_over() {
    let mut rig = Rig::new(&[Hook::Route], &[]);
    rig.settle(&fleet(vec![one_host(&[("x", "/x", "c0"), ("y", "/y", "c0")])], &["c0"]));
    rig.says(failing_over("/x/"));
    let after = fleet(
        vec![one_host(&[("x", "/other", "c0"), ("y", "/y", "c1")])],
        &["c0", "c1"],
    );
    let applied = rig.settle(&after);
    assert_eq!(
        leads(&table(&applied.snapshot).virtual_hosts[0]),
        led(&[("/x", "c0"), ("/y", "c0")])
    );
    // As long as nobody has answered at all, too.
    let newer = fleet(
        vec![one_host(&[("x", "/other", "c0"), ("y", "/y", "c2")])],
        &["c0", "c1", "c2"],
    );
    let applied = rig.look(&newer);
    assert!(applied.is_pending);
    assert_eq!(
        leads(&table(&applied.snapshot).virtual_hosts[0]),
        led(&[("/x", "c0"), ("/y", "c0")])
    );
}

#[test]
fn a_new_host_is_closed_and_new_resources_are_not_there_until_a_service_answers() {
    let mut rig = Rig::new(&ALL, &[]);
    let fleet = fleet(vec![one_host(&[("x", "/x", "c0")])], &["c0"]);
    let applied = rig.look(&fleet);
    assert!(applied.is_pending);
    assert_eq!(leads(&table(&applied.snapshot).virtual_hosts[0]), led(&[("/", "500")]));
    assert_eq!(table(&applied.snapshot).virtual_hosts[0].domains, ["a.example"]);
    assert_eq!(names(&applied.snapshot, ResourceType::Cluster), [""; 0]);
    assert!(applied.snapshot.section(ResourceType::Listener).get("tcp-80").is_none());
    assert_eq!(applied.held, []);
}

#[test]
fn a_service_that_may_fail_open_leaves_resources_as_they_are() {
    let mut rig = Rig::new(&[Hook::Cluster], &[]);
    let fleet = fleet(vec![], &["c0"]);
    rig.look(&fleet);
    let (key, asked) = rig
        .answers
        .questions()
        .first_key_value()
        .map(|(k, a)| (*k, a.clone()))
        .unwrap();
    let outcome = Outcome {
        answer: Some(same(&asked.question)),
        problem: Some(problem("down")),
    };
    rig.answers.take(key, asked.number, outcome);
    let applied = rig.look(&fleet);
    assert_eq!(names(&applied.snapshot, ResourceType::Cluster), ["c0"]);
    assert_eq!((applied.held.len(), applied.is_pending), (0, false));
    assert_eq!(rig.answers.questions().len(), 1, "it is asked again");
}

#[test]
fn all_of_a_fleet_may_be_changed_and_stays_as_it_was_while_that_fails() {
    let mut rig = Rig::new(&[Hook::Translation], &[ResourceType::Cluster]);
    rig.says(|question| {
        let Question::All { resources, .. } = question else {
            panic!("{question:?}")
        };
        assert_eq!(resources.keys().copied().collect::<Vec<_>>(), [ResourceType::Cluster]);
        let added = Cluster {
            name: "added".into(),
            ..Cluster::default()
        };
        let mut clusters = resources[&ResourceType::Cluster].clone();
        clusters.remove(0);
        clusters.push(added.encode_to_vec().into());
        let routes = RouteConfiguration {
            name: "more".into(),
            ..RouteConfiguration::default()
        };
        let routes = vec![routes.encode_to_vec().into()];
        Ok(Answer::All(
            [(ResourceType::Cluster, clusters), (ResourceType::Routes, routes)].into(),
        ))
    });
    let mut fleet = fleet(vec![], &["c0", "c1"]);
    let applied = rig.settle(&fleet);
    assert_eq!(names(&applied.snapshot, ResourceType::Cluster), ["added", "c1"]);
    assert_eq!(
        names(&applied.snapshot, ResourceType::Routes),
        ["default/gw/http", "more"]
    );
    assert_eq!(rig.n_asked, 1);

    // Endpoints are others' business, and cost no call.
    fleet.endpoints = Arc::new(vec![endpoints("c0", &[1, 2]), endpoints("c1", &[3])]);
    rig.settle(&fleet);
    assert_eq!(rig.n_asked, 1);

    rig.says(|_| Err("down"));
    fleet.clusters = Arc::new(vec![cluster("c1"), cluster("c2")]);
    let applied = rig.settle(&fleet);
    assert_eq!(names(&applied.snapshot, ResourceType::Cluster), ["added", "c1"]);
    assert_eq!(&*applied.held[0].origins[0].name, "gw");
}

#[test]
fn what_comes_back_must_be_what_was_asked_about() {
    let cluster = |name: &str, keys: &[&str]| {
        let mut out = Cluster {
            name: name.into(),
            ..Cluster::default()
        };
        let entry = |key: &&str| ((*key).to_owned(), Default::default());
        out.typed_extension_protocol_options = keys.iter().map(entry).collect();
        Bytes::from(out.encode_to_vec())
    };
    let asked = cluster("a", &[]);
    assert_eq!(judge(Hook::Cluster, &asked, None), Ok(asked.clone()));
    assert_eq!(judge(Hook::Cluster, &asked, Some(asked.clone())), Ok(asked.clone()));
    let error = judge(Hook::Cluster, &asked, Some(cluster("b", &[]))).unwrap_err();
    assert_eq!(error, "the name must stay `a`, and is `b`");
    for garbage in [&b"\x0a\x02a"[..], b"\x0a\x02\xff\xfe"] {
        assert!(judge(Hook::Cluster, &asked, Some(Bytes::from_static(garbage))).is_err());
    }
    // An unknown type within.
    let any = envoy_types::pb::google::protobuf::Any {
        type_url: "type.googleapis.com/nobody.knows.It".into(),
        value: Vec::new(),
    };
    let strange = Cluster {
        name: "a".into(),
        typed_extension_protocol_options: [("x".to_owned(), any)].into(),
        ..Cluster::default()
    };
    let error = judge(Hook::Cluster, &asked, Some(strange.encode_to_vec().into())).unwrap_err();
    assert!(error.contains("nobody.knows.It"), "{error}");

    let two = [(ResourceType::Cluster, vec![cluster("a", &[]), cluster("a", &[])])].into();
    let error = judge_all(&Resources::new(), two).unwrap_err();
    assert!(error.contains("two resources `a`"), "{error}");
}

#[test]
fn a_service_that_comes_takes_nothing_from_what_is_served() {
    let before = fleet(vec![one_host(&[("x", "/x", "c0")])], &["c0"]);
    for (hooks, whole) in [
        (&ALL[..], vec![]),
        (&[Hook::Translation][..], ResourceType::ALL.to_vec()),
    ] {
        let mut rig = Rig::new(hooks, &whole);
        let served = rig.lowering.lower(&before);
        rig.hooked = Hooked::over(&served);
        rig.says(|_| Err("down"));
        let applied = rig.settle(&before);
        for kind in ResourceType::ALL {
            assert_eq!(names(&applied.snapshot, kind), names(&served, kind));
        }
        assert_eq!(leads(&table(&applied.snapshot).virtual_hosts[0]), led(&[("/x", "c0")]));
        // And one that is changed by configuration neither.
        rig.answers.forget();
        rig.hooked.renew();
        let applied = rig.look(&before);
        assert!(applied.is_pending);
        assert_eq!(leads(&table(&applied.snapshot).virtual_hosts[0]), led(&[("/x", "c0")]));
    }
}

/// The same route, with an object of this content.
fn showing(route: &Arc<IrRoute>, json: &str) -> Arc<IrRoute> {
    let object = edge_ir::CustomObject {
        group: "a.example".into(),
        kind: "Cache".into(),
        namespace: "ns".into(),
        name: "x".into(),
        json: json.into(),
    };
    let custom = CustomObjects {
        resources: vec![Arc::new(object)],
        policies: Vec::new(),
    };
    let effect = edge_ir::RouteEffect {
        custom: custom.shared(),
        ..edge_ir::RouteEffect::clone(&route.effect)
    };
    Arc::new(IrRoute {
        effect: Arc::new(effect),
        ..IrRoute::clone(route)
    })
}

#[test]
fn a_route_is_asked_about_again_when_an_object_that_goes_with_it_is_another() {
    let mut rig = Rig::new(&[Hook::Route, Hook::Cluster], &[]);
    let with = |json: &str| {
        let routes = [route("one", "/one", "a"), route("two", "/two", "a")];
        let routes = vec![showing(&routes[0], json), Arc::clone(&routes[1])];
        fleet(vec![host("a.example", routes)], &["a"])
    };
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&told);
    rig.says(move |question| {
        if let Question::One {
            hook: Hook::Route,
            resource,
            custom,
            ..
        } = question
        {
            let json = custom
                .iter()
                .flat_map(|custom| &custom.resources)
                .map(|o| o.json.to_string());
            let name = Route::decode(resource.clone()).unwrap().name;
            seen.lock().unwrap().push((name, json.collect::<String>()));
        }
        Ok(same(question))
    });
    let mut asked = |fleet: &Fleet| {
        rig.settle(fleet);
        let asked: Vec<_> = told.lock().unwrap().drain(..).collect();
        asked
            .into_iter()
            .map(|(name, json)| format!("{name} {json}"))
            .collect::<Vec<_>>()
    };
    let mut first = asked(&with("{}"));
    first.sort();
    assert_eq!(first.len(), 2, "{first:?}");
    assert!(first[0].contains("/one/") && first[0].ends_with(" {}"), "{first:?}");
    assert!(first[1].contains("/two/") && first[1].ends_with(' '), "{first:?}");
    assert_eq!(asked(&with("{}")), [""; 0], "nothing is another");
    let again = asked(&with("{\"a\":1}"));
    assert!(
        again.len() == 1 && again[0].contains("/one/") && again[0].ends_with("{\"a\":1}"),
        "{again:?}"
    );
}
