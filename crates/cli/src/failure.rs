//! What the program says when something fails: in one line, what failed, where, and what to do about it.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

/// Why the program ends without having done its work.
#[derive(Debug)]
pub struct Failure {
    /// Its status.
    pub status: u8,
    text: String,
    /// What was found out before it failed.
    found: Map<String, Value>,
}

/// The result of a subcommand, or of a step of one.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Words on the command line that make no sense together: status 2, as of clap.
    pub fn usage(text: impl Into<String>) -> Self {
        Self {
            status: 2,
            text: text.into(),
            found: Map::new(),
        }
    }

    /// Anything else: status 1.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            status: 1,
            text: text.into(),
            found: Map::new(),
        }
    }

    /// Adds what was found out before it failed, which belongs to the same JSON object.
    pub fn after(self, found: Map<String, Value>) -> Self {
        Self { found, ..self }
    }

    /// The object of `--json` for a run that failed: what was found out, and `error`.
    pub fn into_json(mut self) -> Value {
        let text = self.to_string();
        self.found.insert("error".to_owned(), text.into());
        Value::Object(self.found)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Texts of servers and of the system may have lines of their own.
        let text = self.text.lines().map(str::trim).collect::<Vec<_>>();
        f.write_str(&text.join(" "))
    }
}

/// Why a server did not do what it was asked for.
#[derive(Debug)]
pub enum Fault {
    /// It answered with this error, which begins with a code.
    Refused(String),
    /// It did not answer.
    Lost(String),
}

impl Fault {
    /// Whether the same will happen with every other key.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Lost(_) => true,
            Self::Refused(text) => {
                let code = text.split(' ').next().unwrap_or_default();
                [
                    "LOADING",
                    "MISCONF",
                    "NOAUTH",
                    "NOREPLICAS",
                    "READONLY",
                    "WRONGPASS",
                ]
                .contains(&code)
            }
        }
    }

    /// Whether the server does not have such a command, or not for this user.
    pub fn lacks_command(&self) -> bool {
        self.is_unknown_command() || self.is_forbidden()
    }

    /// Whether the server does not have such a command.
    pub fn is_unknown_command(&self) -> bool {
        matches!(self, Self::Refused(text) if text.starts_with("ERR unknown command"))
    }

    /// Whether the user lacks a permission.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused(text) if text.starts_with("NOPERM "))
    }

    /// Whether the key is not there.
    pub fn is_missing_key(&self) -> bool {
        matches!(self, Self::Refused(text) if text == "ERR not found")
    }

    /// Whether the key holds a value of another type than the command works on.
    pub fn is_wrong_type(&self) -> bool {
        matches!(self, Self::Refused(text) if text.starts_with("WRONGTYPE "))
    }

    /// Whether it will pass: a slot is on its way to another node.
    pub fn is_passing(&self) -> bool {
        let Self::Refused(text) = self else {
            return false;
        };
        let code = text.split(' ').next().unwrap_or_default();
        ["ASK", "CLUSTERDOWN", "MOVED", "TRYAGAIN"].contains(&code)
    }

    /// What the person at the terminal can do about it.
    fn advice(&self) -> Option<&'static str> {
        let text = match self {
            Self::Refused(text) => text,
            Self::Lost(_) => return Some("when the server is up again, run this again"),
        };
        let advice = [
            ("WRONGPASS ", PASSWORD),
            ("NOAUTH ", PASSWORD),
            ("NOPERM ", "grant it with ACL SETUSER, or name another user"),
            ("READONLY ", "this is a replica: name its primary"),
            ("OOM ", "raise maxmemory, or free memory"),
            ("LOADING ", "wait until it has loaded its data"),
            (
                "ERR unknown command 'BF.LOADCHUNK'",
                "the module there takes no filters in chunks: load valkeybloom instead",
            ),
            ("ERR unknown command", "load the module there"),
            (
                "MOVED ",
                "this is a node of a cluster: grant INFO and CLUSTER SLOTS, which tell its nodes",
            ),
            (
                "ERR operation exceeds bloom object memory limit",
                "raise bf.bloom-filter-max-memory-usage there, or use more shards",
            ),
            (
                "ERR non scaling filter is full",
                "build a larger one: `valkeybloom size` tells how large",
            ),
            (
                "ERR DB index is out of range",
                "a cluster has database 0 alone",
            ),
        ];
        let found = advice.iter().find(|(start, _)| text.starts_with(start));
        found.map(|(_, advice)| *advice)
    }
}

const PASSWORD: &str = "check user and password: redis://user:password@host:port";

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(text) | Self::Lost(text)) = self;
        // Of an unknown command, servers repeat the words behind it, too.
        let text = text
            .split(", with args beginning with")
            .next()
            .unwrap_or(text);
        f.write_str(text.trim_end_matches('.'))?;
        match self.advice() {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl From<redis::RedisError> for Fault {
    fn from(error: redis::RedisError) -> Self {
        // The client keeps the server's words to itself.
        if error.kind() == redis::ErrorKind::AuthenticationFailed {
            return Self::Refused("WRONGPASS user or password is wrong".to_owned());
        }
        let text = error.to_string();
        if let Some(detail) = error.detail()
            && text.starts_with("Redis server refused to switch database")
        {
            let code = if detail.contains("has no permissions") {
                "NOPERM"
            } else {
                "ERR"
            };
            return Self::Refused(format!("{code} {detail}"));
        }
        let errors = error.into_server_errors();
        match errors.as_deref().and_then(<[_]>::first) {
            Some((_, error)) => Self::from(error.clone()),
            None => Self::Lost(text),
        }
    }
}

impl From<redis::ServerError> for Fault {
    fn from(error: redis::ServerError) -> Self {
        let details = error.details().unwrap_or_default();
        let text = format!("{} {details}", error.code());
        // This is how a refused EXEC is answered.
        let reason = text.strip_prefix("EXECABORT Transaction discarded because of: ");
        Self::Refused(reason.unwrap_or(&text).trim_end().to_owned())
    }
}

/// A key as a line shows it: as it is, if that can be read.
pub fn shown(key: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(key) {
        Ok(text) if !text.is_empty() && !text.chars().any(|c| c.is_control() || c == ' ') => {
            Cow::Borrowed(text)
        }
        _ => Cow::Owned(format!("\"{}\"", key.escape_ascii())),
    }
}
