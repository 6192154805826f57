//! Addresses of servers, as programs take them from their command lines.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, parse_redis_url};

/// The parameters of a socket's URL. The client library also reads `protocol`, but the programs need RESP2.
const SOCKET_PARAMETERS: [&str; 3] = ["db", "user", "pass"];

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
        let info = if begins_as_path(address) {
            info_of_path(address)
        } else {
            info_of_url(address)
        };
        let info = info.ok_or(NotAnAddress)?;
        let place = Place::of(info.addr()).ok_or(NotAnAddress)?;
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

impl Place {
    fn of(address: &ConnectionAddr) -> Option<Self> {
        let (host, port, has_tls) = match address {
            ConnectionAddr::Unix(path) => return Some(Self::Socket(path.clone())),
            ConnectionAddr::Tcp(host, port) => (host, port, false),
            ConnectionAddr::TcpTls { host, port, .. } => (host, port, true),
            _ => return None,
        };
        Some(Self::Port {
            host: host.clone(),
            port: *port,
            has_tls,
        })
    }
}

/// Reads the path of a socket. Returns `None` if parameters follow it, because they may hold a password.
fn info_of_path(path: &str) -> Option<ConnectionInfo> {
    if has_parameters(path) {
        return None;
    }
    ConnectionAddr::Unix(path.into())
        .into_connection_info()
        .ok()
}

/// Reads a URL, or one without its scheme. Returns `None` if it has parts that the client library would ignore: they may be
/// meant as a database, or be the rest of a password.
fn info_of_url(address: &str) -> Option<ConnectionInfo> {
    let url = if address.contains("://") {
        parse_redis_url(address)
    } else {
        parse_redis_url(&format!("redis://{address}"))
    }?;
    let is_socket = url.scheme().ends_with("unix");
    // The client library reads one of each.
    let mut unread = if is_socket {
        BTreeSet::from(SOCKET_PARAMETERS)
    } else {
        BTreeSet::new()
    };
    // Not `query_pairs`, which skips empty parameters.
    let query = url.query().filter(|query| !query.is_empty());
    let mut parameters = query.into_iter().flat_map(|query| query.split('&'));
    let has_ignored = parameters.any(|one| !unread.remove(one.split('=').next().unwrap_or(one)));
    // The user and the password of a socket are parameters.
    let has_authority = is_socket && !url.authority().is_empty();
    if has_ignored || has_authority || url.fragment().is_some() {
        return None;
    }
    let info = url.into_connection_info().ok()?;
    let settings = info.redis_settings();
    let has_user_alone = settings.username().is_some() && settings.password().is_none();
    (!has_user_alone).then_some(info)
}

/// Returns whether a word is meant as the path of a socket.
pub fn begins_as_path(word: &str) -> bool {
    word.starts_with(['/', '.'])
}

/// Returns whether a path is followed by parameters of a URL. Otherwise a `?` belongs to the path.
pub fn has_parameters(path: &str) -> bool {
    let parameters = path.split(['?', '&']).skip(1);
    let mut names = parameters.filter_map(|one| Some(one.split_once('=')?.0));
    names.any(|name| SOCKET_PARAMETERS.contains(&name))
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
            "rediss://localhost",
            "redis://localhost/?",
            "unix:///a/socket?db=2&user=u&pass=p",
            "UNIX:///a/socket?db=2",
            "valkey+unix:///a/socket?db=2",
            "/a/socket",
            "../a@b/s?.sock",
            "/a?b=2",
        ] {
            assert!(is_address(address), "{address}");
        }
        for address in [
            "localhost?db=2",
            "redis://localhost/2?timeout=1",
            "rediss://localhost?protocol=resp3",
            "unix:///a/socket?protocol=resp3",
            "unix:///a/socket?db=1&db=2",
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
            "unix:///a/socket?db=2&",
            "unix:///a/socket?database=2",
            " unix://localhost/a/socket",
            "/a/socket?user=u&pass=p",
        ] {
            assert!(!is_address(address), "{address}");
        }
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
