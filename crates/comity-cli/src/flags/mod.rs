//! The flags, one struct a concern; each with what it means, its help and its test side by side.

pub(crate) mod audit;
pub(crate) mod connection;
pub(crate) mod entry;
pub(crate) mod guard;
pub(crate) mod input;
pub(crate) mod look;
pub(crate) mod output;
pub(crate) mod pace;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod shared;
pub(crate) mod simulate;
pub(crate) mod values;

#[cfg(test)]
pub(crate) mod testing {
    //! A parser around one group of flags.

    use clap::{Args, FromArgMatches};

    /// The group, read from these words.
    pub(crate) fn parse<T: Args + FromArgMatches>(words: &[&str]) -> Result<T, String> {
        let command = T::augment_args(clap::Command::new("test").no_binary_name(true));
        let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
        T::from_arg_matches(&matches).map_err(|error| error.to_string())
    }

    /// Asserts that these words are refused with a text that holds all of `told`.
    pub(crate) fn refused<T: Args + FromArgMatches + std::fmt::Debug>(words: &[&str], told: &[&str]) {
        let error = parse::<T>(words).expect_err(&words.join(" "));
        assert!(told.iter().all(|part| error.contains(part)), "{words:?} is told: {error}");
    }
}
