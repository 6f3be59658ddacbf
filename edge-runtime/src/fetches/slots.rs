//! How many documents and modules are fetched at a time. Those of anybody wait for nobody else's servers: documents are
//! small and have slots of their own, and of one host no more than a few modules are fetched together.

use edge_translate::{ModuleSource, Question};
use http::Uri;
use std::{collections::BTreeMap, sync::Arc};

/// How many documents are fetched at a time, how many modules, and how many of these from one host.
const DOCUMENTS: usize = 32;
const MODULES: usize = 8;
const OF_ONE_HOST: usize = 2;

/// The slots that are taken.
#[derive(Default)]
pub(super) struct FetchSlots {
    documents: usize,
    modules: usize,
    hosts: BTreeMap<Arc<str>, usize>,
}

impl FetchSlots {
    /// Whether there is one for this.
    pub(super) fn have_room(&self, question: &Question) -> bool {
        match module_host(question) {
            None => self.documents < DOCUMENTS,
            Some(host) => self.modules < MODULES && self.hosts.get(&host).is_none_or(|n| *n < OF_ONE_HOST),
        }
    }

    /// Takes one. Says whether there was one.
    pub(super) fn take(&mut self, question: &Question) -> bool {
        let has_room = self.have_room(question);
        if has_room {
            match module_host(question) {
                None => self.documents += 1,
                Some(host) => {
                    self.modules += 1;
                    *self.hosts.entry(host).or_default() += 1;
                }
            }
        }
        has_room
    }

    /// Gives one back.
    pub(super) fn give_back(&mut self, question: &Question) {
        let Some(host) = module_host(question) else {
            self.documents = self.documents.saturating_sub(1);
            return;
        };
        self.modules = self.modules.saturating_sub(1);
        if let Some(n) = self.hosts.get_mut(&host) {
            *n -= 1;
        }
        self.hosts.retain(|_, n| *n > 0);
    }
}

/// Who is asked for a module.
fn module_host(question: &Question) -> Option<Arc<str>> {
    let Question::Module(wanted) = question else {
        return None;
    };
    Some(match &wanted.source {
        ModuleSource::Image(image) => Arc::clone(&image.registry),
        ModuleSource::Url(url) => {
            let uri: Option<Uri> = url.parse().ok();
            let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
            host.to_ascii_lowercase().into()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge_translate::{ModuleLook, WantedModule};

    fn module(url: &str) -> Question {
        Question::Module(Arc::new(WantedModule {
            source: ModuleSource::Url(url.into()),
            sha256: None,
            look: ModuleLook::Once,
            authorities: None,
            credentials: None,
        }))
    }

    #[test]
    fn neither_one_host_nor_all_modules_take_the_slots_of_others() {
        let mut slots = FetchSlots::default();
        let taken = |slots: &mut FetchSlots, host: &str| {
            let all = (0..20).filter(|n| slots.take(&module(&format!("http://{host}/{n}"))));
            all.count()
        };
        assert_eq!(taken(&mut slots, "a.example"), OF_ONE_HOST);
        assert_eq!(taken(&mut slots, "A.example:81"), 0, "the same host");
        let others: usize = (0..20).map(|n| taken(&mut slots, &format!("{n}.example"))).sum();
        assert_eq!(others, MODULES - OF_ONE_HOST);
        let document = Question::Document("https://a.example/".into());
        assert!(slots.take(&document));
        slots.give_back(&module("http://a.example/1"));
        assert_eq!(taken(&mut slots, "a.example"), 1);
        (1..DOCUMENTS).for_each(|_| assert!(slots.take(&document)));
        assert!(!slots.have_room(&document));
        slots.give_back(&document);
        assert!(slots.have_room(&document));
    }
}
