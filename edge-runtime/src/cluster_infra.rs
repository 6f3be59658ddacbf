//! Infrastructure in a cluster: for each fleet a workload, a Service and what they need, by server-side apply. The
//! service of rate limits, where the file asks for it, is made and kept in the same way, by a key that no fleet has
//! ([`fleets`]).
//!
//! Only the leader does anything. It follows the published fleets and, by watches ([`observe`], [`nodes`]), the objects
//! of ours that exist; [`fleets`] gives both to a task for each fleet ([`fleet`]), which writes ([`write`]) and tells
//! how the fleet is doing ([`report`]). What has our marks and no fleet goes. Nothing is concluded from what isn't
//! there before all watches are complete and all resources have been read, so that a start deletes nothing.

mod authorities;
mod cover;
mod fleet;
mod fleets;
mod nodes;
mod observe;
mod owner;
mod render;
mod report;
mod seen;
mod succession;
mod write;

use crate::{
    cluster::Api,
    metrics::Metrics,
    state::{Leadership, Published, Reports},
    task::Stop,
};
use authorities::Authorities;
use fleets::Fleets;
use observe::{Places, Watches};
use owner::Controller;
pub use render::Rendering;
use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};
use tokio::{sync::watch, time};

/// How often the authorities are read again that fleets in other namespaces are given.
const AUTHORITIES: Duration = Duration::from_secs(30);

/// What the objects of fleets depend on besides the fleets.
#[derive(Clone, Debug)]
pub struct ClusterTerms {
    /// How objects are rendered.
    pub rendering: Rendering,
    /// File with the authorities behind the controller's certificate.
    pub authorities: PathBuf,
    /// Namespaces that objects of fleets may be in; none means all.
    pub namespaces: Option<BTreeSet<Arc<str>>>,
}

/// Where is told what becomes of the fleets.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// How they are doing.
    pub reports: Arc<watch::Sender<Option<Reports>>>,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Looks after the fleets for as long as this replica leads, until asked to stop. What runs then goes on.
pub async fn run(
    api: Api,
    terms: ClusterTerms,
    published: watch::Receiver<Option<Arc<Published>>>,
    mut leadership: watch::Receiver<Leadership>,
    outputs: Outputs,
    mut stop: Stop,
) {
    loop {
        let leads = leadership.wait_for(|leadership| *leadership == Leadership::Leading);
        tokio::select! {
            () = stop.requested() => return,
            leads = leads => if leads.is_err() { return },
        }
        // What was known when this replica led before is old; of a fleet without a report nobody says anything.
        outputs.reports.send_replace(Some(Reports::new()));
        let mut followed = leadership.clone();
        tokio::select! {
            () = stop.requested() => return,
            _ = followed.wait_for(|leadership| *leadership != Leadership::Leading) => {}
            () = lead(&api, &terms, published.clone(), &outputs) => return,
        }
    }
}

/// Dropped when the lead is lost: every task of a fleet ends with it, whatever it is doing.
async fn lead(
    api: &Api,
    terms: &ClusterTerms,
    mut published: watch::Receiver<Option<Arc<Published>>>,
    outputs: &Outputs,
) {
    let places = terms.namespaces.clone().map_or(Places::All, Places::Namespaces);
    let mut watches = Watches::start(api.client(), &places, Arc::clone(&outputs.metrics));
    let mut authorities = Authorities::new(terms.authorities.clone());
    authorities.look();
    let mut controller = Controller::find(api, &terms.rendering.terms.controller_namespace).await;
    let rendering = terms.rendering.of(authorities.text(), controller.owner());
    let mut fleets = Fleets::new(api.client(), rendering, watches.places.clone(), outputs.clone());
    let mut look = time::interval(AUTHORITIES);
    published.mark_changed();
    loop {
        tokio::select! {
            changed = published.changed() => match changed {
                Ok(()) => {
                    let state = published.borrow_and_update().clone();
                    fleets.publish(state);
                }
                Err(_) => return,
            },
            news = watches.next() => fleets.hear(news),
            () = fleets.nodes.changed() => fleets.follow_all(),
            _ = look.tick() => if authorities.look() {
                fleets.render_with(terms.rendering.of(authorities.text(), controller.owner()));
            },
            () = controller.changed() => {
                fleets.render_with(terms.rendering.of(authorities.text(), controller.owner()));
            }
            Some(ended) = fleets.tasks.join_next_with_id() => fleets.ended(ended),
        }
    }
}
