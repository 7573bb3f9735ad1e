//! What was learned, as a store keeps it: bytes that only the policy understands.

use super::bytes::{Reader, Writer};
use super::{Adaptive, Aimd, Learned, Pressure, Refused};
use crate::time::Instant;

impl Learned {
    /// As bytes, at most [`LEARNED_BYTES`], the first of which says which policy's they are.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [0; LEARNED_BYTES];
        let mut out = Writer::new(&mut bytes);
        self.write(&mut out);
        let len = out.len();
        bytes[..len].to_vec()
    }

    /// From bytes; `None` where they are not what [`Learned::to_bytes`] made, or what a later version made.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::read(&mut Reader::new(bytes))
    }

    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        match self {
            Self::Nothing => out.u8(NOTHING),
            Self::Pressure(pressure) => {
                out.u8(PRESSURE);
                pressure.write(out);
            }
            Self::Aimd(aimd) => {
                out.u8(AIMD);
                aimd.write(out);
            }
            Self::Refused(refused) => {
                out.u8(REFUSED);
                refused.write(out);
            }
            Self::Adaptive(adaptive) => {
                out.u8(ADAPTIVE);
                adaptive.write(out);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.u8()? {
            NOTHING => Some(Self::Nothing),
            PRESSURE => Pressure::read(from).map(Self::Pressure),
            AIMD => Aimd::read(from).map(Self::Aimd),
            REFUSED => Refused::read(from).map(Self::Refused),
            ADAPTIVE => Adaptive::read(from).map(Self::Adaptive),
            _ => None,
        }
    }

    /// The same, on a clock whose instants are others.
    #[must_use]
    pub fn shifted(mut self, shift: impl Fn(Instant) -> Instant) -> Self {
        match &mut self {
            Self::Nothing => {}
            Self::Pressure(pressure) => pressure.shift(shift),
            Self::Aimd(aimd) => aimd.shift(shift),
            Self::Refused(refused) => refused.shift(shift),
            Self::Adaptive(adaptive) => adaptive.shift(shift),
        }
        self
    }
}

/// More than any policy needs.
pub const LEARNED_BYTES: usize = 144;

// A policy whose state changes its shape takes a new number: bytes of the old shape are then no longer read.
const NOTHING: u8 = 0;
const PRESSURE: u8 = 1;
const AIMD: u8 = 2;
const REFUSED: u8 = 3;
const ADAPTIVE: u8 = 4;
