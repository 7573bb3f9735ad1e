//! Access logs of a JSON object on each line, under the names their writers give things.

use serde_json::{Map, Value};

use super::time::{Lasted, Stamp};
use super::{Party, Row};

/// Reads an object that has a time, a client and a status.
pub(super) fn row(text: &str) -> Option<Row> {
    let Value::Object(line) = serde_json::from_str(text).ok()? else { return None };
    let line = Fields(line);
    // Caddy reports a failure on a line of its own, beside the one of the access.
    if line.text("logger").is_some_and(|logger| logger.starts_with("http.log.error")) {
        return None;
    }
    let status = line.first(STATUS)?;
    let client = line.first(CLIENT)?;
    let (host, agent) = (line.first(HOST), line.first(AGENT));
    Some(Row {
        stamp: line.arrival()?,
        status: status.parse().ok().filter(|&status| status > 0),
        party: Party::new(&client, host.as_deref(), agent.as_deref())?,
    })
}

struct Fields(Map<String, Value>);

impl Fields {
    /// When the request arrived, as near as the line tells.
    fn arrival(&self) -> Option<Stamp> {
        if let Some(began) = BEGAN.iter().find_map(|key| Stamp::parse(&self.text(key)?)) {
            return Some(began);
        }
        let (key, ended) = ENDED.iter().find_map(|key| Some((*key, Stamp::parse(&self.text(key)?)?)))?;
        Some(self.lasted(key).map_or(ended, |lasted| ended.less(lasted)))
    }

    /// How long the answer took, where the writer is known to give the time of its end.
    fn lasted(&self, time: &str) -> Option<Lasted> {
        let nginx = NGINX_TIMES.contains(&time) || NGINX_NAMES.iter().all(|key| self.0.contains_key(*key));
        if let Some(lasted) = self.text("request_time").filter(|_| nginx) {
            return Lasted::seconds(&lasted);
        }
        let caddy = time == "ts" && self.0.get("request").is_some_and(Value::is_object);
        if let Some(lasted) = self.0.get("duration").filter(|lasted| caddy && lasted.is_number()) {
            return Lasted::seconds(&scalar(lasted)?);
        }
        let traefik = self.0.contains_key("DownstreamStatus");
        self.text("Duration").filter(|_| traefik).and_then(|lasted| Lasted::nanoseconds(&lasted))
    }

    /// What the first of these names that is there says, be it that there is nothing to say.
    fn first(&self, keys: &[&str]) -> Option<String> {
        let mut found = keys.iter().filter_map(|key| self.text(key)).peekable();
        let first = found.peek().cloned();
        found.find(|text| !["", "-"].contains(&text.as_str())).or(first)
    }

    /// A field as text: under its whole name, or in the objects that its dots tell.
    fn text(&self, key: &str) -> Option<String> {
        if let Some(value) = self.0.get(key) {
            return scalar(value);
        }
        let mut parts = key.split('.');
        let outer = self.0.get(parts.next()?)?;
        scalar(parts.try_fold(outer, |value, part| value.get(part))?)
    }
}

/// A value as text; of a list its first.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => {
            let text = number.to_string();
            // Very small numbers are written with an exponent, which no time or duration has.
            Some(if text.contains('e') { format!("{:.9}", number.as_f64()?) } else { text })
        }
        Value::Array(list) => list.first().filter(|first| !first.is_array()).and_then(scalar),
        Value::Null => Some(String::new()),
        Value::Bool(_) | Value::Object(_) => None,
    }
}

/// Times at which a request was received: of Traefik, of Envoy, of AWS load balancers.
const BEGAN: &[&str] = &["StartUTC", "StartLocal", "start_time", "request_creation_time"];
/// Times at which an answer ended, or of which that is not known; those that are finer as a rule first. `@timestamp`
/// comes last because whoever forwards a log likes to write it anew.
const ENDED: &[&str] = &["msec", "ts", "time_iso8601", "time_local", "time", "timestamp", "@timestamp"];
/// Times that only nginx names so.
const NGINX_TIMES: &[&str] = &["msec", "time_iso8601", "time_local"];
/// Variables of nginx that together give it away, whatever its time is called.
const NGINX_NAMES: &[&str] = &["remote_addr", "body_bytes_sent", "request_time"];

const CLIENT: &[&str] = &[
    "client_ip",
    "request.client_ip",
    "remote_addr",
    "remote_ip",
    "request.remote_ip",
    "request.remote_addr",
    "ClientHost",
    "ClientAddr",
    "clientip",
    "remoteIP",
    "remote_host",
    "client",
    "client.ip",
    "client.address",
    "source.ip",
    "client:port",
    "downstream_remote_address",
    "x_forwarded_for",
];
const HOST: &[&str] = &[
    "host",
    "http_host",
    "RequestHost",
    "request.host",
    "server_name",
    "vhost",
    "authority",
    "url.domain",
    "domain_name",
    "RequestAddr",
];
const STATUS: &[&str] = &[
    "status",
    "DownstreamStatus",
    "response_code",
    "status_code",
    "http_status",
    "http.response.status_code",
    "elb_status_code",
];
const AGENT: &[&str] = &[
    "http_user_agent",
    "user_agent",
    "request_User-Agent",
    "request.headers.User-Agent",
    "RequestHeaders.User-Agent",
    "user_agent.original",
    "userAgent",
    "agent",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> Option<(u64, u64)> {
        row(text).map(|row| (row.stamp.nanos, row.stamp.resolution))
    }

    #[test]
    fn the_end_less_its_length_is_the_arrival_where_the_writer_is_known() {
        let at = |secs: u64, millis: u64| secs * 1_000_000_000 + millis * 1_000_000;
        let (second, milli) = (1_000_000_000, 1_000_000);
        for (story, text, expected) in [
            (
                "nginx by its time",
                r#"{"msec":"1700000000.500","request_time":"0.250","remote_addr":"192.0.2.1","status":"200"}"#,
                (at(1_700_000_000, 250), 2 * milli),
            ),
            (
                "nginx by its other names",
                r#"{"time":"2023-11-14T22:13:20+00:00","request_time":0.25,"remote_addr":"192.0.2.1","body_bytes_sent":1,
                   "status":200}"#,
                (at(1_699_999_999, 750), second + second / 100),
            ),
            (
                "anybody's request_time",
                r#"{"time":1700000000,"request_time":250,"remote_ip":"192.0.2.1","status":200}"#,
                (at(1_700_000_000, 0), second),
            ),
            (
                "Caddy",
                r#"{"ts":1700000000.5,"duration":0.25,"request":{"remote_ip":"192.0.2.1"},"status":200}"#,
                (at(1_700_000_000, 250), second / 10 + second / 100),
            ),
            (
                "Caddy, a short answer",
                r#"{"ts":1700000000.5,"duration":9.5e-7,"request":{"remote_ip":"192.0.2.1"},"status":200}"#,
                (at(1_700_000_000, 500) - 950, second / 10 + 1),
            ),
            (
                "Caddy, durations as words",
                r#"{"ts":1700000000.5,"duration":"250ms","request":{"remote_ip":"192.0.2.1"},"status":200}"#,
                (at(1_700_000_000, 500), second / 10),
            ),
            (
                "Traefik",
                r#"{"StartUTC":"2023-11-14T22:13:20.25Z","Duration":250000000,"time":"2023-11-14T22:13:20Z",
                   "ClientHost":"192.0.2.1","DownstreamStatus":200}"#,
                (at(1_700_000_000, 250), second / 100),
            ),
            (
                "Traefik without its start",
                r#"{"Duration":250000000,"time":"2023-11-14T22:13:20Z","ClientHost":"192.0.2.1","DownstreamStatus":200}"#,
                (at(1_699_999_999, 750), second + 1),
            ),
        ] {
            assert_eq!(nanos(text), Some(expected), "{story}");
        }
    }

    #[test]
    fn what_lacks_a_time_a_client_or_a_status_is_no_access() {
        for text in [
            r#"{"ts":1700000000,"status":200}"#,
            r#"{"ts":1700000000,"client":"192.0.2.1"}"#,
            r#"{"client":"192.0.2.1","status":200}"#,
            r#"{"ts":0.25,"client":"192.0.2.1","status":200}"#,
            r#"{"ts":1700000000,"client":{"name":"a"},"status":200}"#,
            r#"{"ts":1700000000,"client":"-","status":200}"#,
            r#"{"logger":"http.log.error","ts":1700000000,"request":{"remote_ip":"192.0.2.1"},"status":502}"#,
            r#"{"ts":1700000000,"client":"192.0.2.1","status":2"#,
            "[1]",
            "7",
        ] {
            assert_eq!(row(text), None, "{text}");
        }
    }
}
