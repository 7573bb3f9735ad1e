//! Each model's law, in virtual time, seen as a client sees it.

use rand::SeedableRng;

use super::*;

mod laws;
mod possible;
mod read;
mod told;
mod worlds;

/// A host from its table.
fn host(toml: &str) -> Box<dyn Host> {
    try_host(toml).unwrap_or_else(|e| panic!("{e}\n{toml}"))
}

fn try_host(toml: &str) -> Result<Box<dyn Host>, String> {
    let model: Model = toml::from_str(toml).map_err(|e| e.to_string())?;
    model.build(7, &mut Groups::default()).map_err(|e| e.to_string())
}

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn dice(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed)
}

const US: ClientId = ClientId(0);

/// Requests served to somebody who asks every millisecond from one to another and again at once when served: refusals
/// cost nothing, so nobody can get more.
fn greedy(host: &mut dyn Host, from: u64, to: u64) -> u64 {
    let mut rng = dice(3);
    (from..to)
        .map(|at| (0..1_000_000).take_while(|_| host.arrives(ms(at), US, &mut rng).status == Some(200)).count() as u64)
        .sum()
}

/// So many clients that each ask again as soon as they are answered: served answers from one instant to another, given
/// those that came before `from` too.
fn closed_loop(host: &mut dyn Host, clients: usize, from: u64, to: u64) -> u64 {
    let mut rng = dice(5);
    let mut next = std::collections::BinaryHeap::from(vec![core::cmp::Reverse((ms(0), 0_usize)); clients]);
    let mut served = 0;
    while let Some(core::cmp::Reverse((at, client))) = next.pop().filter(|next| next.0.0 < ms(to)) {
        let reply = host.arrives(at, US, &mut rng);
        let answered = at.after(reply.after);
        served += u64::from(reply.status == Some(200) && answered >= ms(from) && answered < ms(to));
        next.push(core::cmp::Reverse((answered, client)));
    }
    served
}
