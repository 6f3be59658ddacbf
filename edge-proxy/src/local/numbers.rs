//! Numbers as values of fields.
//!
//! The same few numbers (timeouts of routes, the milliseconds that backends take) are written again and again;
//! their texts are kept. Why so simple: a number that takes another one's place costs what it would have cost anyway.

use std::cell::RefCell;

use http::HeaderValue;

const PLACES: usize = 64;

/// Texts of numbers that were needed before.
#[derive(Debug)]
pub(crate) struct Numbers {
    places: RefCell<[Option<(u64, HeaderValue)>; PLACES]>,
}

impl Default for Numbers {
    fn default() -> Self {
        Self {
            places: RefCell::new([const { None }; PLACES]),
        }
    }
}

impl Numbers {
    /// A number's text.
    pub(crate) fn value(&self, number: u64) -> HeaderValue {
        // Timeouts are multiples of a thousand: folding keeps them apart.
        let place = ((number ^ (number >> 6) ^ (number >> 12)) % PLACES as u64) as usize;
        let mut places = self.places.borrow_mut();
        match &places[place] {
            Some((kept, value)) if *kept == number => value.clone(),
            _ => {
                let value = HeaderValue::from(number);
                places[place] = Some((number, value.clone()));
                value
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_text_whether_kept_or_not() {
        let numbers = Numbers::default();
        for _ in 0..2 {
            for number in (0..300).chain([15_000, u64::MAX]) {
                assert_eq!(numbers.value(number), number.to_string().as_str());
            }
        }
    }
}
