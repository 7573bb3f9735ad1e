//! The header fields of an answer that are of interest here, picked in one pass.

use super::date::ServerClock;
use super::ratelimit::Name;
use crate::time::Wall;

/// The header fields of interest. Nothing is allocated where there are none; nothing is parsed but names.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    /// The values of Retry-After.
    pub(super) retry_after: Vec<&'a [u8]>,
    /// The fields that speak of quotas.
    pub(super) quotas: Vec<(Name<'a>, &'a [u8])>,
    date: Option<&'a [u8]>,
    age: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Picks them. Of each kind no more than [`MOST_FIELDS`] are taken; of several `Date` or `Age` the first.
    pub(super) fn pick(headers: impl Iterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("date") {
                fields.date.get_or_insert(value);
            } else if name.eq_ignore_ascii_case("age") {
                fields.age.get_or_insert(value);
            } else if name.eq_ignore_ascii_case("retry-after") {
                push_bounded(&mut fields.retry_after, value);
            } else if let Some(name) = Name::parse(name) {
                push_bounded(&mut fields.quotas, (name, value));
            }
        }
        fields
    }

    /// What the answer tells about the server's clock.
    pub(super) fn clock(&self, received: Wall) -> ServerClock<'a> {
        ServerClock { received, date: self.date, age: self.age }
    }
}

fn push_bounded<T>(list: &mut Vec<T>, item: T) {
    if list.len() < MOST_FIELDS {
        list.push(item);
    }
}

/// The most verbose known dialect sends a dozen quota fields.
const MOST_FIELDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_none_of_them_costs_no_allocation() {
        let headers = [("content-type", &b"text/html"[..]), ("date", b"now"), ("server", b"x"), ("x-limit", b"1")];
        let fields = Fields::pick(headers.into_iter());
        assert_eq!((fields.retry_after.capacity(), fields.quotas.capacity()), (0, 0));
    }

    #[test]
    fn no_more_than_a_bounded_number_is_taken() {
        let fields = Fields::pick((0..1_000).flat_map(|_| [("retry-after", &b"1"[..]), ("ratelimit-reset", b"1")]));
        assert_eq!((fields.retry_after.len(), fields.quotas.len()), (MOST_FIELDS, MOST_FIELDS));
    }
}
