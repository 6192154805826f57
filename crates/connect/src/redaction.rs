//! Words of command lines in errors, without the passwords of addresses.

use clap::error::ContextValue;

use crate::address::{begins_as_path, has_parameters};

/// Removes users and passwords from the words of the command line that an error quotes.
#[must_use]
pub fn without_passwords(mut error: clap::Error) -> clap::Error {
    let quoted = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(word) => Some((kind, without_password(word))),
        _ => None,
    });
    for (kind, word) in quoted.collect::<Vec<_>>() {
        error.insert(kind, ContextValue::String(word));
    }
    error
}

/// Returns a word of a command line without the user and the password of an address.
fn without_password(word: &str) -> String {
    // The path of a socket may have an `@`, but has no user. Any `&` in a password looks like the start of a parameter.
    if begins_as_path(word) && has_parameters(word) || is_url_of_path(word) {
        return before_parameters(word).to_owned();
    }
    let (secret, place) = word.rsplit_once('@').unwrap_or(("", word));
    let place = if has_parameters(secret) {
        // The `@` may be in a password that is a parameter, and the password may continue after it.
        ""
    } else if word.contains("://") || has_parameters(place) {
        before_parameters(place)
    } else {
        place
    };
    match secret.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|c| c.is_ascii_alphanumeric()) => {
            format!("{scheme}://{place}")
        }
        _ => place.to_owned(),
    }
}

fn before_parameters(address: &str) -> &str {
    address.split(['?', '&']).next().unwrap_or(address)
}

/// Returns whether a word is the URL of a socket without a host. Its scheme is `unix`, `redis+unix` or `valkey+unix`, in any
/// case. URLs may begin with spaces.
fn is_url_of_path(word: &str) -> bool {
    let (scheme, place) = word.split_once("://").unwrap_or_default();
    let transport = scheme.rsplit('+').next().unwrap_or_default();
    transport.trim_start().eq_ignore_ascii_case("unix") && place.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_their_passwords() {
        for (word, expected) in [
            ("redis://u:p@host/2", "redis://host/2"),
            ("redis://u:p'w d@e@host", "redis://host"),
            ("u:p@host:1", "host:1"),
            ("u:p://w@host", "host"),
            ("u@a://host", "a://host"),
            ("localhost?user=u&pass=p", "localhost"),
            ("redis://host?pass=p", "redis://host"),
            ("redis://host/2?db=1&password=p", "redis://host/2"),
            ("redis://u:p@host?pass=w", "redis://host"),
            ("redis://host?pass=p@w", "redis://"),
            ("host?pass=p@w", ""),
            ("redis://u:p?w@host", "redis://host"),
            ("unix://u:p?w@host/s", "unix://host/s"),
            ("unix://u:p@host/s?pass=:///", "unix://host/s"),
            ("unix://s?user=u&pass=p", "unix://s"),
            ("host&pass=p", "host"),
            ("/s&pass=p", "/s"),
            ("what?", "what?"),
            ("unix:///s?user=u&pass=p", "unix:///s"),
            ("unix:///s?pass=p&w@d", "unix:///s"),
            ("unix:///a@b/s", "unix:///a@b/s"),
            ("unix://u:p@localhost/a@b", "unix://b"),
            ("unix://u:p/w@socket", "unix://socket"),
            ("/a@b/s?user=u&pass=p@w", "/a@b/s"),
            ("/s?.sock", "/s?.sock"),
            ("Redis+Unix:///s?db=2&pass=p", "Redis+Unix:///s"),
            (" unix:///s?user=u&pass=p", " unix:///s"),
            ("host:1", "host:1"),
            ("redis://host", "redis://host"),
            ("", ""),
        ] {
            assert_eq!(without_password(word), expected);
        }
    }
}
