//! What a server's error means to a follower.

use valkeybloom_protocol::error::{Error, lacks_ids};

/// A kind of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// There is no such key.
    NotFound,
    /// The server does not have the command, or the client's user may not send it for this key.
    Denied,
    /// No command of this connection will succeed: it did not log in, or another node has the key.
    Shut,
    /// The key's value can't be followed.
    Unfit,
    /// The copy can't be continued: the feed has lost its place, or the filter is being replaced.
    Outdated,
    /// The server gives no ids of filters.
    LacksIds,
    /// Anything else, such as a server that is busy.
    Other,
}

impl ErrorKind {
    /// Returns the kind of an error, by its text. Some clients strip ERR from its front.
    pub fn of(text: &str) -> Self {
        let is = |error: Error| {
            let error = error.to_string();
            text == error || Some(text) == error.strip_prefix("ERR ")
        };
        let begins = |code| text.starts_with(code);
        let has = |part: &str| text.contains(part);
        match text {
            _ if is(Error::NOT_FOUND) => Self::NotFound,
            _ if has("unknown command") || has("no permissions") || begins("NOPERM") => {
                Self::Denied
            }
            _ if begins("NOAUTH") || begins("WRONGPASS") || begins("MOVED") => Self::Shut,
            _ if is(Error::NO_FEED) || is(Error::WRONG_TYPE) => Self::Unfit,
            _ if begins("RESYNC") || is(Error::STILL_LOADING) => Self::Outdated,
            _ if lacks_ids(text) => Self::LacksIds,
            _ => Self::Other,
        }
    }
}
