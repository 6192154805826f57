//! Replies of every kind, and sending them.

use std::ffi::CStr;
use std::mem::ManuallyDrop;

use valkeybloom_protocol::numerals::double_text;

use super::context::Ctx;

/// A command's reply.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// The command has replied already, element by element.
    Sent,
    /// `OK`.
    Ok,
    /// A boolean in RESP3, 0 or 1 in RESP2.
    Bool(bool),
    /// A count, as an integer of at most `i64::MAX`.
    Count(u64),
    /// A rate: a double in RESP3, a bulk string in RESP2.
    Rate(f64),
    /// A signed integer.
    Integer(i64),
    /// A double: a double in RESP3, a bulk string in RESP2, with the server's digits.
    Double(f64),
    /// A word, as a bulk string.
    Word(&'static str),
    /// Null.
    Null,
    /// An array.
    List(Vec<Reply>),
    /// Named replies: a map in RESP3, a flat array in RESP2.
    Table(Vec<(&'static CStr, Reply)>),
}

impl Reply {
    /// Sends the reply.
    #[inline(always)]
    pub fn send(self, ctx: Ctx) {
        // The replies to the most frequent commands have nothing to free.
        let reply = ManuallyDrop::new(self);
        match *reply {
            Self::Sent => {}
            Self::Bool(value) => ctx.reply_bool(value),
            Self::Count(count) => ctx.reply_integer(i64::try_from(count).unwrap_or(i64::MAX)),
            _ => ManuallyDrop::into_inner(reply).send_other(ctx),
        }
    }

    /// Sends a reply of the kinds that [`send`](Self::send) leaves to this function. It hands the other kinds back.
    fn send_other(self, ctx: Ctx) {
        match self {
            Self::Sent | Self::Bool(_) | Self::Count(_) => self.send(ctx),
            Self::Ok => ctx.reply_simple(c"OK"),
            Self::Rate(rate) if ctx.is_resp3() => ctx.reply_double(rate),
            Self::Rate(rate) => ctx.reply_bytes(double_text(rate).as_bytes()),
            Self::Integer(number) => ctx.reply_integer(number),
            Self::Double(number) => ctx.reply_double(number),
            Self::Word(word) => ctx.reply_bytes(word.as_bytes()),
            Self::Null => ctx.reply_null(),
            Self::List(replies) => {
                ctx.reply_array(replies.len());
                for reply in replies {
                    reply.send(ctx);
                }
            }
            Self::Table(rows) => {
                ctx.reply_map(rows.len());
                for (name, reply) in rows {
                    ctx.reply_simple(name);
                    reply.send(ctx);
                }
            }
        }
    }
}
