//! Addresses of servers, as programs take them from their command lines.

/// The parameters of a URL that the client library reads. It ignores others.
const TCP_PARAMETERS: [&str; 1] = ["protocol"];
const SOCKET_PARAMETERS: [&str; 4] = ["db", "user", "pass", "protocol"];

/// Returns the URL of an address; `None` if it has parts that the client library would ignore: they may be meant as a
/// database, or be the rest of a password.
#[must_use]
pub fn url(address: &str) -> Option<String> {
    let url = if address.contains("://") {
        address.to_owned()
    } else {
        format!("redis://{address}")
    };
    let (place, parameters) = url.split_once('?').unwrap_or((&url, ""));
    let known = if place.contains("unix://") {
        &SOCKET_PARAMETERS[..]
    } else {
        &TCP_PARAMETERS
    };
    let mut names = parameters
        .split('&')
        .map(|one| one.split_once('=').map_or(one, |(name, _)| name));
    let is_known = names.all(|name| name.is_empty() || known.contains(&name));
    (is_known && !url.contains('#')).then_some(url)
}

/// Returns a host and a port as one text. An IPv6 address is in brackets.
#[must_use]
pub fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Returns a word of a command line without the user and the password of an address.
#[must_use]
pub fn without_password(word: &str) -> String {
    let Some((secret, rest)) = word.rsplit_once('@') else {
        return word.to_owned();
    };
    match secret.split_once("://") {
        Some((scheme, _)) if scheme.bytes().all(|c| c.is_ascii_alphanumeric()) => {
            format!("{scheme}://{rest}")
        }
        _ => rest.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_address_is_ignored() {
        for address in [
            "localhost",
            "u:p%23w@localhost:1/2",
            "redis://localhost",
            "rediss://localhost?protocol=resp3",
            "redis://localhost/?",
            "unix:///a/socket?db=2&user=u&pass=p",
        ] {
            assert!(url(address).is_some(), "{address}");
        }
        for address in [
            "localhost?db=2",
            "redis://localhost/2?protocol=resp3&timeout=1",
            "redis://u:12?3@localhost",
            "redis://u:12#3@localhost",
            "rediss://localhost#insecure",
            "unix:///a/socket?database=2",
        ] {
            assert_eq!(url(address), None, "{address}");
        }
    }

    #[test]
    fn words_lose_their_passwords() {
        for (word, expected) in [
            ("redis://u:p@host/2", "redis://host/2"),
            ("redis://u:p'w d@e@host", "redis://host"),
            ("u:p@host:1", "host:1"),
            ("u:p://w@host", "host"),
            ("u@a://host", "a://host"),
            ("host:1", "host:1"),
            ("redis://host", "redis://host"),
            ("", ""),
        ] {
            assert_eq!(without_password(word), expected);
        }
    }

    #[test]
    fn addresses_of_any_version_have_ports() {
        assert_eq!(host_and_port("::1", 1), "[::1]:1");
        assert_eq!(host_and_port("127.0.0.1", 1), "127.0.0.1:1");
    }
}
