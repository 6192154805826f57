//! Addresses of servers, as programs take them from their command lines.

use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// The parameters of a URL that the client library reads. It ignores others.
const TCP_PARAMETERS: [&str; 1] = ["protocol"];
const SOCKET_PARAMETERS: [&str; 4] = ["db", "user", "pass", "protocol"];

/// The address of a server, with user, password and database.
#[derive(Clone, Debug)]
pub struct Address {
    info: ConnectionInfo,
    place: Place,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a socket of this machine.
    Socket(PathBuf),
    /// At a port of a host.
    Port {
        /// Its name, or its IP address without brackets.
        host: String,
        /// The TCP port.
        port: u16,
        /// Whether the port speaks TLS.
        has_tls: bool,
    },
}

/// The error of a text that is no address. It does not quote the text, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnAddress;

impl Address {
    /// Parses an address: a URL such as `rediss://user:password@host:port/database`, or one without its scheme, or the path
    /// of a socket, which begins with `/` or `.`.
    ///
    /// # Errors
    /// It is neither, or has parts that would be ignored.
    pub fn parse(address: &str) -> Result<Self, NotAnAddress> {
        let info = if is_path(address) {
            ConnectionAddr::Unix(address.into()).into_connection_info()
        } else {
            checked_url(address)
                .ok_or(NotAnAddress)?
                .into_connection_info()
        };
        let info = info.map_err(|_| NotAnAddress)?;
        let user = info.redis_settings();
        // The client library ignores a user without a password.
        if user.username().is_some() && user.password().is_none() {
            return Err(NotAnAddress);
        }
        let place = place_of(info.addr()).ok_or(NotAnAddress)?;
        Ok(Self { info, place })
    }

    /// Returns the address as the client library takes it.
    #[must_use]
    pub const fn info(&self) -> &ConnectionInfo {
        &self.info
    }

    /// Returns where the server listens.
    #[must_use]
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Returns whether the port speaks TLS.
    #[must_use]
    pub const fn has_tls(&self) -> bool {
        matches!(self.place, Place::Port { has_tls: true, .. })
    }
}

/// The host and the port, or the socket. An IPv6 address is in brackets.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Socket(path) => write!(f, "{}", path.display()),
            Place::Port { host, port, .. } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Place::Port { host, port, .. } => write!(f, "{host}:{port}"),
        }
    }
}

impl fmt::Display for NotAnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a server address: write redis://user:password@host:port/database, or the path of a socket",
        )
    }
}

impl std::error::Error for NotAnAddress {}

fn place_of(address: &ConnectionAddr) -> Option<Place> {
    let (host, port, has_tls) = match address {
        ConnectionAddr::Unix(path) => return Some(Place::Socket(path.clone())),
        ConnectionAddr::Tcp(host, port) => (host, port, false),
        ConnectionAddr::TcpTls { host, port, .. } => (host, port, true),
        _ => return None,
    };
    Some(Place::Port {
        host: host.clone(),
        port: *port,
        has_tls,
    })
}

/// Returns whether an address is the path of a socket. A path followed by parameters is refused, because they may hold a
/// password.
fn is_path(address: &str) -> bool {
    begins_as_path(address) && !has_parameters(address)
}

pub fn begins_as_path(word: &str) -> bool {
    word.starts_with(['/', '.'])
}

/// Returns whether a path is followed by parameters of a URL. Otherwise a `?` belongs to the path.
pub fn has_parameters(path: &str) -> bool {
    let mut names = path.split(['?', '&']).skip(1);
    names.any(|one| {
        let name = one.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| SOCKET_PARAMETERS.contains(&name))
    })
}

/// Returns the URL of an address; `None` if it has parts that the client library would ignore: they may be meant as a
/// database, or be the rest of a password.
fn checked_url(address: &str) -> Option<String> {
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
    let is_known = parameters.is_empty() || names.all(|name| known.contains(&name));
    // The user, the password and the host of a socket's URL are among them.
    let has_host = is_of_socket(&url)
        && url
            .split_once(":///")
            .is_none_or(|(scheme, _)| scheme.contains(':'));
    (is_known && !has_host && !url.contains('#')).then_some(url)
}

/// Returns whether a URL has the scheme of a socket: `unix`, `redis+unix` or `valkey+unix`, in any case.
pub fn is_of_socket(url: &str) -> bool {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    let transport = scheme.rsplit('+').next().unwrap_or_default();
    transport.eq_ignore_ascii_case("unix")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_address_is_ignored() {
        let is_address = |address| Address::parse(address).is_ok();
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
            assert!(is_address(address), "{address}");
        }
        for address in [
            "localhost?db=2",
            "redis://localhost/2?protocol=resp3&timeout=1",
            "redis://u:12?3@localhost",
            "redis://u:12#3@localhost",
            "rediss://localhost#insecure",
            "redis://unix://localhost?db=2",
            "redis://u@localhost",
            "redis://u:@localhost",
            "unix:///a/socket?user=u",
            "unix://u:p@localhost/a/socket",
            "unix://localhost/a/socket",
            "unix://u:p@localhost/s?pass=:///",
            "redis://u:12?=3@localhost",
            "redis://localhost?protocol=resp3&",
            "unix:///a/socket?database=2",
        ] {
            assert!(!is_address(address), "{address}");
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
    fn addresses_are_shown_without_user_and_password() {
        for (address, expected) in [
            ("rediss://u:p@[::1]:1/2", "[::1]:1"),
            ("127.0.0.1", "127.0.0.1:6379"),
            ("unix:///a/socket?db=2&user=u&pass=p", "/a/socket"),
            ("./socket", "./socket"),
        ] {
            let parsed = Address::parse(address).expect("an address");
            assert_eq!(parsed.to_string(), expected);
        }
    }
}
