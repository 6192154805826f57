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
    let is_path = begins_as_path(word) && has_parameters(word);
    let is_socket = is_path || is_url_of_socket(word);
    // In a socket's address they are parameters. Any `&` in a password looks like the start of another one.
    let end = word.find('?').filter(|_| is_socket);
    let word = &word[..end.unwrap_or(word.len())];
    // A path has no user, but somebody may have written one before it.
    let has_no_user = is_path || is_socket && word.contains(":///");
    let Some((secret, rest)) = word.rsplit_once('@').filter(|_| !has_no_user) else {
        return word.to_owned();
    };
    match secret.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|c| c.is_ascii_alphanumeric()) => {
            format!("{scheme}://{rest}")
        }
        _ => rest.to_owned(),
    }
}

/// Returns whether a word has the scheme of a socket: `unix`, `redis+unix` or `valkey+unix`, in any case. URLs may begin with
/// spaces.
fn is_url_of_socket(word: &str) -> bool {
    let scheme = word.split_once("://").map_or("", |(scheme, _)| scheme);
    let transport = scheme.rsplit('+').next().unwrap_or_default();
    transport.trim_start().eq_ignore_ascii_case("unix")
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
