//! Flags about which shared pace is looked at.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use comity_store::Readable;

use super::pace;
use super::shared::PlaceFlags;

/// Which shared pace is looked at.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct LookFlags {
    #[command(flatten)]
    shared: PlaceFlags,

    /// A configuration file (comity.toml) whose `shared` says where; without it, the one that COMITY_CONFIG names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl LookFlags {
    /// The store to look at.
    pub(crate) fn look(&self) -> Result<Box<dyn Readable>> {
        let named = std::env::var_os("COMITY_CONFIG").filter(|name| !name.is_empty()).map(PathBuf::from);
        let configured = match self.config.as_ref().or(named.as_ref()) {
            Some(path) => pace::read(path)?.shared,
            None => None,
        };
        let place = self.shared.place(std::env::var_os("COMITY_SHARED"), configured.as_deref())?;
        PlaceFlags::look(&place)
    }
}
