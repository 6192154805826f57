//! The keys of a request: in its URL, a form or JSON.

use hyper::StatusCode;
use hyper::header::HeaderValue;
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
        let body: Result<Body, _> = serde_json::from_slice(body);
        let body = body.map_err(|error| {
            let why = format!("a body in JSON is {{\"keys\": [\"a\", \"b\"]}}: {error}");
            Fault::new(StatusCode::BAD_REQUEST, why)
        })?;
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
    if keys.len() > MAX_KEYS {
        let why = format!("more than {MAX_KEYS} keys");
        return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(keys)
}

/// Returns the keys of a query or a form, which have the same syntax.
fn pairs(text: &[u8]) -> Result<Vec<String>, Fault> {
    let pairs = form_urlencoded::parse(text).filter(|(name, _)| name == "key");
    let keys: Vec<_> = pairs.map(|(_, key)| key.into_owned()).collect();
    // The parser replaces invalid UTF-8 by this character, which would merge different keys.
    if keys.iter().any(|key| key.contains('\u{FFFD}')) {
        return Err(Fault::new(StatusCode::BAD_REQUEST, "key is not UTF-8"));
    }
    Ok(keys)
}
