//! The log of `-v`, on standard error.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts the log. A second start is passed over.
pub(crate) fn start(verbose: u8, colours: bool) {
    if verbose == 0 {
        return;
    }
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(colours).with_target(verbose > 1);
    let _ = tracing_subscriber::registry().with(targets(verbose)).with(layer).try_init();
}

/// Our own rooms speak first; what is below them only at `-vv`.
fn targets(verbose: u8) -> Targets {
    let (ours, others) = match verbose {
        0 => (LevelFilter::OFF, LevelFilter::OFF),
        1 => (LevelFilter::DEBUG, LevelFilter::WARN),
        _ => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    Targets::new().with_default(others).with_target("comity", ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn ours_speak_before_others() {
        assert!(targets(1).would_enable("comity_fetch::run", &Level::DEBUG));
        assert!(!targets(1).would_enable("hyper", &Level::INFO));
        assert!(targets(2).would_enable("hyper", &Level::DEBUG));
        assert!(!targets(0).would_enable("comity", &Level::ERROR));
    }
}
