//! The replies to BF.INFO and the other families' INFO commands, from any module.

use std::collections::HashMap;

use redis::{FromRedisValue, Value, cmd};

use valkeybloom_protocol::bloom::InfoField;
use valkeybloom_protocol::names::BF_INFO;

use super::failure::Fault;
use super::server::Server;

/// The fields of a reply, by name.
pub struct Info(pub HashMap<String, Value>);

impl Info {
    /// Reads the fields of a Bloom filter.
    pub fn of(server: &Server, key: &[u8]) -> Result<Self, Fault> {
        Ok(Self::from(server.call(key, cmd(BF_INFO).arg(key))?))
    }

    /// Returns a field, unless it is missing or has another type.
    pub fn get<T: FromRedisValue>(&self, name: &str) -> Option<T> {
        T::from_redis_value(self.0.get(name)?.clone()).ok()
    }

    /// Returns a field of BF.INFO, unless it is missing or has another type.
    pub fn of_filter<T: FromRedisValue>(&self, field: InfoField) -> Option<T> {
        self.get(field.title().to_str().unwrap_or_default())
    }
}

impl From<Value> for Info {
    /// Takes a reply, which has no fields if it is not a map.
    fn from(reply: Value) -> Self {
        Self(HashMap::from_redis_value(reply).unwrap_or_default())
    }
}
