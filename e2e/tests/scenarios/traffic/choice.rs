//! Which of several backends is asked.

use super::{Routed, backend, body, get, get_with};
use anyhow::{Result, ensure};
use e2e::stack::DataPlane;
use std::collections::BTreeSet;

/// Users that are asked for, enough that two backends both have some.
const USERS: usize = 24;

pub(crate) fn requests_of_a_user_stay_at_a_backend(plane: &DataPlane) -> Result<()> {
    let (one, _) = backend("one")?;
    let (two, _) = backend("two")?;
    let www = Routed::start(plane, &[one.port, two.port])?;
    www.answers(&get("/"), 200)?;
    let asked = |user: &str| -> Result<String> {
        let answer = www.ask(&get_with("/", &[("x-user", user)]))?;
        ensure!(answer.status == 200, "{answer:?}");
        Ok(body(&answer))
    };
    // Every user by one backend, five times in a row, and not all by the same.
    let all_stay = || -> Result<bool> {
        let mut used = BTreeSet::new();
        for number in 0..USERS {
            let user = format!("user-{number}");
            let first = asked(&user)?;
            for _ in 0..4 {
                if asked(&user)? != first {
                    return Ok(false);
                }
            }
            used.insert(first);
        }
        Ok(used.len() == 2)
    };
    for table in ["", ", tableSize: 1021"] {
        www.shape(&format!(
            "  loadBalancer: {{ type: ConsistentHash, consistentHash: \
             {{ type: Headers, headers: [{{ name: x-user }}]{table} }} }}\n"
        ))?;
        www.holds("each user by one backend", all_stay)?;
    }
    www.unshape()?;
    www.holds("a user by every backend", || {
        let used: BTreeSet<String> = (0..8).map(|_| asked("user-0")).collect::<Result<_>>()?;
        Ok(used.len() == 2)
    })?;
    let odd = "  loadBalancer: { type: ConsistentHash, consistentHash: { type: SourceIP, tableSize: 1024 } }\n";
    www.fails_closed(odd, "LoadBalancer")
}
