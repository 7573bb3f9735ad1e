//! A line that is a JSON object.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;

use super::extra::Extra;
use super::limits::LimitsRead;
use super::line::Reason;
use crate::request::{MAX_HEADERS, field};

/// The keys a line may have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    url: String,
    method: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Values>,
    body: Option<String>,
    limits: Option<serde_json::Value>,
    identity: Option<String>,
    cost: Option<NonZeroU32>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a header is a text or a list of texts")]
enum Values {
    One(String),
    Many(Vec<String>),
}

/// Reads an object: its URL as written, and the rest.
pub(super) fn read(line: &str, limits: &mut LimitsRead) -> Result<(String, Extra), Reason> {
    let object: Object =
        serde_json::from_str(line).map_err(|error| error.to_string().replace(" at line 1 column ", " at column "))?;
    let body = object.body.map(Bytes::from);
    let method = match object.method {
        Some(name) => Some(method(&name)?),
        None => body.is_some().then_some(Method::POST),
    };
    let (own_limits, min_refetch_age) = match &object.limits {
        Some(table) => limits.read(table).map(|(limits, age)| (Some(limits), age))?,
        None => (None, None),
    };
    let extra = Extra {
        method,
        headers: headers(object.headers)?,
        body,
        limits: own_limits,
        min_refetch_age,
        identity: object.identity.filter(|identity| !identity.is_empty()).map(Into::into),
        cost: object.cost,
        credentials: None,
    };
    Ok((object.url, extra))
}

fn method(name: &str) -> Result<Method, Reason> {
    // Methods are case-sensitive (RFC 9110 section 9.1), and all that servers know are upper case.
    match name.to_ascii_uppercase().parse() {
        Ok(Method::CONNECT) | Err(_) => {
            Err(format!("method = {name:?}: allowed is a method such as GET or POST").into())
        }
        Ok(method) => Ok(method),
    }
}

fn headers(written: BTreeMap<String, Values>) -> Result<Box<[(HeaderName, HeaderValue)]>, Reason> {
    let mut headers = Vec::new();
    for (name, values) in written {
        let values = match values {
            Values::One(value) => vec![value],
            Values::Many(values) => values,
        };
        for value in values {
            headers.push(field(&name, &value).map_err(|wrong| format!("header {name:?}: {wrong}"))?);
        }
    }
    if headers.len() > MAX_HEADERS {
        return Err("has more than 100 header fields".into());
    }
    headers.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
    Ok(headers.into())
}
