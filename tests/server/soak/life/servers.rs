//! Steps of whole databases, of a server and of two.

use std::collections::BTreeMap;

use crate::harness::{Server, int, wait_in_sync, wait_until};
use crate::support::sums;

use super::{DATABASES, KEYS, Life};

impl Life {
    pub(super) fn whole_databases(&mut self) {
        match self.random.below(8) {
            0..4 => {
                let (one, two) = (self.random.below(DATABASES), self.random.below(DATABASES));
                self.is_ok(&format!("SWAPDB {one} {two}"));
                self.databases.swap(one, two);
            }
            4..7 => {
                let mode = *self.random.pick(&["SYNC", "ASYNC"]);
                self.is_ok(&format!("FLUSHDB {mode}"));
                self.databases[self.database].clear();
            }
            _ => {
                let mode = *self.random.pick(&["SYNC", "ASYNC"]);
                self.is_ok(&format!("FLUSHALL {mode}"));
                self.databases = vec![BTreeMap::new(); DATABASES];
            }
        }
    }

    pub(super) fn whole_server(&mut self) -> &'static str {
        let kind = match self.random.below(6) {
            0 => {
                self.is_ok("DEBUG RELOAD");
                "reload"
            }
            1 | 2 => {
                let preamble = *self.random.pick(&["yes", "no"]);
                self.is_ok(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
                let reply = self.call("BGREWRITEAOF");
                let under_way = reply.is_error();
                assert!(!under_way || reply.text().contains("already in progress"));
                if self.random.one_in(2) {
                    log_is_complete(&self.primary);
                }
                return "rewrite";
            }
            _ if self.replica.is_some() => self.two_servers(),
            3 => {
                // It is the log that counts: of a rewrite under way there may be nothing.
                self.primary.kill();
                self.primary.start_again();
                self.connect();
                "kill"
            }
            _ => {
                self.primary.restart();
                self.connect();
                "restart"
            }
        };
        self.note(kind);
        self.check_all(&self.primary);
        kind
    }
}

/// Awaits that the AOF holds everything: no rewrite is running, nor about to begin after a full resync.
#[track_caller]
fn log_is_complete(server: &Server) {
    wait_until("the AOF is written", || {
        let info = server.info("persistence");
        info["aof_enabled"] == "1"
            && info["aof_rewrite_in_progress"] == "0"
            && info["aof_rewrite_scheduled"] == "0"
    });
}

/// Steps that need a replica.
impl Life {
    fn replica(&self) -> &Server {
        self.replica.as_ref().expect("there is a replica")
    }

    fn attach(&self) {
        self.replica()
            .client()
            .run(format!("REPLICAOF 127.0.0.1 {}", self.primary.port()));
    }

    fn two_servers(&mut self) -> &'static str {
        match self.random.below(8) {
            0 => {
                assert!(self.call("CLIENT KILL TYPE replica").as_int() < 2);
                "cut"
            }
            1 => {
                // It diverges for a while, and nothing of that may remain.
                let mut own = self.replica().client();
                self.are_the_same();
                own.ok("REPLICAOF NO ONE");
                for number in 0..KEYS {
                    own.cmd(&format!("BF.MADD key-{number} own-1 own-2 own-3"));
                    own.cmd(&format!("RENAME key-{number} own-{number}"));
                }
                sums::is_balanced(&mut own);
                self.attach();
                self.are_the_same();
                "own way"
            }
            2 => {
                self.are_the_same();
                log_is_complete(self.replica());
                if let Some(replica) = &mut self.replica {
                    replica.kill();
                    replica.start_again();
                }
                // It has kept all, before it hears of the primary again.
                self.check_all(self.replica());
                self.attach();
                "replica killed"
            }
            3 => {
                log_is_complete(&self.primary);
                self.primary.kill();
                self.primary.start_again();
                self.connect();
                self.attach();
                "primary killed"
            }
            4 | 5 => {
                self.are_the_same();
                "sync"
            }
            _ => {
                self.fail_over();
                "failover"
            }
        }
    }

    /// Awaits that the replica is in sync, and compares.
    pub(super) fn are_the_same(&mut self) {
        wait_in_sync(&self.primary, self.replica());
        self.check_all(self.replica());
        sums::is_balanced(&mut self.replica().client());
    }

    fn fail_over(&mut self) {
        // A write that changes something, so that there is something to wait for.
        let key = self.key();
        self.set_text(&key);
        wait_until("the replica has all", || {
            self.client.cmd("WAIT 1 1000") == int(1)
        });
        log_is_complete(&self.primary);
        log_is_complete(self.replica());
        let mut next = self.replica.take().expect("there is a replica");
        let promote = || next.client().ok("REPLICAOF NO ONE");
        if self.random.one_in(2) {
            promote();
            self.primary.kill();
        } else {
            self.primary.kill();
            promote();
        }
        std::mem::swap(&mut self.primary, &mut next);
        self.connect();
        self.note("failover");
        self.check_all(&self.primary);
        // The old one misses some steps.
        for _ in 0..self.random.below(6) {
            let (key, other) = (self.key(), self.key());
            self.write(&key, &other);
            self.rename(&key, &other);
            self.check_keys(&[key, other]);
        }
        next.start_again();
        self.replica = Some(next);
        self.attach();
    }
}
