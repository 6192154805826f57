//! Addresses of servers, as programs take them from their command lines.

/// The parameters of a URL that the client library reads. It ignores others.
const TCP_PARAMETERS: [&str; 1] = ["protocol"];
const SOCKET_PARAMETERS: [&str; 4] = ["db", "user", "pass", "protocol"];

/// Returns whether an address is the path of a socket. One with parameters is not taken: they may hold a password.
#[must_use]
pub fn is_path(address: &str) -> bool {
    begins_as_path(address) && !has_parameters(address)
}

fn begins_as_path(word: &str) -> bool {
    word.starts_with(['/', '.'])
}

/// Returns whether a path is followed by parameters of a URL. Else, a `?` is part of the path.
fn has_parameters(path: &str) -> bool {
    let mut names = path.split(['?', '&']).skip(1);
    names.any(|one| {
        let name = one.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| SOCKET_PARAMETERS.contains(&name))
    })
}

/// Returns the URL of an address; `None` if it has parts that the client library would ignore: they may be meant as a
/// database, or be the rest of a password.
#[must_use]
pub fn checked_url(address: &str) -> Option<String> {
    let url = if address.contains("://") {
        address.to_owned()
    } else {
        format!("redis://{address}")
    };
    let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
    let known = if is_of_socket(&url) {
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

/// Returns whether a URL has the scheme of a socket: `unix`, `redis+unix` or `valkey+unix`, in any case.
fn is_of_socket(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let transport = scheme.rsplit('+').next().unwrap_or_default();
    transport.eq_ignore_ascii_case("unix")
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
    if is_of_socket(word) || begins_as_path(word) && has_parameters(word) {
        // They are parameters, and any `&` in a password looks like the start of another one.
        return word.split('?').next().unwrap_or_default().to_owned();
    }
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
            "UNIX:///a/socket?db=2",
            "valkey+unix:///a/socket?db=2",
        ] {
            assert!(checked_url(address).is_some(), "{address}");
        }
        for address in [
            "localhost?db=2",
            "redis://localhost/2?protocol=resp3&timeout=1",
            "redis://u:12?3@localhost",
            "redis://u:12#3@localhost",
            "rediss://localhost#insecure",
            "redis://unix://localhost?db=2",
            "unix:///a/socket?database=2",
        ] {
            assert_eq!(checked_url(address), None, "{address}");
        }
    }

    #[test]
    fn paths_have_no_parameters() {
        for path in ["/a/socket", "./socket", "../a@b/s?.sock", "/a?b=2"] {
            assert!(is_path(path), "{path}");
        }
        for address in ["/a/socket?user=u&pass=p", "localhost", "unix:///a/socket"] {
            assert!(!is_path(address), "{address}");
        }
        assert_eq!(checked_url("/a/socket?user=u&pass=p"), None);
    }

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
            ("/a@b/s?user=u&pass=p@w", "/a@b/s"),
            ("/s?.sock", "/s?.sock"),
            ("Redis+Unix:///s?db=2&pass=p", "Redis+Unix:///s"),
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
