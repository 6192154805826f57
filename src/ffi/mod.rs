//! The server's module API behind safe types: everything that crosses between the server and Rust.
//!
//! Nothing here depends on a family of values. The module passes in value types ([`NativeType`]), commands,
//! settings and event handlers, all named in a [`Module`], and gets contexts, keys and streams.
//!
//! The files form layers, and each layer uses only those above it in this list:
//!
//! - `api` calls a function of the server.
//! - `allocator`, `string`, `context`, `server`, `stream` and `defrag` wrap objects and functions of the server.
//! - `timer` calls functions later.
//! - `reply` is what a command replies.
//! - `replication` publishes a command's changes.
//! - `positions` names the keys of a command.
//! - `value`, `setting`, `command`, `info` and `events` define what the module registers.
//! - `registration` registers commands.
//! - `key` reads and stores values.
//! - `load` registers everything.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "the API's lengths and enums are C ints of either sign; the values are small"
)]

mod allocator;
mod api;
mod command;
mod context;
mod defrag;
mod events;
mod info;
mod key;
mod load;
mod positions;
mod registration;
mod replication;
mod reply;
pub mod server;
mod setting;
mod stream;
mod string;
mod timer;
mod value;

pub use allocator::{bytes_given, bytes_given_for};
pub(crate) use command::entry;
pub use command::{Arg, Call, Command, Done, Entry, enter, enter_or_report};
pub use context::{Ctx, Keyspace};
pub use defrag::Defrag;
pub use info::{InfoWriter, set_info_alias};
pub use key::{Access, Held, Key, Text, Values};
pub(crate) use load::on_load;
pub use load::{Bundle, Module, load_module};
pub use positions::{Sources, report_numbered, report_option};
pub use replication::Argument;
pub use reply::Reply;
pub use setting::Setting;
pub use stream::{AofWriter, Digest, RdbReader, RdbWriter};
pub use string::{Argv, RawArgc, RawArgv, Str};
pub use timer::call_after;
pub use value::{FORMS_MAX, Form, NativeType, TypeHandle, register_types};
