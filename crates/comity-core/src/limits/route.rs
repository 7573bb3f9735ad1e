//! The scopes of one request.

use alloc::sync::Arc;

/// A scope's place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeId(pub u32);

/// One scope of a request, and what the request does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The scope.
    pub scope: ScopeId,
    /// Its part in the request.
    pub part: Part,
}

/// What a request does to one of its scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Everything holds, and the answer teaches it.
    Own,
    /// Everything holds; the answer teaches a narrower scope.
    Bound,
    /// What was learned holds and the answer teaches it; its own limits do not, because the caller brought others (T5).
    Learned,
}

/// The scopes of one request, the narrowest first. Cheap to clone: most requests fall under their host alone.
#[derive(Clone, Debug)]
pub enum Route {
    /// The host alone.
    Host(Member),
    /// Several scopes.
    Nested(Arc<[Member]>),
}

impl Route {
    /// The members, the narrowest first.
    pub fn members(&self) -> &[Member] {
        match self {
            Self::Host(member) => core::slice::from_ref(member),
            Self::Nested(members) => members,
        }
    }
}

impl From<Vec<Member>> for Route {
    fn from(members: Vec<Member>) -> Self {
        match members[..] {
            [member] => Self::Host(member),
            _ => Self::Nested(members.into()),
        }
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Self) -> bool {
        self.members() == other.members()
    }
}

impl Eq for Route {}

impl core::hash::Hash for Route {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.members().hash(state);
    }
}
