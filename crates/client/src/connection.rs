//! What carries the commands of a follower.

use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, MultiplexedConnection};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{Cmd, RedisFuture, Value};

use crate::error::Error;

/// A connection that a [`Near`](crate::Near) can use. Implement it for connections of your own.
pub trait Connection: Send + Sync + 'static {
    /// Sends a command to the server that has a key, always the same one while there is no failover. Returns its reply.
    fn send<'c>(&'c self, key: &'c [u8], command: Cmd) -> RedisFuture<'c, Value>;
}

/// Returns the route to the primary of a key's slot.
pub fn primary_of(key: &[u8]) -> SingleNodeRoutingInfo {
    SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master))
}

/// It does not connect again once its server is lost: prefer a [`ConnectionManager`].
impl Connection for MultiplexedConnection {
    fn send<'c>(&'c self, _key: &'c [u8], command: Cmd) -> RedisFuture<'c, Value> {
        let mut connection = self.clone();
        Box::pin(async move { connection.req_packed_command(&command).await })
    }
}

impl Connection for ConnectionManager {
    fn send<'c>(&'c self, _key: &'c [u8], command: Cmd) -> RedisFuture<'c, Value> {
        let mut connection = self.clone();
        Box::pin(async move { connection.req_packed_command(&command).await })
    }
}

/// Sends to the primary of the key's slot, even if the connection reads from replicas: a cursor of one node is unknown to
/// others.
impl Connection for ClusterConnection {
    fn send<'c>(&'c self, key: &'c [u8], command: Cmd) -> RedisFuture<'c, Value> {
        let mut connection = self.clone();
        let routing = RoutingInfo::SingleNode(primary_of(key));
        Box::pin(async move { connection.route_command(command, routing).await })
    }
}

/// Sends a command, and returns its reply or its error.
pub async fn send_within(
    timeout: Duration,
    connection: &dyn Connection,
    key: &[u8],
    command: Cmd,
) -> Result<Value, Error> {
    let reply = tokio::time::timeout(timeout, connection.send(key, command)).await;
    match reply.map_err(|_| Error::Timeout)?? {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}
