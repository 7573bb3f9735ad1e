//! What there is: scenarios and policies.

use anyhow::Result;
use comity_simulate::baselines::NAMES;

use super::builtin;

/// All scenarios and policies, each with what it is.
pub(super) fn text() -> Result<String> {
    let mut text = String::new();
    for (judged, head) in [(true, "Scenarios that a policy is judged by:"), (false, "Other scenarios:")] {
        let mut rows = Vec::new();
        for builtin in builtin::ALL.iter().filter(|builtin| builtin.judged == judged) {
            rows.push((builtin.name, builtin.scenario()?.about));
        }
        section(&mut text, head, &rows);
    }
    section(&mut text, "Policies of ours:", &OWN.map(|(name, what)| (name, what.to_owned())));
    let others: Vec<_> = NAMES.iter().map(|(name, what, source)| (*name, format!("{what} ({source})"))).collect();
    section(&mut text, "Policies of other programs:", &others);
    Ok(text)
}

fn section(text: &mut String, head: &str, rows: &[(&str, String)]) {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("{head}\n"));
    for (name, what) in rows {
        text.push_str(&format!("  {name:width$}  {what}\n"));
    }
}

/// Our own, and what they are.
const OWN: [(&str, &str); 5] = [
    ("adaptive", "finds the rate that a host accepts and stays a little under it; the default"),
    ("aimd", "speeds up until refused, then slows down"),
    ("pressure", "refusals add spacing, which drains by itself"),
    ("refusal", "slows down when refused, and never speeds up by itself"),
    ("interval 100ms", "an interval that a person set"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use comity_simulate::scenario::OWN_POLICIES;

    #[test]
    fn everything_is_listed() {
        let text = text().unwrap();
        let names = OWN_POLICIES.into_iter().chain(NAMES.iter().map(|(name, ..)| *name));
        for name in names.chain(builtin::ALL.iter().map(|builtin| builtin.name)) {
            assert!(text.contains(&format!("\n  {name} ")), "{name} is missing");
        }
    }
}
