//! Why a server did not execute a command, and what to do about it.

use std::borrow::Cow;
use std::fmt;

use redis::{ErrorKind, RedisError, ServerError};

use valkeybloom_connect::{EXCEEDED, MALFORMED};
use valkeybloom_near::conversation;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::names::{BF_LOADCHUNK, FILTER_MEMORY, OBJECT_MEMORY};
use valkeybloom_sketches::bloom::Refusal;

const CHECK_LOGIN: &str = "check user and password: redis://user:password@host:port";

/// What to do after a lost connection.
pub const RETRY: &str = "when the server is up again, run this again";

/// The beginning of the error for a command that the server lacks.
const UNKNOWN_COMMAND: &str = "ERR unknown command";

/// The reason why a server did not execute a command.
#[derive(Debug)]
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
    /// The server no longer has the receipt of this name.
    ReceiptGone(String),
}

impl Fault {
    /// Returns the code of the server's error; `None` if the server did not reply with one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(text) => text.split(' ').next(),
            _ => None,
        }
    }

    fn has_code_of(&self, codes: &[&str]) -> bool {
        self.code().is_some_and(|code| codes.contains(&code))
    }

    /// Returns whether this is an error of the module.
    pub fn is(&self, error: Error) -> bool {
        matches!(self, Self::Refused(text) if *text == error.to_string())
    }

    /// Returns whether commands for other keys would fail as well. After OOM, one that needs less memory may not; a smaller
    /// value may not be too large.
    pub fn affects_all_keys(&self) -> bool {
        let codes = [
            "BUSY",
            "CLUSTERDOWN",
            "LOADING",
            "MASTERDOWN",
            "MISCONF",
            "NOAUTH",
            "NOREPLICAS",
            "READONLY",
            "WRONGPASS",
        ];
        let is_of_key = matches!(
            self,
            Self::Refused(_) | Self::ReceiptGone(_) | Self::TooLarge
        );
        !is_of_key || self.has_code_of(&codes)
    }

    /// Returns whether another attempt would fail as well, until somebody changes the server's settings or its program.
    pub fn needs_operator(&self) -> bool {
        matches!(
            self,
            Self::LoginRefused | Self::TooLarge | Self::Unusable(_)
        ) || self.forbids_calls()
            || self.has_code_of(&["NOAUTH", "WRONGPASS"])
    }

    /// Returns whether no call of the command can succeed: the server lacks it, or this user may not call it.
    pub fn forbids_calls(&self) -> bool {
        self.is_unknown_command() || self.code() == Some("NOPERM")
    }

    /// Returns whether the server lacks the command.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Refused(text) if text.starts_with(UNKNOWN_COMMAND))
    }

    /// Returns whether the error is temporary, because a slot is moving to another node.
    pub fn is_slot_moving(&self) -> bool {
        self.has_code_of(&["ASK", "CLUSTERDOWN", "MOVED", "TRYAGAIN"])
    }

    /// Returns what the user can do about it.
    pub fn advice(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Refused(text) => advice_on_refusal(text),
            Self::LoginRefused => Some(CHECK_LOGIN.into()),
            Self::Lost(_) => Some(RETRY.into()),
            Self::TooLarge | Self::Unusable(_) | Self::ReceiptGone(_) => None,
        }
    }

    /// Returns the error, and what the user can do about it.
    pub fn with_advice(&self) -> String {
        let advice = self.advice().map(|advice| format!("; {advice}"));
        format!("{self}{}", advice.unwrap_or_default())
    }
}

fn advice_on_refusal(text: &str) -> Option<Cow<'static, str>> {
    let starts = |start: &str| text.starts_with(start);
    let is = |refusal: Refusal| starts(&Error::from(refusal).to_string());
    // Texts of other modules.
    let mut too_large = ["memory limit", "Insufficient memory to create"].into_iter();
    let advice = match text.split(' ').next().unwrap_or_default() {
        "WRONGPASS" | "NOAUTH" => CHECK_LOGIN,
        "NOPERM" => "grant it with ACL SETUSER, or name another user",
        "READONLY" => "this is a replica: name its primary",
        "OOM" => "raise maxmemory, or free memory",
        "LOADING" => "wait until it has loaded its data",
        "MOVED" => "this is a node of a cluster, but its reply to HELLO does not say so",
        _ if starts(&format!("{UNKNOWN_COMMAND} '{BF_LOADCHUNK}'")) => {
            "the module there takes no filters in chunks: load valkeybloom instead"
        }
        _ if starts(UNKNOWN_COMMAND) => {
            "load the module there, or add the command's family to its bf.families"
        }
        _ if is(Refusal::MemoryLimit) || too_large.any(|part| text.contains(part)) => {
            let limits = format!("{FILTER_MEMORY} or {OBJECT_MEMORY}");
            return Some(format!("raise {limits} there, whichever it exceeds").into());
        }
        _ if is(Refusal::Full) => "build a larger one: `valkeybloom size` prints how large",
        _ if starts("ERR DB index is out of range") => {
            "the server has fewer databases, a cluster only database 0"
        }
        _ => return None,
    };
    Some(advice.into())
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
            Self::ReceiptGone(name) => &format!(
                "the receipt {name} is gone: it expired, was deleted or evicted, or is on another server"
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
        // A connection that ends within a reply is an error of this kind, too.
        let is_invalid = error.kind() == ErrorKind::Parse && !text.contains("end of input")
            || text.contains(MALFORMED);
        if let Some(detail) = error.detail()
            && text.starts_with("Redis server refused to switch database")
        {
            let code = if detail.contains("has no permissions") {
                "NOPERM"
            } else if detail.starts_with("Authentication required") {
                "NOAUTH"
            } else {
                "ERR"
            };
            return Self::Refused(format!("{code} {detail}"));
        }
        let errors = error.into_server_errors();
        match errors.as_deref().and_then(<[_]>::first) {
            Some((_, error)) => Self::from(error.clone()),
            None if text.contains(EXCEEDED) => Self::TooLarge,
            None if is_invalid => Self::Unusable(text),
            None => Self::Lost(conversation::without_page(&text).to_owned()),
        }
    }
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

    /// Each with what the client library makes of it.
    #[test]
    fn errors_of_the_client_library_are_told_apart() {
        let server = |reply: &str| {
            let reply = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes());
            let Ok(redis::Value::ServerError(error)) = reply else {
                panic!("{reply:?}");
            };
            RedisError::from(error)
        };
        let select = |detail: &str| {
            let what = "Redis server refused to switch database";
            RedisError::from((ErrorKind::Client, what, detail.to_owned()))
        };
        let io = |kind| RedisError::from(std::io::Error::from(kind));
        let cut = redis::parse_redis_value(b"*2\r\n:1\r\n").expect_err("it is not whole");
        let invalid = redis::parse_redis_value(b"?\r\n").expect_err("no such type");
        let bounded = |why| RedisError::from(std::io::Error::other(why));
        let login = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        for (error, kind, code, needs_operator) in [
            (
                server("READONLY a replica"),
                "Refused",
                Some("READONLY"),
                false,
            ),
            (server("NOAUTH log in"), "Refused", Some("NOAUTH"), true),
            (
                server("ERR unknown command 'X'"),
                "Refused",
                Some("ERR"),
                true,
            ),
            (select("out of range"), "Refused", Some("ERR"), false),
            (
                select("has no permissions"),
                "Refused",
                Some("NOPERM"),
                true,
            ),
            (
                select("Authentication required."),
                "Refused",
                Some("NOAUTH"),
                true,
            ),
            (login, "LoginRefused", None, true),
            (
                io(std::io::ErrorKind::ConnectionRefused),
                "Lost",
                None,
                false,
            ),
            (cut, "Lost", None, false),
            (invalid, "Unusable", None, true),
            (bounded(EXCEEDED), "TooLarge", None, true),
            (bounded(MALFORMED), "Unusable", None, true),
        ] {
            let text = error.to_string();
            let fault = Fault::from(error);
            assert!(format!("{fault:?}").starts_with(kind), "{text}: {fault:?}");
            assert_eq!(
                (fault.code(), fault.needs_operator()),
                (code, needs_operator),
                "{text}"
            );
        }
    }
}
