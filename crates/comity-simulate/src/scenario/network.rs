//! What lies between clients and hosts.

use core::time::Duration;

use serde::Deserialize;

use super::span;

/// The network: `[network]`. Without it answers come as fast as hosts give them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// The round trip: half of it before the host sees a request, half before the client sees the answer.
    #[serde(deserialize_with = "span::read")]
    pub latency: Duration,
    /// How much longer a round trip is at most; each way takes its part evenly between nothing and half of this.
    #[serde(deserialize_with = "span::read")]
    pub jitter: Duration,
    /// The share of requests (0 to 1) of which nobody hears again: half of them never reach the host, of the others the
    /// answer is lost.
    pub loss: f64,
    /// The share of requests (0 to 1) that reach the host and whose connection is then reset.
    pub resets: f64,
}

/// Our own way out, which all answers share: `[uplink]`. Without it there is room for all.
///
/// Answers go through it one after the other; the first byte of one is there when those before it are through.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// What it carries, in bytes a second.
    pub bytes_per_second: f64,
    /// The size of an answer, in bytes.
    pub answer_bytes: f64,
    /// How many answers may wait in its queue; more are lost, and their clients hear nothing.
    pub queue: u32,
    /// From when on it is so narrow: until then there is room for all. From the beginning where it is left out.
    #[serde(default, deserialize_with = "span::read")]
    pub from: Duration,
}

impl Uplink {
    /// How long one answer takes.
    pub fn per_answer(&self) -> Duration {
        Duration::from_secs_f64(self.answer_bytes / self.bytes_per_second)
    }
}
