//! Answers from what somebody has at hand, for those who fetch nothing.

use super::{
    Fact, Fetched, FoundModule, ImageReference, Module, ModuleSource, Question, QuestionChanges, WantedModule,
};
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeMap, sync::Arc};

/// What stands at URLs, and in images.
#[derive(Clone, Debug, Default)]
pub struct Answers(BTreeMap<String, Arc<[u8]>>);

impl Answers {
    /// Takes what stands at a URL, or the module that an image holds.
    pub fn put(&mut self, url: impl Into<String>, content: impl Into<Arc<[u8]>>) {
        self.0.insert(url.into(), content.into());
    }

    /// Answers to those questions that can be answered.
    pub fn to(&self, wanted: &QuestionChanges) -> Vec<Fact> {
        wanted
            .added
            .iter()
            .filter_map(|question| self.answer(question))
            .collect()
    }

    fn answer(&self, question: &Question) -> Option<Fact> {
        match question {
            Question::Document(url) => {
                let fetched = match std::str::from_utf8(self.0.get(&**url)?) {
                    Ok(text) => Fetched::Text(text.into()),
                    Err(_) => Fetched::Failed("the answer is no text".into()),
                };
                Some(Fact::Document(Arc::clone(url), fetched))
            }
            Question::Module(wanted) => {
                let found = FoundModule::Here(self.module(wanted)?);
                Some(Fact::Module(Arc::clone(wanted), found))
            }
            Question::Time(_) | Question::Port(_) => None,
        }
    }

    /// A module. What an image around it would be is nobody's to say, so that what the policy asks of that is believed.
    fn module(&self, wanted: &WantedModule) -> Option<Module> {
        let (bytes, image) = match &wanted.source {
            ModuleSource::Url(url) => (self.0.get(&**url)?, None),
            ModuleSource::Image(image) => {
                let is_meant = |name: &str| ImageReference::parse(name).is_ok_and(|name| name == *image);
                let (_, bytes) = self.0.iter().find(|(name, _)| is_meant(name))?;
                (bytes, wanted.sha256.clone())
            }
        };
        Some(Module {
            sha256: format!("{:x}", Sha256::digest(bytes)).into(),
            image,
        })
    }
}
