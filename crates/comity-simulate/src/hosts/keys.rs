//! The keys that a table may have: the names of its struct's fields, so that they are written once.

use serde::de::value::Error;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

/// The keys of a struct that is read from a table; none of anything else.
pub(super) fn keys<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut keys: &'static [&'static str] = &[];
    let _ = T::deserialize(Asks(&mut keys));
    keys
}

/// A table that is never read: it only hears what it is asked for.
struct Asks<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Asks<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("nothing is read"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("nothing is read"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::bucket::BucketSettings;

    #[test]
    fn the_keys_are_those_of_the_struct() {
        assert_eq!(keys::<BucketSettings>(), ["rate", "burst"]);
        assert!(keys::<String>().is_empty());
    }
}
