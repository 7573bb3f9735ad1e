//! What a request costs whom.

use comity_core::guard::{CostError, MOST_LIMITS, NamedLimit};

/// Longer keys are refused: memory is bounded in bytes, not only in keys (G8).
pub const MOST_KEY_BYTES: usize = 256;

/// Whom a limit counts by: an address, the value of a field, nothing at all for a limit over all.
///
/// Two keys are one only where their bytes are: nobody shares a bucket with somebody whose key merely hashes alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a>(&'a [u8]);

/// A request's cost under one limit, for one key.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The limit. Its name and the key together are what is remembered.
    pub limit: &'a NamedLimit,
    /// The key.
    pub key: Key<'a>,
    /// Tokens.
    pub cost: u32,
}

/// The charges of one request.
#[derive(Clone, Copy, Debug)]
pub struct Charges<'a>(&'a [Charge<'a>]);

/// Charges that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChargeError {
    /// The key is too long.
    #[error("a key of {0} bytes: allowed is up to {MOST_KEY_BYTES}")]
    LongKey(usize),
    /// Too many limits.
    #[error("{0} limits on one request: allowed is up to {MOST_LIMITS}")]
    TooMany(usize),
    /// The same limit twice.
    #[error("limit `{0}` twice on one request: each is charged once")]
    Twice(String),
    /// A cost that can never be paid.
    #[error("limit `{limit}`")]
    Cost {
        /// Whose.
        limit: String,
        /// Why not.
        #[source]
        error: CostError,
    },
}

impl<'a> Key<'a> {
    /// The one key of a limit over all.
    pub const ALL: Self = Self(&[]);

    /// A key of these bytes.
    ///
    /// # Errors
    /// It is longer than [`MOST_KEY_BYTES`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, ChargeError> {
        if bytes.len() > MOST_KEY_BYTES { Err(ChargeError::LongKey(bytes.len())) } else { Ok(Self(bytes)) }
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl Charge<'_> {
    /// # Errors
    /// The cost can never be paid.
    #[inline]
    pub(super) fn check(&self) -> Result<(), ChargeError> {
        let cost = self.limit.limit().check_cost(self.cost);
        cost.map_err(|error| ChargeError::Cost { limit: self.limit.name().to_owned(), error })
    }
}

impl<'a> Charges<'a> {
    /// The charges of one request, in the order in which the verdict tells of them.
    ///
    /// # Errors
    /// There are more than [`MOST_LIMITS`], a limit is there twice, or a cost can never be paid.
    pub fn new(charges: &'a [Charge<'a>]) -> Result<Self, ChargeError> {
        if charges.len() > MOST_LIMITS {
            return Err(ChargeError::TooMany(charges.len()));
        }
        for (nth, charge) in charges.iter().enumerate() {
            let name = charge.limit.name();
            if charges[..nth].iter().any(|other| other.limit.name() == name) {
                return Err(ChargeError::Twice(name.to_owned()));
            }
            charge.check()?;
        }
        Ok(Self(charges))
    }

    /// Each of them.
    pub fn as_slice(self) -> &'a [Charge<'a>] {
        self.0
    }
}
