//! What is counted, as Prometheus reads it (text format 0.0.4).

use std::fmt::{Display, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use comity_guard::proxy::{Forward, forward, server};
use comity_guard::{Counted, Guard};

use super::access_log::AccessLog;

/// Where the numbers come from.
pub(super) struct Facts {
    pub(super) guard: Guard,
    pub(super) server: Arc<server::Counters>,
    pub(super) forward: Forward,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) reloads: Arc<Reloads>,
}

/// How often settings were read again.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    pub(super) done: AtomicU64,
    pub(super) failed: AtomicU64,
}

impl Facts {
    /// All of them.
    pub(super) fn text(&self) -> String {
        let mut text = Text(String::with_capacity(8192));
        text.guard(&self.guard.counted());
        text.server(&self.server);
        text.upstream(&self.forward.counters());
        text.gauge("tunnels", "Tunnels (websockets) open.", self.forward.tunnels().open());
        text.counter("tunnel_bytes", "Bytes through tunnels, both ways.", self.forward.tunnels().bytes());
        if let Some(log) = &self.log {
            text.counter("access_log_lost", "Lines of the access log that were not written.", log.lost());
        }
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let reloads = [("done", of(&self.reloads.done)), ("failed", of(&self.reloads.failed))];
        text.counters("reloads", "Times that the settings were read again.", "result", &reloads);
        text.0
    }
}

struct Text(String);

impl Text {
    fn guard(&mut self, counted: &Counted) {
        let outcomes = [
            ("admitted", counted.admitted),
            ("exempt", counted.exempt),
            ("refused", counted.refused),
            ("shed", counted.shed),
            ("abandoned", counted.abandoned),
        ];
        self.counters("requests", "Requests by what became of them.", "outcome", &outcomes);
        let refused: Vec<(&str, u64)> =
            counted.refused_by.iter().map(|(rule, count)| (rule.as_str(), *count)).collect();
        self.counters("refused", "Refusals by limit; in a dry run, those that would have been.", "limit", &refused);
        let would = [("refuse", counted.would_refuse), ("shed", counted.would_shed)];
        self.counters("would", "In a dry run, what would have been done.", "outcome", &would);
        self.counter("delayed", "Requests that a limit let in later.", counted.delayed);
        self.counter("queued", "Requests that waited for a place in flight.", counted.queued);
        self.counter("unknown_clients", "Requests of whom not even an address was known.", counted.unknown);
        self.counter("store_lost", "Refusals while the shared store was out of reach.", counted.store_lost);
        self.counter("overflow", "Takes without a bucket of their own, for lack of room.", counted.overflow);
        self.gauge("keys", "Buckets remembered.", counted.keys);
        self.gauge("in_flight", "Requests in flight.", counted.in_flight);
        if let Some(most) = counted.most_in_flight {
            self.gauge("in_flight_limit", "The most that may be.", most);
        }
        self.gauge("waiting", "Requests that wait for a place in flight.", counted.waiting);
    }

    fn server(&mut self, counters: &server::Counters) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.counter("connections", "Connections accepted.", of(&counters.connections));
        self.gauge("connections_open", "Connections open.", of(&counters.active_connections));
        self.counter("accept_waits", "Times that all connections were taken.", of(&counters.accept_waits));
        self.counter("accept_errors", "Connections that could not be accepted.", of(&counters.accept_errors));
        self.counter("handshake_errors", "TLS handshakes that failed.", of(&counters.handshake_errors));
        self.counter("heads", "Requests whose head was read.", of(&counters.requests));
        self.gauge("open_requests", "Requests whose answer is not written.", of(&counters.active_requests));
        self.counter("answers_abandoned", "Answers that were not written whole.", of(&counters.abandoned));
        self.counter("early_answers", "Answers before the request's body was there.", of(&counters.early_answers));
        self.counter("faults", "Faults of the guard itself, answered with 500.", of(&counters.faults));
        let slow = [
            ("head", of(&counters.slow_heads)),
            ("body", of(&counters.slow_bodies)),
            ("reader", of(&counters.stalled_readers)),
        ];
        self.counters("slow_clients", "Clients that were given up for being slow.", "at", &slow);
        let bytes = [("in", of(&counters.bytes_in)), ("out", of(&counters.bytes_out))];
        self.counters("bytes", "Bytes from and to clients.", "direction", &bytes);
    }

    fn upstream(&mut self, counters: &forward::Counters) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.counter("upstream_answers", "Requests that the upstream answered.", of(&counters.answered));
        let failures: Vec<(&str, u64)> = counters.failures().collect();
        self.counters("upstream_failures", "Requests answered with 502 or 504, by reason.", "error", &failures);
        self.counter("upstream_connections", "Connections opened to it.", of(&counters.connections));
        self.counter("upstream_reused", "Requests over a kept connection.", of(&counters.reused));
        self.counter("upstream_retried", "Requests sent again after a kept one was closed.", of(&counters.retried));
        self.counter("upstream_broken_answers", "Answers that broke off.", of(&counters.broken_answers));
        self.counter("malformed", "Requests refused for what they are.", of(&counters.refused));
        self.counter("broken_requests", "Requests whose body broke off.", of(&counters.broken_requests));
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        let name = format!("{PREFIX}{name}_total");
        self.head(&name, help, "counter");
        self.line(format_args!("{name} {value}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        let name = format!("{PREFIX}{name}");
        self.head(&name, help, "gauge");
        self.line(format_args!("{name} {value}"));
    }

    /// Counters told apart by a label, whose values need no escape: names of limits have neither quotes nor backslashes.
    fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) {
        let name = format!("{PREFIX}{name}_total");
        self.head(&name, help, "counter");
        for (of, value) in values {
            self.line(format_args!("{name}{{{label}=\"{of}\"}} {value}"));
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // A String takes all.
        let _ = writeln!(self.0, "{line}");
    }
}

const PREFIX: &str = "comity_guard_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_as_prometheus_reads_them() {
        let mut text = Text(String::new());
        text.guard(&Counted {
            admitted: 3,
            refused_by: vec![("each".into(), 2)],
            most_in_flight: Some(4),
            ..Counted::default()
        });
        for line in [
            "# TYPE comity_guard_requests_total counter",
            "comity_guard_requests_total{outcome=\"admitted\"} 3",
            "comity_guard_refused_total{limit=\"each\"} 2",
            "comity_guard_in_flight_limit 4",
        ] {
            assert!(text.0.lines().any(|told| told == line), "{line}: {}", text.0);
        }
        let heads = text.0.lines().filter(|line| line.starts_with("# HELP ")).count();
        assert_eq!(heads, text.0.lines().filter(|line| line.starts_with("# TYPE ")).count());
    }
}
