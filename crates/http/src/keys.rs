//! The keys of a request: in its URL, a form or JSON.

use hyper::StatusCode;
use hyper::header::HeaderValue;
use percent_encoding::percent_decode;
use serde::Deserialize;

use crate::batches::MAX_KEYS;
use crate::fault::Fault;

/// A body in JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    keys: Vec<String>,
}

/// Returns the keys of a URL's query and of a body.
///
/// # Errors
/// The request has no key, too many keys, or a key that is not UTF-8, or its body is not a form or JSON with keys.
pub fn parse(
    query: Option<&str>,
    kind: Option<&HeaderValue>,
    body: &[u8],
) -> Result<Vec<String>, Fault> {
    let mut keys = pairs(query.unwrap_or_default().as_bytes())?;
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        let invalid = |why: &str| {
            let why = format!("a body in JSON is {{\"keys\": [\"a\", \"b\"]}}: {why}");
            Fault::new(StatusCode::BAD_REQUEST, why)
        };
        // The parser would take an array of the fields as well.
        if !body.trim_ascii_start().starts_with(b"{") {
            return Err(invalid("not an object"));
        }
        let body: Body = serde_json::from_slice(body).map_err(|e| invalid(&e.to_string()))?;
        keys.extend(body.keys);
    } else if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        keys.extend(pairs(body)?);
    } else if !body.is_empty() {
        let why = "a body is application/x-www-form-urlencoded or application/json";
        return Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    if keys.is_empty() {
        return Err(Fault::new(StatusCode::BAD_REQUEST, "no key"));
    }
    // Often the value of a variable that is not set.
    if keys.iter().any(String::is_empty) {
        return Err(Fault::new(StatusCode::BAD_REQUEST, "a key is empty"));
    }
    if keys.len() > MAX_KEYS {
        let why = format!("more than {MAX_KEYS} keys");
        return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(keys)
}

/// Returns the keys of a query or a form, which have the same syntax.
fn pairs(text: &[u8]) -> Result<Vec<String>, Fault> {
    let decoded = |text: &[u8]| {
        let spaces = text
            .iter()
            .map(|&byte| if byte == b'+' { b' ' } else { byte });
        let text: Vec<u8> = spaces.collect();
        String::from_utf8(percent_decode(&text).collect())
    };
    let mut keys = Vec::new();
    for pair in text.split(|byte| *byte == b'&') {
        let mut parts = pair.splitn(2, |byte| *byte == b'=');
        let [name, value] = [(); 2].map(|()| parts.next().unwrap_or_default());
        if decoded(name).as_deref() == Ok("key") {
            let not_text = |_| Fault::new(StatusCode::BAD_REQUEST, "key is not UTF-8");
            keys.push(decoded(value).map_err(not_text)?);
        }
    }
    Ok(keys)
}
