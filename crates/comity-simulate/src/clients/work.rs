//! What there is to get.

/// The URLs that clients have left of each host.
#[derive(Debug)]
pub(crate) enum Work {
    /// There is always another.
    Endless,
    /// So many of each host.
    Left(Vec<u64>),
}

impl Work {
    /// So many URLs of each of `lists` lists; without end where `urls` is none.
    pub(crate) fn new(urls: Option<u64>, lists: usize) -> Self {
        urls.map_or(Self::Endless, |urls| Self::Left(vec![urls; lists]))
    }

    /// Whether it has no end.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(self, Self::Endless)
    }

    /// Whether one is left.
    pub(crate) fn has(&self, list: usize) -> bool {
        match self {
            Self::Endless => true,
            Self::Left(left) => left.get(list).is_some_and(|left| *left > 0),
        }
    }

    /// Takes one, where one is left.
    pub(crate) fn take(&mut self, list: usize) -> bool {
        match self {
            Self::Endless => true,
            Self::Left(left) => match left.get_mut(list) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    true
                }
                _ => false,
            },
        }
    }
}
