//! All that a client can be told.

use std::fmt;

use crate::bloom::{MergeError, Refusal};
use crate::config::double_text;
use crate::ffi::Ctx;

/// An argument that was not what it has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// The rate of false positives.
    ErrorRate,
    /// A number of items.
    Capacity,
    /// The growth factor.
    Expansion,
    /// The ratio of successive rates.
    Tightening,
    /// A position in a chunked dump.
    Cursor,
    /// A time to live.
    Ttl,
    /// Length of a period.
    Window,
    /// Number of periods.
    Periods,
    /// An item's id.
    Id,
}

/// Why a command failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// Too few arguments, or too many.
    Arity,
    /// The key holds a value of another type.
    WrongType,
    /// There is no such key.
    NotFound,
    /// RESERVE of a filter that exists.
    Exists,
    /// LOAD or LOADCHUNK to a key that exists.
    Busy,
    /// No number, or one that can't be held.
    Bad(Field),
    /// A number outside the range in which it makes sense.
    Range(Field),
    /// A seed that is not 32 bytes long.
    Seed,
    /// A word that is no option.
    UnknownOption,
    /// A word that BF.INFO does not know, or that this object does not have.
    UnknownField,
    /// WINDOW without PERIODS, or the other way round.
    HalfWindow,
    /// What takes a window, asked of an object that has none.
    NoWindow,
    /// What takes counters, asked of an object that has none.
    NoCounters,
    /// A time to live beyond the window.
    LongTtl,
    /// Objects that can't be made one.
    Unlike(MergeError),
    /// EXPANSION together with NONSCALING.
    FixedExpansion,
    /// NOCREATE with a parameter of a creation.
    NoCreate,
    /// VALIDATESCALETO with NONSCALING.
    FixedScaleTo,
    /// VALIDATESCALETO of more than memory allows.
    ScaleToMemory,
    /// VALIDATESCALETO of more than rates allow.
    ScaleToRate,
    /// An item or an object that there is no room for.
    Refused(Refusal),
    /// Bytes that are no object.
    Undecodable,
    /// Bytes in a newer form.
    UnsupportedVersion,
    /// A chunk that does not fit.
    BadChunk,
    /// An object whose chunks have not all come.
    StillLoading,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ErrorRate => "error rate",
            Self::Capacity => "capacity",
            Self::Expansion => "expansion",
            Self::Tightening => "tightening ratio",
            Self::Cursor => "cursor",
            Self::Ttl => "ttl",
            Self::Window => "window",
            Self::Periods => "periods",
            Self::Id => "id",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::Arity => "ERR wrong number of arguments",
            Self::WrongType => "WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::NotFound => "ERR not found",
            Self::Exists => "ERR item exists",
            Self::Busy => "BUSYKEY Target key name already exists.",
            Self::Bad(field) => return write!(f, "ERR bad {field}"),
            Self::Range(field @ (Field::ErrorRate | Field::Tightening)) => {
                return write!(f, "ERR (0 < {field} range < 1)");
            }
            Self::Range(field) => return write!(f, "ERR ({field} should be larger than 0)"),
            Self::HalfWindow => "ERR WINDOW and PERIODS have to be given together",
            Self::NoWindow => "ERR filter was not made with WINDOW",
            Self::NoCounters => "ERR filter was not made with COUNTING",
            Self::LongTtl => "ERR ttl is longer than the window",
            Self::Unlike(MergeError::Seeds) => "ERR filters have different seeds",
            Self::Unlike(MergeError::Kinds) => "ERR filters are of different kinds",
            Self::Unlike(MergeError::Rates) => "ERR error rates of the filters add up to 1 or more",
            Self::Unlike(MergeError::Refused(refusal)) => return Self::Refused(refusal).fmt(f),
            Self::Seed => "ERR invalid seed",
            Self::UnknownOption => "ERR unknown argument received",
            Self::UnknownField => "ERR invalid information value",
            Self::FixedExpansion => "ERR nonscaling filters cannot expand",
            Self::NoCreate => "ERR NOCREATE cannot be used with CAPACITY or ERROR",
            Self::FixedScaleTo => "ERR cannot use NONSCALING and VALIDATESCALETO options together",
            Self::ScaleToMemory => {
                "ERR provided VALIDATESCALETO causes bloom object to exceed memory limit"
            }
            Self::ScaleToRate => {
                "ERR provided VALIDATESCALETO causes false positive to degrade to 0"
            }
            Self::Refused(Refusal::MemoryLimit) => {
                "ERR operation exceeds bloom object memory limit"
            }
            Self::Refused(Refusal::RateTooSmall) => "ERR false positive degrades to 0 on scale out",
            Self::Refused(Refusal::Full) => "ERR non scaling filter is full",
            Self::Refused(Refusal::OutOfMemory) => "OOM not enough memory for bloom object",
            Self::Undecodable => "ERR bloom object decoding failed",
            Self::UnsupportedVersion => "ERR bloom object decoding failed. Unsupported version",
            Self::BadChunk => "ERR received bad data",
            Self::StillLoading => "ERR bloom object is still being loaded",
        })
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What a command answers.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply<'r> {
    /// Done.
    Ok,
    /// A number.
    Count(u64),
    /// A rate: a double in RESP3, a bulk string in RESP2.
    Rate(f64),
    /// Nothing.
    Null,
    /// Bytes.
    Bytes(&'r [u8]),
    /// A line of text.
    Text(String),
    /// Some replies in order.
    List(Vec<Reply<'r>>),
    /// Named replies: a map in RESP3, a flat array in RESP2.
    Table(Vec<(&'static std::ffi::CStr, Reply<'r>)>),
}

/// Sends a command's answer, whichever it is.
pub fn send(ctx: Ctx, reply: Result<Reply, Error>) {
    match reply {
        Ok(reply) => send_reply(ctx, &reply),
        Err(error) => send_error(ctx, error),
    }
}

/// Sends an error, alone or as an element.
pub fn send_error(ctx: Ctx, error: Error) {
    match error {
        Error::Arity => ctx.reply_wrong_arity(),
        error => ctx.reply_error(&error.to_string()),
    }
}

fn send_reply(ctx: Ctx, reply: &Reply) {
    match reply {
        Reply::Ok => ctx.reply_simple(c"OK"),
        Reply::Count(count) => ctx.reply_integer(i64::try_from(*count).unwrap_or(i64::MAX)),
        Reply::Rate(rate) if ctx.is_resp3() => ctx.reply_double(*rate),
        Reply::Rate(rate) => ctx.reply_bytes(double_text(*rate).as_bytes()),
        Reply::Null => ctx.reply_null(),
        Reply::Bytes(bytes) => ctx.reply_bytes(bytes),
        Reply::Text(text) => ctx.reply_bytes(text.as_bytes()),
        Reply::List(replies) => {
            ctx.reply_array(replies.len());
            for reply in replies {
                send_reply(ctx, reply);
            }
        }
        Reply::Table(rows) => {
            ctx.reply_map(rows.len());
            for (name, reply) in rows {
                ctx.reply_simple(name);
                send_reply(ctx, reply);
            }
        }
    }
}
