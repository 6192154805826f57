//! The replies to BF.INFO and the other families' INFO commands, from any module.
//!
//! `BF.INFO key ALL` returns every field. RedisBloom, valkey-bloom and older builds of this module lack ALL, and return
//! all that they have without it. A node's first refusal shows that it lacks ALL, for as long as the program is connected.

use std::collections::HashMap;

use redis::{Cmd, FromRedisValue, Value, cmd};

use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::names::BF_INFO;

use super::failure::Fault;
use super::server::Server;

/// The fields of a reply, by name.
pub struct Info(HashMap<String, Value>);

impl Info {
    /// Reads all fields of a Bloom filter that its server reports. Unlike [`call_all`], it waits while a slot moves.
    pub fn of(server: &Server, key: &[u8]) -> Result<Self, Fault> {
        let mut reply = server.call(key, &command(server, key));
        if lacks_all(&reply) {
            server.note_lack_of_info_all(key);
            reply = server.call(key, &command(server, key));
        }
        Ok(Self::from(reply?))
    }

    /// Reads the fields of a Bloom filter that every server reports. No field is expensive to compute.
    pub fn brief(server: &Server, key: &[u8]) -> Result<Self, Fault> {
        Ok(Self::from(server.call(key, cmd(BF_INFO).arg(key))?))
    }

    /// Returns the names of the fields, in any order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
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

impl From<Value> for Info {
    /// Takes a reply, which has no fields if it is not a map.
    fn from(reply: Value) -> Self {
        Self(HashMap::from_redis_value(reply).unwrap_or_default())
    }
}

/// Returns the command that reads all fields of a Bloom filter. [`call_all`] sends it again if the server lacks ALL.
pub fn command(server: &Server, key: &[u8]) -> Cmd {
    let mut info = cmd(BF_INFO);
    info.arg(key);
    if !server.lacks_info_all(key) {
        info.arg("ALL");
    }
    info
}

/// Calls commands in parallel, as [`Server::call_all`] does, and those again whose server turns out to lack ALL.
pub fn call_all(server: &Server, commands: &[(Vec<u8>, Cmd)]) -> Vec<Result<Value, Fault>> {
    let mut replies = server.call_all(commands);
    let pairs = commands.iter().zip(&mut replies);
    let refused = pairs
        .filter(|(_, reply)| lacks_all(reply))
        .map(|((key, _), reply)| {
            server.note_lack_of_info_all(key);
            ((key.clone(), command(server, key)), reply)
        });
    let (again, refused): (Vec<_>, Vec<_>) = refused.unzip();
    for (old, new) in refused.into_iter().zip(server.call_all(&again)) {
        *old = new;
    }
    replies
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
