//! `--limits 'PATTERN: key=value, …'`: an entry of the configuration file on the command line.

use std::sync::Arc;

use comity::Source;
use comity::config::Config;

/// An entry, read as the table `[limits."PATTERN"]` of the configuration file would be.
pub(crate) fn limits(text: &str) -> Result<Config, String> {
    let (pattern, keys) = split_pattern(text).ok_or_else(|| unsplit(text))?;
    let mut toml = format!("[limits.{}]\n", quoted(pattern));
    for pair in split_pairs(keys) {
        let (key, value) =
            pair.split_once('=').ok_or_else(|| format!("`{}` is no key=value; {ALLOWED}", pair.trim()))?;
        let (key, value) = (key.trim(), value.trim());
        let value = if key == "windows" { windows(value) } else { toml_value(value) };
        toml.push_str(&format!("{} = {value}\n", quoted(key)));
    }
    let mut config = Config::parse(&toml).map_err(|error| match error {
        comity::config::ConfigError::Syntax(error) => error.message().trim().to_owned(),
        error => error.to_string(),
    })?;
    for (_, limits) in &mut config.rules {
        limits.source = Some(Source::Person(Arc::from(format!("--limits {pattern}"))));
    }
    Ok(config)
}

/// What is wrong with an entry that has no pattern or no keys.
fn unsplit(text: &str) -> String {
    let keys = text.find('=').and_then(|equals| text[..equals].rfind(':')).map(|colon| text.split_at(colon + 1));
    match keys {
        Some((pattern, keys)) if pattern.len() > 1 && !keys.starts_with(char::is_whitespace) => {
            format!("a blank belongs after the colon: '{pattern} {keys}'")
        }
        _ => ALLOWED.to_owned(),
    }
}

/// Windows as the list that the configuration file has: `20:1;100:120`, `[20:1, 100:120]`, `["60/1h"]`.
fn windows(value: &str) -> String {
    let inside = value.strip_prefix('[').and_then(|value| value.strip_suffix(']')).unwrap_or(value);
    let windows = inside.split([';', ',']).map(|window| window.trim().trim_matches(['"', '\'']));
    let windows: Vec<&str> = windows.filter(|window| !window.is_empty()).collect();
    // Nothing at all is no window and none of the values allowed; an empty list is one.
    let windows = if windows.is_empty() && inside == value { vec![""] } else { windows };
    format!("[{}]", windows.into_iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// The pattern ends at a colon with white space after it, so that ports and IPv6 addresses stay whole.
fn split_pattern(text: &str) -> Option<(&str, &str)> {
    let at = text.match_indices(':').map(|(at, _)| at).find(|&at| text[at + 1..].starts_with(char::is_whitespace))?;
    let (pattern, keys) = (text[..at].trim(), text[at + 1..].trim());
    (!pattern.is_empty() && !keys.is_empty()).then_some((pattern, keys))
}

/// Splits at commas outside of brackets and quotes.
fn split_pairs(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut from) = (0_u32, None, 0);
    let mut pairs = Vec::new();
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                pairs.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    pairs.push(&text[from..]);
    pairs.retain(|pair| !pair.trim().is_empty());
    pairs
}

/// What is a TOML value stays one; anything else (`15/min`, `500ms`, `fixed`) is a text.
fn toml_value(text: &str) -> String {
    match format!("value = {text}").parse::<toml::Table>() {
        Ok(table) if table.len() == 1 => text.to_owned(),
        _ => quoted(text),
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

const ALLOWED: &str = "allowed is 'PATTERN: key=value, …' with the keys of the configuration file, \
                       such as '*.example.org: rate=15/min, burst=3'";

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_entry_is_read_like_a_table_of_the_file() {
        let config = limits("*.Example.org: rate=15/min, burst=3, refuse_also=[403, 420], policy=fixed").unwrap();
        let (pattern, said) = &config.rules[0];
        assert_eq!(pattern.to_string(), "*.example.org");
        assert_eq!(said.interval, Some(Duration::from_secs(4)));
        assert_eq!(said.burst.map(std::num::NonZero::get), Some(3));
        assert_eq!(said.policy, Some(comity::Policy::Fixed));
        assert_eq!(said.reading.as_ref().unwrap().refuse_also, [403, 420]);
        assert_eq!(said.source.as_ref().unwrap().to_string(), "--limits *.Example.org");
    }

    #[test]
    fn ports_and_addresses_stay_whole() {
        for (text, name) in [
            ("example.org:8080: interval=1", "example.org:8080"),
            ("[::1]:8080: interval=1", "[::1]:8080"),
            ("example.org/api: interval=\"1s\"", "example.org/api"),
            ("*: interval=0.5", "*"),
        ] {
            assert_eq!(limits(text).unwrap().rules[0].0.to_string(), name);
        }
    }

    #[test]
    fn windows_are_one_or_several() {
        for (text, count) in [
            ("api.example.org/v1: windows=100:120", 1),
            ("a.example: windows=20:1;100:120, burst=20", 2),
            ("a.example: windows = [20:1, 100:120]", 2),
            ("a.example: windows=[\"20:1\", \"60/1h\"]", 2),
            ("a.example: windows=\"60/1h\"", 1),
        ] {
            let config = limits(text).unwrap();
            assert_eq!(config.rules[0].1.windows.as_ref().map(Vec::len), Some(count), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, told) in [
            ("example.org", "PATTERN: key=value"),
            ("example.org: ", "PATTERN: key=value"),
            (": interval=1", "PATTERN: key=value"),
            ("example.org: interval", "PATTERN: key=value"),
            ("example.org: intervall=1", "intervall"),
            ("example.org: burst=0", "burst = 0"),
            ("x.test:burst=0", "a blank belongs after the colon: 'x.test: burst=0'"),
            ("x.test:8080:burst=1", "'x.test:8080: burst=1'"),
            ("x.test: windows=20:1, 100:120", "`100:120` is no key=value"),
            ("x.test: windows=20:0", "windows = 20:0"),
            ("x.test: windows=", "windows"),
            ("example.org: rate=fast", "rate = fast"),
            ("a.*.org: interval=1", "a.*.org"),
        ] {
            let error = limits(text).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
