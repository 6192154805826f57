//! Publishing a write: to replicas and the AOF by commands, to subscribers by keyspace events, to WATCH and
//! client tracking by signals. Each of them borrows the keyspace exclusively, so no key is open at that time:
//! subscribers of an event run before `notify` returns, and may delete or change any key.

use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::ptr;

use smallvec::SmallVec;
use valkey_module::raw;

use super::api::call;
use super::context::Keyspace;
use super::string::{Str, new_string};

/// One or more arguments of a replicated command.
pub enum Argument<'p> {
    /// A word.
    Word(&'static CStr),
    /// Bytes.
    Bytes(&'p [u8]),
    /// A text.
    Text(String),
    /// A number as text.
    Number(u64),
    /// Words of the running command.
    Items(&'p [Str<'p>]),
}

/// The number of words of a replicated command whose list is not allocated.
const FEW: usize = 16;

thread_local! {
    /// The strings of words, which are made once and kept. Only the main thread replicates.
    static WORDS: RefCell<Vec<(&'static CStr, *mut raw::RedisModuleString)>> =
        const { RefCell::new(Vec::new()) };
}

/// Returns the string of a word, which the module owns.
fn kept_string(word: &'static CStr) -> *mut raw::RedisModuleString {
    WORDS.with_borrow_mut(|words| {
        let kept = words.iter().find(|(kept, _)| ptr::eq(*kept, word));
        if let Some((_, string)) = kept {
            return *string;
        }
        let string = new_string(word.to_bytes());
        words.push((word, string));
        string
    })
}

impl Keyspace<'_> {
    /// Replicates the command as it came.
    pub fn replicate_verbatim(&mut self) {
        // SAFETY: the context is alive.
        unsafe { call!(RedisModule_ReplicateVerbatim(self.ctx().as_ptr())) };
    }

    /// Replicates `command`, with a key and then these arguments.
    pub fn replicate(&mut self, command: &CStr, key: Str, arguments: &[Argument]) {
        let mut owned = SmallVec::<[_; FEW]>::new();
        let mut strings = SmallVec::<[_; FEW]>::new();
        strings.push(key.as_ptr());
        for argument in arguments {
            let string = match argument {
                Argument::Word(word) => {
                    strings.push(kept_string(word));
                    continue;
                }
                Argument::Bytes(bytes) => new_string(bytes),
                Argument::Text(text) => new_string(text.as_bytes()),
                Argument::Number(number) => {
                    new_string(itoa::Buffer::new().format(*number).as_bytes())
                }
                Argument::Items(items) => {
                    strings.extend(items.iter().map(|item| item.as_ptr()));
                    continue;
                }
            };
            owned.push(string);
            strings.push(string);
        }
        // SAFETY: context and strings are alive. The format "v" takes an array of strings and its
        // length; the server retains or copies the strings that it keeps. We own the strings in `owned`,
        // and each is freed once.
        unsafe {
            call!(RedisModule_Replicate(
                self.ctx().as_ptr(),
                command.as_ptr(),
                c"v".as_ptr(),
                strings.as_mut_ptr(),
                strings.len()
            ));
            for string in owned {
                call!(RedisModule_FreeString(ptr::null_mut(), string));
            }
        }
    }

    /// Signals the change of a key, and then publishes events, whose subscribers may change or delete any key.
    #[inline]
    pub fn publish(&mut self, key: Str, events: impl IntoIterator<Item = &'static CStr>) {
        self.signal_modified(key);
        for event in events {
            self.notify(event, key);
        }
    }

    /// Publishes a keyspace event of the generic class, and runs its subscribers in other modules.
    fn notify(&mut self, event: &CStr, key: Str) {
        // SAFETY: context and key are alive; the event's name ends in zero.
        unsafe {
            call!(RedisModule_NotifyKeyspaceEvent(
                self.ctx().as_ptr(),
                raw::REDISMODULE_NOTIFY_GENERIC as c_int,
                event.as_ptr(),
                key.as_ptr()
            ))
        };
    }

    /// Signals WATCH and client tracking that the key has changed.
    fn signal_modified(&mut self, key: Str) {
        // SAFETY: context and key are alive.
        unsafe {
            call!(RedisModule_SignalModifiedKey(
                self.ctx().as_ptr(),
                key.as_ptr()
            ))
        };
    }
}
