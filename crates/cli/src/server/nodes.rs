//! The nodes of a cluster that hold keys, as CLUSTER SLOTS lists them.

use std::ops::RangeInclusive;

use redis::Value::{self, Array, Int};
use redis::cluster_routing::SingleNodeRoutingInfo;

use super::connection::convert;
use crate::failure::{Fault, Result};

/// The command that lists them.
pub const CLUSTER_SLOTS: &str = "CLUSTER SLOTS";

/// A primary of a cluster.
#[derive(Debug, PartialEq)]
pub struct Primary {
    pub routing: SingleNodeRoutingInfo,
    pub slots: Vec<RangeInclusive<u16>>,
}

impl Primary {
    /// Returns whether the node has a slot.
    pub fn has(&self, slot: u16) -> bool {
        self.slots.iter().any(|slots| slots.contains(&slot))
    }
}

/// Returns the primaries in a reply to CLUSTER SLOTS. `host` is that of primaries that announce none.
pub fn primaries_in(reply: Value, host: &str) -> Result<Vec<Primary>, Fault> {
    let unexpected = || Fault::Unusable(format!("unexpected reply to {CLUSTER_SLOTS}"));
    let ranges: Vec<Vec<Value>> = convert(reply).map_err(|_| unexpected())?;
    let mut primaries: Vec<Primary> = Vec::new();
    for range in ranges {
        // A range consists of its first and last slot, its primary, and the replicas.
        let [Int(first), Int(last), Array(primary), ..] = &range[..] else {
            return Err(unexpected());
        };
        let [announced, Int(port), ..] = &primary[..] else {
            return Err(unexpected());
        };
        let number = |of: &i64| u16::try_from(*of).map_err(|_| unexpected());
        let announced: Option<String> = convert(announced.clone()).map_err(|_| unexpected())?;
        let host = match announced.as_deref() {
            // The client library takes a wildcard address for that of the node, too.
            None | Some("" | "0.0.0.0" | "::") => host,
            Some("?") => {
                let why = "a node has no host in CLUSTER SLOTS: set its cluster-announce-hostname";
                return Err(Fault::Unusable(why.to_owned()));
            }
            Some(announced) => announced,
        };
        let routing = SingleNodeRoutingInfo::ByAddress {
            host: host.to_owned(),
            port: number(port)?,
        };
        let slots = number(first)?..=number(last)?;
        match primaries.iter_mut().find(|node| node.routing == routing) {
            Some(node) => node.slots.push(slots),
            None => primaries.push(Primary {
                routing,
                slots: vec![slots],
            }),
        }
    }
    Ok(primaries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primaries(reply: &str) -> Result<Vec<Primary>, Fault> {
        let reply = reply.replace(' ', "\r\n") + "\r\n";
        let reply = redis::parse_redis_value(reply.as_bytes());
        primaries_in(reply.expect("it is whole"), "own")
    }

    #[test]
    fn primaries_without_a_host_have_that_of_the_address() {
        let listed = primaries(
            "*5 *4 :0 :1 *2 $1 a :1 *2 $1 b :2 *3 :2 :2 *2 $0  :1 *3 :3 :3 *2 $-1 :1 *3 :4 :4 *2 $7 0.0.0.0 :1 *3 :9 :9 *3 $1 a :1 $1 i",
        );
        let listed = listed.expect("the reply is one of CLUSTER SLOTS");
        let node = |host: &str, slots: &[RangeInclusive<u16>]| Primary {
            routing: SingleNodeRoutingInfo::ByAddress {
                host: host.to_owned(),
                port: 1,
            },
            slots: slots.to_vec(),
        };
        let expected = [
            node("a", &[0..=1, 9..=9]),
            node("own", &[2..=2, 3..=3, 4..=4]),
        ];
        assert_eq!(listed, expected);
    }

    #[test]
    fn other_replies_to_cluster_slots_are_refused() {
        for reply in [
            "+OK",
            "*1 +OK",
            "*1 *2 :0 :1",
            "*1 *3 :0 :1 $1 a",
            "*1 *3 :0 :1 *1 $1 a",
            "*1 *3 :0 :1 *2 $1 a $1 b",
            "*1 *3 :0 :1 *2 $1 a :65536",
            "*1 *3 :-1 :1 *2 $1 a :1",
            "*2 *3 :0 :1 *2 $1 a :1 *2 :2 :3",
            "*1 *3 :0 :1 *2 $1 ? :1",
        ] {
            let listed = primaries(reply);
            assert!(matches!(listed, Err(Fault::Unusable(_))), "{reply}");
        }
    }
}
