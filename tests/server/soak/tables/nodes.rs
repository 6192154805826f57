//! The servers of a life.

use std::fs;
use std::path::PathBuf;

use crate::harness::{Builder, Client, Reply, Server, digest, ok, wait_in_sync, wait_until};
use crate::support::aof::{Command, log_is_complete, rewrite_aof};
use crate::support::pieces::{load_chunks, pieces};
use crate::support::primary::Link;

/// Settings of servers that get what they hold from others: limits that admit nothing.
const NARROW: [(&str, &str); 2] = [
    ("bf.bloom-memory-usage-limit", "200"),
    ("bf.bloom-filter-max-memory-usage", "200"),
];

/// Replicas load what they get as it comes. Otherwise they look once a second whether all of it is there.
const DIRECT: (&str, &str) = ("repl-diskless-load", "swapdb");

/// A server with a log, its replicas, and one beside them.
pub struct Nodes {
    home: Server,
    pub client: Client,
    /// A replica that is there all the time.
    twin: Server,
    /// One that joined late.
    late: Option<Server>,
    /// A server that loads copies.
    aside: Server,
    /// The primary of `home`, if it has one.
    link: Option<Link>,
}

fn replica_of(server: &Server) -> Builder {
    Server::replica_of(server).config(DIRECT.0, DIRECT.1)
}

impl Nodes {
    pub fn start() -> Self {
        let home = Server::with(&[
            ("appendonly", "yes"),
            ("appendfsync", "no"),
            ("auto-aof-rewrite-percentage", "0"),
            DIRECT,
        ]);
        let narrow = |builder: Builder, (name, value)| builder.config(name, value);
        let twin = NARROW.into_iter().fold(replica_of(&home), narrow);
        Self {
            client: home.client(),
            twin: twin.start(),
            late: None,
            aside: Server::start(),
            link: None,
            home,
        }
    }

    /// Begins a life: no server has anything. Writes come from a primary, if `is_linked`, or else from a client.
    pub fn begin(&mut self, is_linked: bool) {
        self.late = None;
        if self.link.take().is_some() {
            self.client.ok("REPLICAOF NO ONE");
        }
        self.client.ok("FLUSHALL");
        self.aside.client().ok("FLUSHALL");
        self.connect(is_linked);
    }

    fn connect(&mut self, is_linked: bool) {
        self.client = self.home.client();
        self.link = is_linked.then(|| {
            let saved = fs::read(self.save()).expect("a file was saved");
            Link::begin(&mut self.client, &saved)
        });
    }

    /// Returns whether writes come from a primary.
    pub fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// Sends writes. Returns the replies, if a client sends them.
    pub fn write(&mut self, commands: &[Command]) -> Vec<Option<Reply>> {
        if let Some(link) = &mut self.link {
            link.send(&mut self.client, commands);
            self.check_logs();
            return vec![None; commands.len()];
        }
        let replies = self.client.call_all(commands);
        replies.into_iter().map(Some).collect()
    }

    /// Returns the reply to a command of a client, on a server that is loaded with the values of some keys.
    pub fn rehearse(&mut self, keys: &[&str], words: &Command) -> Reply {
        let mut aside = self.aside.client();
        aside.ok("FLUSHALL");
        for key in keys {
            let dump = self.client.cmd(&format!("DUMP {key}"));
            assert_eq!(
                aside.restore(key, dump.as_bytes()),
                ok(),
                "RESTORE of {key}"
            );
        }
        aside.call_words(words)
    }

    /// Lets a replica join, in place of one that did.
    pub fn join(&mut self) {
        self.late = Some(replica_of(&self.home).start());
    }

    /// Checks that the replicas hold these values.
    pub fn check_replicas(&mut self, keys: &[&str]) {
        for (name, replica) in [("twin", Some(&self.twin)), ("late", self.late.as_ref())] {
            let Some(replica) = replica else { continue };
            wait_in_sync(&self.home, replica);
            let mut client = replica.client();
            for key in keys {
                let held = digest(&mut client, key);
                assert_eq!(
                    held,
                    digest(&mut self.client, key),
                    "{key} of the {name} replica"
                );
            }
        }
    }

    /// Checks that the value of a key can be dumped and restored; and that its pieces can be loaded, if wanted.
    pub fn check_copies(&mut self, key: &str, in_pieces: bool) {
        let (dump, held) = (
            self.client.cmd(&format!("DUMP {key}")),
            digest(&mut self.client, key),
        );
        let mut aside = self.aside.client();
        aside.cmd("DEL copy");
        let restored = aside.restore("copy", dump.as_bytes());
        assert_eq!(restored, ok(), "RESTORE of {key}");
        assert_eq!(digest(&mut aside, "copy"), held, "the copy of {key}");
        if in_pieces {
            aside.cmd("DEL copy");
            load_chunks(&mut aside, "copy", &pieces(&mut self.client, key));
            assert_eq!(digest(&mut aside, "copy"), held, "the pieces of {key}");
        }
    }

    /// Saves all that there is. Returns the path of the file.
    fn save(&mut self) -> PathBuf {
        wait_until("it is saved", || {
            // A replica that joins is sent what is saved in the background.
            let reply = self.client.cmd("SAVE");
            let is_busy = reply.is_error() && reply.text().contains("in progress");
            assert!(is_busy || reply == ok(), "{reply:?}");
            !is_busy
        });
        self.home.dir().join("dump.rdb")
    }

    /// Checks that another server starts on what this one saves.
    pub fn check_saved(&mut self, keys: &[&str]) {
        let saved = self.save();
        self.aside.shutdown();
        fs::copy(saved, self.aside.dir().join("dump.rdb")).expect("a file was saved");
        self.aside.start_again();
        self.check_same(&mut self.aside.client(), keys);
    }

    fn check_same(&mut self, other: &mut Client, keys: &[&str]) {
        for key in keys {
            assert_eq!(digest(other, key), digest(&mut self.client, key), "{key}");
        }
    }

    /// Kills the server and starts it on its log, which it may have written anew, as commands or with an RDB file.
    pub fn restart(&mut self, keys: &[&str], rewrite: Option<bool>) {
        log_is_complete(&self.home);
        if let Some(preamble) = rewrite {
            let preamble = if preamble { "yes" } else { "no" };
            self.client
                .ok(format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
            rewrite_aof(&self.home);
        }
        let before = keys.iter().map(|key| digest(&mut self.client, key));
        let before: Vec<String> = before.collect();
        let is_linked = self.link.take().is_some();
        self.home.kill();
        self.home.start_again();
        self.client = self.home.client();
        for (key, before) in keys.iter().zip(before) {
            assert_eq!(digest(&mut self.client, key), before, "{key} of the log");
        }
        self.connect(is_linked);
    }

    /// Checks that no server complained of what it got from another.
    pub fn check_logs(&self) {
        for server in [&self.home, &self.twin].into_iter().chain(&self.late) {
            let log = server.log();
            let refused = log.lines().find(|line| line.contains("CRITICAL"));
            assert_eq!(refused, None);
        }
    }
}
