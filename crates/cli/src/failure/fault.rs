//! Why a server did not execute a command.

use std::fmt;

use redis::{ErrorKind, RedisError, ServerError};

use valkeybloom_connect::{EXCEEDED, MALFORMED};
use valkeybloom_near::conversation;
use valkeybloom_protocol::error::Error;

use super::meaning::{self, CHECK_LOGIN, Meaning};

/// What to do after a lost connection.
pub const RETRY: &str = "when the server is up again, run this again";

/// The reason why a server did not execute a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server replied with this error, which begins with a code.
    Refused(String),
    /// The server refused user and password, or has none.
    LoginRefused,
    /// The server did not reply.
    Lost(String),
    /// The server replied with more than this program takes. That ended the connection.
    TooLarge,
    /// The server replied with something that is of no use to this program.
    Unusable(String),
    /// The server no longer has this, which the run had stored there.
    Gone(String),
}

impl Fault {
    /// Returns whether the server replied with an error that means this.
    pub fn means(&self, meaning: Meaning) -> bool {
        matches!(self, Self::Refused(text) if Meaning::of(text) == meaning)
    }

    /// Returns whether this is an error of the module.
    pub fn is(&self, error: Error) -> bool {
        matches!(self, Self::Refused(text) if *text == error.to_string())
    }

    /// Returns whether commands for other keys would fail as well. They may not after OOM or a value that is too large,
    /// because their own values may be smaller.
    pub fn affects_all_keys(&self) -> bool {
        match self {
            Self::Refused(text) => matches!(
                Meaning::of(text),
                Meaning::LoginFailed | Meaning::Unavailable | Meaning::ClusterDown
            ),
            Self::LoginRefused | Self::Lost(_) | Self::Unusable(_) => true,
            Self::TooLarge | Self::Gone(_) => false,
        }
    }

    /// Returns whether another attempt would fail as well, until somebody changes the server's settings or its program.
    pub fn needs_operator(&self) -> bool {
        match self {
            Self::Refused(_) => self.forbids_calls() || self.means(Meaning::LoginFailed),
            Self::LoginRefused | Self::TooLarge | Self::Unusable(_) => true,
            Self::Lost(_) | Self::Gone(_) => false,
        }
    }

    /// Returns whether no call of the command can succeed: the server lacks it, or this user may not call it.
    pub fn forbids_calls(&self) -> bool {
        self.means(Meaning::UnknownCommand) || self.means(Meaning::NoPermission)
    }

    /// Returns whether the error is temporary, because a slot is moving to another node.
    pub fn is_slot_moving(&self) -> bool {
        self.means(Meaning::SlotMoving) || self.means(Meaning::ClusterDown)
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Refused(text) => meaning::advice(text),
            Self::LoginRefused => Some(CHECK_LOGIN),
            Self::Lost(_) => Some(RETRY),
            Self::TooLarge | Self::Unusable(_) | Self::Gone(_) => None,
        }
    }

    /// Returns the error, and what the user can do about it.
    pub fn with_advice(&self) -> String {
        match self.advice() {
            Some(advice) => format!("{self}; {advice}"),
            None => self.to_string(),
        }
    }
}

/// Returns the result of a command, or `None` if the server refused the command.
pub fn unless_refused<T>(result: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Fault::Refused(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// The error alone, without advice.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Refused(text) | Self::Lost(text) | Self::Unusable(text) => text,
            Self::LoginRefused => "the server refuses user and password, or has none",
            Self::TooLarge => EXCEEDED,
            Self::Gone(what) => &format!(
                "{what} is gone: it expired, was deleted or evicted, or is on another server"
            ),
        };
        f.write_str(conversation::without_arguments(text).trim_end_matches('.'))
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        // The client library does not pass on the server's text.
        if error.kind() == ErrorKind::AuthenticationFailed {
            return Self::LoginRefused;
        }
        let text = error.to_string();
        if let Some(detail) = error.detail()
            && text.starts_with("Redis server refused to switch database")
        {
            return Self::Refused(with_code(detail));
        }
        // A connection that ends within a reply is an error of this kind, too.
        let is_invalid = error.kind() == ErrorKind::Parse && !text.contains("end of input")
            || text.contains(MALFORMED);
        let errors = error.into_server_errors();
        match errors.as_deref().and_then(<[_]>::first) {
            Some((_, error)) => Self::from(error.clone()),
            None if text.contains(EXCEEDED) => Self::TooLarge,
            None if is_invalid => Self::Unusable(text),
            None => Self::Lost(conversation::without_page(&text).to_owned()),
        }
    }
}

/// Returns the server's error for a SELECT. The client library passes it on without its code.
fn with_code(detail: &str) -> String {
    let code = if detail.contains("has no permissions") {
        "NOPERM"
    } else if detail.starts_with("Authentication required") {
        "NOAUTH"
    } else {
        "ERR"
    };
    format!("{code} {detail}")
}

impl From<ServerError> for Fault {
    fn from(error: ServerError) -> Self {
        let details = error.details().unwrap_or_default();
        let text = format!("{} {details}", error.code());
        let reason = conversation::reason(&text).trim_end();
        // Within scripts, servers have another code for it.
        let forbidden = reason.strip_prefix("ERR ACL failure in script: ");
        Self::Refused(forbidden.map_or(reason.to_owned(), |text| format!("NOPERM {text}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the client library's error for a server's reply.
    fn server(reply: &str) -> RedisError {
        let reply = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes());
        let Ok(redis::Value::ServerError(error)) = reply else {
            panic!("{reply:?}");
        };
        RedisError::from(error)
    }

    fn refused(text: &str) -> Fault {
        Fault::Refused(text.to_owned())
    }

    #[test]
    fn errors_of_servers_keep_their_code() {
        let select = |detail: &str| {
            let what = "Redis server refused to switch database";
            RedisError::from((ErrorKind::Client, what, detail.to_owned()))
        };
        for (error, text) in [
            (server("READONLY a replica"), "READONLY a replica"),
            (server("ERR unknown command 'X'"), "ERR unknown command 'X'"),
            (
                select("DB index is out of range"),
                "ERR DB index is out of range",
            ),
            (
                select("u has no permissions"),
                "NOPERM u has no permissions",
            ),
            (
                select("Authentication required."),
                "NOAUTH Authentication required.",
            ),
            (
                server("ERR ACL failure in script: u has no permissions"),
                "NOPERM u has no permissions",
            ),
            (server("OOM full script: f, on @user_script:1."), "OOM full"),
        ] {
            assert_eq!(Fault::from(error), refused(text));
        }
    }

    #[test]
    fn errors_without_a_reply_are_told_apart() {
        let io = |kind| RedisError::from(std::io::Error::from(kind));
        let bounded = |why| RedisError::from(std::io::Error::other(why));
        let cut = redis::parse_redis_value(b"*2\r\n:1\r\n").expect_err("it is not whole");
        let invalid = redis::parse_redis_value(b"?\r\n").expect_err("no such type");
        let login = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        for (error, kind) in [
            (login, "LoginRefused"),
            (io(std::io::ErrorKind::ConnectionRefused), "Lost("),
            (cut, "Lost("),
            (invalid, "Unusable("),
            (bounded(EXCEEDED), "TooLarge"),
            (bounded(MALFORMED), "Unusable("),
        ] {
            let fault = format!("{:?}", Fault::from(error));
            assert!(fault.starts_with(kind), "{fault}");
        }
    }

    /// What each fault means for other keys, for the operator, for other calls of the command, and for the slot.
    #[test]
    fn a_fault_says_what_else_fails() {
        let text = || "text".to_owned();
        for (fault, expected) in [
            (refused("NOAUTH log in"), [true, true, false, false]),
            (refused("NOPERM no"), [false, true, true, false]),
            (
                refused("ERR unknown command 'X'"),
                [false, true, true, false],
            ),
            (refused("LOADING data"), [true, false, false, false]),
            (refused("CLUSTERDOWN no"), [true, false, false, true]),
            (refused("MOVED 1 host:1"), [false, false, false, true]),
            (refused("WRONGTYPE no"), [false; 4]),
            (refused("BUSYKEY no"), [false; 4]),
            (refused("ERR Bad data format"), [false; 4]),
            (refused("OOM full"), [false; 4]),
            (Fault::LoginRefused, [true, true, false, false]),
            (Fault::Lost(text()), [true, false, false, false]),
            (Fault::TooLarge, [false, true, false, false]),
            (Fault::Unusable(text()), [true, true, false, false]),
            (Fault::Gone(text()), [false; 4]),
        ] {
            let found = [
                fault.affects_all_keys(),
                fault.needs_operator(),
                fault.forbids_calls(),
                fault.is_slot_moving(),
            ];
            assert_eq!(found, expected, "{fault:?}");
        }
    }

    #[test]
    fn advice_follows_the_error_without_its_arguments() {
        for (fault, text) in [
            (
                refused("ERR unknown command 'X', with args beginning with: 'k' "),
                "ERR unknown command 'X'; load the module there, or add the command's family to its bf.families",
            ),
            (refused("ERR not found."), "ERR not found"),
            (
                Fault::Lost("broken pipe".to_owned()),
                "broken pipe; when the server is up again, run this again",
            ),
        ] {
            assert_eq!(fault.with_advice(), text);
        }
    }
}
