//! What is remembered of tokens: pure.
//!
//! Anybody with an account in the cluster can show us any number of valid tokens, so only those that prove the account
//! of a fleet are kept, and where there is no more room it is taken from the account that has most of it. All other
//! answers hold briefly: who is refused and comes back at once costs the API server no question.

use super::{Account, Proven};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};
use tokio::time::Instant;
use tonic::Status;

/// The hash of a token.
pub(super) type Hash = [u8; 32];

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Tokens of proxies: more than there are of them.
    pub(super) kept: usize,
    /// Other answers.
    pub(super) brief: usize,
    /// For how long those.
    pub(super) briefly: Duration,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            kept: 8192,
            brief: 1024,
            briefly: Duration::from_secs(5),
        }
    }
}

/// Answers about tokens.
pub(super) struct Memory {
    room: Room,
    kept: BTreeMap<Hash, Kept>,
    /// Until when, and what.
    brief: BTreeMap<Hash, (Instant, Answer)>,
}

type Answer = Result<Proven, Status>;

/// A token of a proxy.
struct Kept {
    proven: Proven,
    used: Instant,
}

impl Memory {
    pub(super) fn with(room: Room) -> Self {
        Self {
            room,
            kept: BTreeMap::new(),
            brief: BTreeMap::new(),
        }
    }

    /// What holds of a token without asking.
    pub(super) fn answer(&mut self, key: &Hash, now: Instant) -> Option<Answer> {
        if let Some(kept) = self.kept.get_mut(key)
            && !kept.proven.has_expired()
            && now < kept.proven.again
        {
            kept.used = now;
            return Some(Ok(kept.proven.clone()));
        }
        let (until, answer) = self.brief.get(key)?;
        let holds = now < *until && answer.as_ref().map_or(true, |proven| !proven.has_expired());
        holds.then(|| answer.clone())
    }

    /// What was known of a proxy's token last, for when nobody can be asked.
    pub(super) fn last(&self, key: &Hash) -> Option<Proven> {
        let kept = self.kept.get(key).map(|kept| kept.proven.clone());
        kept.filter(|proven| !proven.has_expired())
    }

    /// Takes note of what the API server says of a token.
    pub(super) fn note(&mut self, key: Hash, answer: &Answer, now: Instant) {
        match (self.kept.get_mut(&key), answer) {
            (Some(kept), Ok(proven)) => kept.proven = proven.clone(),
            (Some(_), Err(_)) => drop(self.kept.remove(&key)),
            (None, _) => {}
        }
        self.brief.retain(|_, (until, _)| *until > now);
        if self.brief.len() >= self.room.brief {
            let oldest = self.brief.iter().min_by_key(|(_, (until, _))| *until);
            if let Some(oldest) = oldest.map(|(key, _)| *key) {
                self.brief.remove(&oldest);
            }
        }
        self.brief.insert(key, (now + self.room.briefly, answer.clone()));
    }

    /// A token proves the account of a fleet: it is kept.
    pub(super) fn keep(&mut self, key: Hash, proven: Proven, now: Instant) {
        if self.kept.len() >= self.room.kept && !self.kept.contains_key(&key) {
            let time = SystemTime::now();
            self.kept.retain(|_, kept| !kept.proven.has_expired_at(time));
            if self.kept.len() >= self.room.kept {
                self.evict();
            }
        }
        self.kept.insert(key, Kept { proven, used: now });
    }

    /// Of the account that has the most tokens, the one that was used longest ago goes.
    fn evict(&mut self) {
        let mut tokens: BTreeMap<&Account, usize> = BTreeMap::new();
        for kept in self.kept.values() {
            *tokens.entry(&kept.proven.account).or_default() += 1;
        }
        let most = tokens
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(account, _)| account);
        let its = self.kept.iter().filter(|(_, kept)| Some(&kept.proven.account) == most);
        if let Some(key) = its.min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key) {
            self.kept.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proven(account: &str) -> Proven {
        Proven {
            account: Account {
                namespace: "ns".into(),
                name: account.into(),
            },
            again: Instant::now() + Duration::from_secs(600),
            expires: None,
        }
    }

    fn key(number: u8) -> Hash {
        [number; 32]
    }

    #[test]
    fn an_account_with_many_tokens_takes_no_room_from_others() {
        let room = Room {
            kept: 4,
            ..Room::default()
        };
        let (mut memory, mut now) = (Memory::with(room), Instant::now());
        memory.keep(key(0), proven("small"), now);
        for number in 1..20 {
            now += Duration::from_secs(1);
            memory.keep(key(number), proven("greedy"), now);
        }
        let known: Vec<u8> = (0..20)
            .filter(|number| memory.answer(&key(*number), now).is_some())
            .collect();
        assert_eq!(known, [0, 17, 18, 19]);
        // What is used stays.
        memory.answer(&key(17), now + Duration::from_secs(1));
        memory.keep(key(20), proven("greedy"), now + Duration::from_secs(2));
        assert!(memory.last(&key(17)).is_some() && memory.last(&key(18)).is_none());
    }

    #[test]
    fn what_isnt_kept_holds_briefly_and_in_its_own_room() {
        let room = Room {
            brief: 2,
            ..Room::default()
        };
        let (mut memory, now) = (Memory::with(room), Instant::now());
        let refused = Err(Status::unauthenticated("no"));
        memory.keep(key(0), proven("ours"), now);
        memory.note(key(1), &refused, now);
        memory.note(key(2), &Ok(proven("stranger")), now);
        assert!(memory.answer(&key(1), now).unwrap().is_err());
        assert!(memory.answer(&key(2), now).unwrap().is_ok() && memory.last(&key(2)).is_none());
        memory.note(key(3), &refused, now + Duration::from_secs(1));
        assert!(memory.answer(&key(1), now).is_none() || memory.answer(&key(2), now).is_none());
        let later = now + Duration::from_secs(10);
        assert!((1..4).all(|number| memory.answer(&key(number), later).is_none()));
        assert!(memory.answer(&key(0), later).is_some());
        // Who was kept and is refused is known no more.
        memory.note(key(0), &refused, later);
        assert!(memory.last(&key(0)).is_none());
    }
}
