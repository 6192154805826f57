//! The replies to BF.INFO and the other families' INFO commands, from any module.
//!
//! `BF.INFO key ALL` returns every field. RedisBloom, valkey-bloom and older builds of this module lack ALL, and return
//! all that they have without it. A node's first refusal shows that it lacks ALL, for as long as a [`InfoReader`] lives.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use redis::{Cmd, FromRedisValue, Value, cmd};

use valkeybloom_near::slot;
use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::names::BF_INFO;

use super::failure::Fault;
use super::server::{Server, convert};

/// The fields of a reply, by name.
pub struct Info(HashMap<String, Value>);

impl Info {
    /// Reads all fields of a Bloom filter that its server reports.
    pub fn of(server: &Server, key: &[u8]) -> Result<Self, Fault> {
        let mut reader = InfoReader::new(server);
        let info = reader.command(key);
        reader
            .call_all(&[(key.to_vec(), info)])
            .swap_remove(0)?
            .try_into()
    }

    /// Reads the fields of a Bloom filter that every server reports. No field is expensive to compute.
    pub fn brief(server: &Server, key: &[u8]) -> Result<Self, Fault> {
        server.call(key, cmd(BF_INFO).arg(key))?.try_into()
    }

    /// Returns a field, unless it is missing or has another type.
    pub fn get<T: FromRedisValue>(&self, name: &str) -> Option<T> {
        T::from_redis_value(self.0.get(name)?.clone()).ok()
    }

    /// Returns a field of BF.INFO, unless it is missing or has another type.
    pub fn of_filter<T: FromRedisValue>(&self, field: InfoField) -> Option<T> {
        self.get(field.title().to_str().expect("titles are ASCII"))
    }
}

impl TryFrom<Value> for Info {
    type Error = Fault;

    /// Takes a reply, which must be a map, or a list of names and values.
    fn try_from(reply: Value) -> Result<Self, Fault> {
        convert(reply).map(Self)
    }
}

/// Reads the fields of Bloom filters, each node's in the form that it has.
pub struct InfoReader<'s> {
    server: &'s Server,
    /// The slots of nodes whose BF.INFO lacks ALL.
    slots_without_all: Vec<RangeInclusive<u16>>,
}

impl<'s> InfoReader<'s> {
    pub const fn new(server: &'s Server) -> Self {
        Self {
            server,
            slots_without_all: Vec::new(),
        }
    }

    /// Returns the command that reads all fields of a Bloom filter.
    pub fn command(&self, key: &[u8]) -> Cmd {
        let mut info = cmd(BF_INFO);
        info.arg(key);
        if !self.is_without_all(key) {
            info.arg("ALL");
        }
        info
    }

    fn is_without_all(&self, key: &[u8]) -> bool {
        let mut slots = self.slots_without_all.iter();
        slots.any(|slots| slots.contains(&slot(key)))
    }

    /// Calls commands in parallel, as [`Server::call_all`] does, and those again whose node turns out to lack ALL.
    pub fn call_all(&mut self, commands: &[(Vec<u8>, Cmd)]) -> Vec<Result<Value, Fault>> {
        let mut replies = self.server.call_all(commands);
        let (mut again, mut refused) = (Vec::new(), Vec::new());
        for ((key, _), reply) in commands.iter().zip(&mut replies) {
            if lacks_all(reply) {
                if !self.is_without_all(key) {
                    self.slots_without_all.extend(self.server.slots_beside(key));
                }
                again.push((key.clone(), self.command(key)));
                refused.push(reply);
            }
        }
        for (old, new) in refused.into_iter().zip(self.server.call_all(&again)) {
            *old = new;
        }
        replies
    }
}

/// Returns whether a server refused ALL. Modules differ in the code and the case of the text, and the oldest take no
/// field.
fn lacks_all(reply: &Result<Value, Fault>) -> bool {
    let Err(Fault::Refused(text)) = reply else {
        return false;
    };
    let text = text.to_ascii_lowercase();
    let text = text.strip_prefix("err ").unwrap_or(&text);
    text == "invalid information value"
        || text.starts_with("wrong number of arguments for 'bf.info'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_all_is_told_from_other_errors() {
        for (error, expected) in [
            ("Invalid information value", true),
            ("ERR invalid information value", true),
            ("ERR wrong number of arguments for 'bf.info' command", true),
            ("ERR wrong number of arguments for 'BF.INFO' command", true),
            ("ERR wrong number of arguments for 'cf.info' command", false),
            ("ERR not found", false),
            ("NOPERM no permission", false),
        ] {
            let reply = Err(Fault::Refused(error.to_owned()));
            assert_eq!(lacks_all(&reply), expected, "{error}");
        }
        assert!(!lacks_all(&Err(Fault::Lost(
            "invalid information value".to_owned()
        ))));
        assert!(!lacks_all(&Ok(Value::Nil)));
    }

    #[test]
    fn fields_are_a_map_or_a_list_of_pairs() {
        let text = |text: &str| Value::BulkString(text.into());
        let map = Value::Map(vec![(text("Capacity"), Value::Int(7))]);
        let list = Value::Array(vec![text("Capacity"), Value::Int(7)]);
        for reply in [map, list] {
            let info = Info::try_from(reply).expect("it has fields");
            assert_eq!(info.of_filter(InfoField::Capacity), Some(7));
            assert_eq!(info.of_filter::<u64>(InfoField::Size), None);
        }
        for reply in [Value::Okay, Value::Int(7), text("Capacity")] {
            let fault = Info::try_from(reply).err();
            assert!(matches!(fault, Some(Fault::Unusable(_))), "{fault:?}");
        }
    }
}
