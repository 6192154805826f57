//! What the errors of servers mean, and what to do about them.

/// What to do if a login fails.
pub const CHECK_LOGIN: &str = "check user and password: redis://user:password@host:port";

const BUILD_LARGER: &str = "build a larger one: `valkeybloom size` prints how large";
const DATABASES: &str = "the server has fewer databases, a cluster only database 0";
const FREE_MEMORY: &str = "raise maxmemory, or free memory";
const GRANT: &str = "grant it with ACL SETUSER, or name another user";
const IN_CLUSTER: &str = "this is a node of a cluster, but its reply to HELLO does not say so";
const LOAD: &str = "load the module there, or add the command's family to its bf.families";
const NAME_PRIMARY: &str = "this is a replica: name its primary";
const NO_CHUNKS: &str = "the module there takes no filters in chunks: load valkeybloom instead";
const RAISE_LIMITS: &str = "raise bf.bloom-filter-max-memory-usage or bf.bloom-memory-usage-limit there, whichever it exceeds";
const WAIT: &str = "wait until it has loaded its data";

/// What a server's error says about other calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The server needs a user and password, or does not accept these.
    LoginFailed,
    /// The user may not call the command, or not on this key.
    NoPermission,
    /// The server lacks the command.
    UnknownCommand,
    /// The server does not execute the command on any key for now.
    Unavailable,
    /// The cluster serves no key for now, perhaps only while a slot moves.
    ClusterDown,
    /// The slot of the key is at another node, or moves there.
    SlotMoving,
    /// The key holds a value of another type.
    WrongType,
    /// The key exists already.
    KeyExists,
    /// The server can't read the payload of a RESTORE.
    Unreadable,
    /// Anything else: other calls may succeed.
    Other,
}

/// The first words of an error, its meaning, and what the user can do about it.
type Row = (&'static str, Meaning, Option<&'static str>);

/// The errors with a meaning or an advice. The first row that fits an error counts.
#[rustfmt::skip]
const ERRORS: [Row; 23] = [
    ("ASK", Meaning::SlotMoving, None),
    ("BUSY", Meaning::Unavailable, None),
    ("BUSYKEY", Meaning::KeyExists, None),
    ("CLUSTERDOWN", Meaning::ClusterDown, None),
    ("LOADING", Meaning::Unavailable, Some(WAIT)),
    ("MASTERDOWN", Meaning::Unavailable, None),
    ("MISCONF", Meaning::Unavailable, None),
    ("MOVED", Meaning::SlotMoving, Some(IN_CLUSTER)),
    ("NOAUTH", Meaning::LoginFailed, Some(CHECK_LOGIN)),
    ("NOPERM", Meaning::NoPermission, Some(GRANT)),
    ("NOREPLICAS", Meaning::Unavailable, None),
    ("OOM", Meaning::Other, Some(FREE_MEMORY)),
    ("READONLY", Meaning::Unavailable, Some(NAME_PRIMARY)),
    ("TRYAGAIN", Meaning::SlotMoving, None),
    ("WRONGPASS", Meaning::LoginFailed, Some(CHECK_LOGIN)),
    ("WRONGTYPE", Meaning::WrongType, None),
    ("ERR Bad data format", Meaning::Unreadable, None),
    ("ERR DUMP payload version", Meaning::Unreadable, None),
    ("ERR DB index is out of range", Meaning::Other, Some(DATABASES)),
    ("ERR non scaling filter is full", Meaning::Other, Some(BUILD_LARGER)),
    // Redis 7, in a script.
    ("ERR The user executing", Meaning::NoPermission, Some(GRANT)),
    ("ERR unknown command 'BF.LOADCHUNK'", Meaning::UnknownCommand, Some(NO_CHUNKS)),
    ("ERR unknown command", Meaning::UnknownCommand, Some(LOAD)),
];

/// The errors of modules whose memory limits a value exceeds, by words that may stand anywhere in them.
const TOO_LARGE: [&str; 2] = ["memory limit", "Insufficient memory to create topk"];

impl Meaning {
    /// Returns the meaning of an error, which begins with its code.
    pub fn of(error: &str) -> Self {
        described(error).map_or(Self::Other, |(_, meaning, _)| *meaning)
    }
}

/// Returns what the user can do about an error, which begins with its code.
pub fn advice(error: &str) -> Option<&'static str> {
    match described(error) {
        Some((_, _, advice)) => *advice,
        None if TOO_LARGE.iter().any(|part| error.contains(part)) => Some(RAISE_LIMITS),
        None => None,
    }
}

fn described(error: &str) -> Option<&'static Row> {
    ERRORS.iter().find(|(start, ..)| {
        let rest = error.strip_prefix(start);
        // BUSY is not the code of BUSYKEY.
        rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use valkeybloom_protocol::error::Error;
    use valkeybloom_protocol::names::{BF_LOADCHUNK, FILTER_MEMORY, OBJECT_MEMORY};
    use valkeybloom_sketches::bloom::Refusal;

    /// Errors in the order of the table, as servers word them, and a word of the advice.
    #[rustfmt::skip]
    const REPLIES: [(&str, &str); 23] = [
        ("ASK 3999 127.0.0.1:6381", ""),
        ("BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", ""),
        ("BUSYKEY Target key name already exists.", ""),
        ("CLUSTERDOWN Hash slot not served", ""),
        ("LOADING Redis is loading the dataset in memory", "wait"),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ""),
        ("MISCONF Errors writing to the AOF file: No space left on device", ""),
        ("MOVED 3999 127.0.0.1:6381", "HELLO"),
        ("NOAUTH Authentication required.", "password"),
        ("NOPERM User app has no permissions to run the 'bf.add' command", "ACL SETUSER"),
        ("NOREPLICAS Not enough good replicas to write.", ""),
        ("OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"),
        ("READONLY You can't write against a read only replica.", "primary"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", ""),
        ("WRONGPASS invalid username-password pair or user is disabled.", "password"),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", ""),
        ("ERR Bad data format", ""),
        ("ERR DUMP payload version or checksum are wrong", ""),
        ("ERR DB index is out of range", "database 0"),
        ("ERR non scaling filter is full", "larger"),
        ("ERR The user executing the script can't run this command or subcommand", "ACL SETUSER"),
        ("ERR unknown command 'BF.LOADCHUNK', with args beginning with: 'k' ", "chunks"),
        ("ERR unknown command `BF.ADD`, with args beginning with: ", "bf.families"),
    ];

    #[test]
    fn each_row_describes_the_error_of_servers() {
        for ((reply, word), (start, meaning, _)) in REPLIES.iter().zip(&ERRORS) {
            let found = described(reply).map(|(start, ..)| start);
            assert_eq!(found, Some(start), "{reply}");
            assert_eq!(Meaning::of(reply), *meaning, "{reply}");
            let advice = advice(reply).unwrap_or_default();
            assert!(advice.contains(word), "{reply}: {advice}");
            assert_eq!(advice.is_empty(), word.is_empty(), "{reply}: {advice}");
        }
    }

    #[test]
    fn other_errors_concern_their_call_alone() {
        for reply in [
            "",
            "ERR",
            "ERR not found",
            "ERR unknown commander",
            "BUSYGROUP Consumer Group name already exists",
            "it is LOADING",
        ] {
            assert_eq!(Meaning::of(reply), Meaning::Other, "{reply}");
            assert_eq!(advice(reply), None, "{reply}");
        }
    }

    #[test]
    fn the_limits_of_modules_are_to_be_raised() {
        for name in [FILTER_MEMORY, OBJECT_MEMORY] {
            assert!(RAISE_LIMITS.contains(name), "{name}");
        }
        for reply in [
            &Error::from(Refusal::MemoryLimit).to_string()[..],
            "ERR Insufficient memory to create topk data structure",
            "CMS: Insufficient memory to create the key: operation exceeds bloom object memory limit",
            "ERR TopK: insufficient memory: operation exceeds topk memory limit",
        ] {
            assert_eq!(Meaning::of(reply), Meaning::Other, "{reply}");
            assert_eq!(advice(reply), Some(RAISE_LIMITS), "{reply}");
        }
    }

    #[test]
    fn rows_have_the_words_of_this_module() {
        let full = Error::from(Refusal::Full).to_string();
        for words in [full, format!("ERR unknown command '{BF_LOADCHUNK}'")] {
            assert!(ERRORS.iter().any(|(start, ..)| *start == words), "{words}");
        }
    }
}
