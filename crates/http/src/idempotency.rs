//! Requests that may be sent again: the header `Idempotency-Key`, and the receipts that keep their answers.

use std::fmt::Write;

use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use ring::digest::{Context, SHA256};
use valkeybloom_near::once::receipt_prefix;

use crate::fault::Fault;

const HEADER: &str = "Idempotency-Key";

/// The largest length of an idempotency key.
const MAX_LENGTH: usize = 255;

/// The bytes of the hash in a receipt's name.
const HASH_BYTES: usize = 16;

/// Names of receipts.
pub struct Receipts {
    prefix: Vec<u8>,
}

impl Receipts {
    /// Names the receipts of the filter at a key.
    pub fn new(filter: &str) -> Self {
        let prefix = [&receipt_prefix(filter.as_bytes())[..], b"http:"].concat();
        Self { prefix }
    }

    /// Returns the name of a request's receipt, if the request has an idempotency key. The name depends on the keys to insert, too,
    /// so that no request gets the answers for the keys of another one.
    ///
    /// # Errors
    /// The header is invalid.
    pub fn name(&self, headers: &HeaderMap, keys: &[String]) -> Result<Option<Vec<u8>>, Fault> {
        let mut values = headers.get_all(HEADER).iter();
        let Some(value) = values.next() else {
            return Ok(None);
        };
        let own = parse(value).filter(|_| values.next().is_none());
        let own = own.ok_or_else(|| {
            let why = format!(
                "{HEADER} is a string in quotes, of 1 to {MAX_LENGTH} printable ASCII characters"
            );
            Fault::new(StatusCode::BAD_REQUEST, why)
        })?;
        let mut hash = Context::new(&SHA256);
        for key in keys {
            hash.update(&(key.len() as u64).to_le_bytes());
            hash.update(key.as_bytes());
        }
        let mut name = format!("{own}:");
        for byte in &hash.finish().as_ref()[..HASH_BYTES] {
            write!(name, "{byte:02x}").expect("a text takes any other");
        }
        Ok(Some([&self.prefix, name.as_bytes()].concat()))
    }
}

/// Returns the idempotency key of a header: a string of RFC 9651, or the same without its quotes if it has no character that
/// means something else there.
fn parse(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?;
    let key = match text.strip_prefix('"') {
        Some(quoted) => unescape(quoted.strip_suffix('"')?)?,
        None if text.contains([' ', '\t', '"', '\\', ',', ';']) => return None,
        None => text.to_owned(),
    };
    let is_valid = (1..=MAX_LENGTH).contains(&key.len());
    is_valid.then_some(key)
}

/// Returns the characters between the quotes of a string.
fn unescape(quoted: &str) -> Option<String> {
    let mut key = String::new();
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        key.push(match character {
            '\\' => characters.next().filter(|next| "\"\\".contains(*next))?,
            '"' | '\t' => return None,
            other => other,
        });
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(values: &[&'static str], keys: &[&str]) -> Result<Option<String>, Fault> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_static(value));
        }
        let keys: Vec<String> = keys.iter().copied().map(str::to_owned).collect();
        let name = Receipts::new("seen").name(&headers, &keys)?;
        Ok(name.map(|name| String::from_utf8(name).expect("ASCII")))
    }

    #[test]
    fn a_receipt_is_named_by_the_header_and_the_keys() {
        assert_eq!(name(&[], &["a"]).unwrap(), None);
        // printf '\x01\0\0\0\0\0\0\0a\x02\0\0\0\0\0\0\0bc' | sha256sum
        let expected = "{seen}:once:http:8-4:9a8acca1b6c6c0befd3fbc756aed625d";
        for value in ["8-4", "\"8-4\""] {
            let name = name(&[value], &["a", "bc"]).unwrap();
            assert_eq!(name.as_deref(), Some(expected), "{value}");
        }
        for (value, key) in [
            (r#""a \"b\" \\, c;d""#, r#"a "b" \, c;d"#),
            ("{k}:", "{k}:"),
        ] {
            let name = name(&[value], &["a"]).unwrap().unwrap();
            let rest = name.strip_prefix("{seen}:once:http:").unwrap();
            assert_eq!(rest.rsplit_once(':').unwrap().0, key);
        }
        let different = [&["a", "bc"][..], &["bc", "a"], &["ab", "c"], &["abc"]];
        let names = different.map(|keys| name(&["k"], keys).unwrap());
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }
}
