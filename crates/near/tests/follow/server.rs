//! A server in memory with one key, and what it replies to a follower.

use std::ops::Range;
use std::time::Duration;

use valkeybloom_near::{Follower, Reply, Request, Step};
use valkeybloom_protocol::error::Error;
use valkeybloom_sketches::bloom::{Growth, Limits, New, Object, Shape, Time, chunks};
use valkeybloom_sketches::{Cursor, Feed, Lost, Seed};
use valkeybloom_testing::support::{
    Rng, counting, of_valkey_bloom, params, pieces, tightened, windowed,
};

/// The most items of one reply of `BF.READ`.
const MAX_COUNT: usize = 65_536;

/// The text of a server that lacks a command.
const LACKS_IDS: &str = "ERR wrong number of arguments for 'bf.scandump' command";

pub const UNKNOWN_COMMAND: &str =
    "ERR unknown command 'BF.READ', with args beginning with: 'k' '$' ";

/// What a key holds.
#[derive(Debug)]
pub enum Held {
    Nothing,
    Text,
    HalfLoaded,
    Filter(Filter),
}

#[derive(Debug)]
pub struct Filter {
    pub object: Object,
    feed: Option<Feed>,
    /// That of its feed, too.
    id: u64,
}

/// A change of what the key holds.
#[derive(Clone, Debug)]
pub enum Change {
    Make(Make),
    Add(Vec<Vec<u8>>),
    Delete,
    Text,
    HalfLoad,
    /// Items are merged in, which ends the feed.
    Merge(Vec<Vec<u8>>),
    /// The data is loaded from a file, or comes from a primary.
    Reload,
}

/// A filter to make.
#[derive(Clone, Copy, Debug)]
pub struct Make {
    pub by: Maker,
    pub capacity: u64,
    pub growth: Growth,
    pub seed: u8,
}

#[derive(Clone, Copy, Debug)]
pub enum Maker {
    Own,
    ValkeyBloom,
    RedisBloom,
    Windowed,
    Counting,
}

impl Make {
    /// Returns a filter that grows by the default factor.
    pub const fn growing(by: Maker, capacity: u64, seed: u8) -> Self {
        let growth = Growth::from_expansion(2);
        Self {
            by,
            capacity,
            growth,
            seed,
        }
    }

    pub fn object(&self) -> Object {
        let params = params(self.capacity, 0.02, self.growth.expansion());
        let theirs = tightened(of_valkey_bloom(0.5), params);
        let new = match self.by {
            Maker::Own => New::Own(Shape::plain(params)),
            Maker::ValkeyBloom => New::Own(Shape::plain(theirs)),
            Maker::RedisBloom => New::RedisBloom {
                params,
                factor: self.growth.expansion().max(2),
            },
            Maker::Windowed => New::Own(windowed(params, 60_000, 3)),
            Maker::Counting => New::Own(counting(params)),
        };
        let seed = Seed::new([self.seed; 32]);
        Object::make(&new, seed, Limits::NONE).unwrap()
    }
}

/// What came back for a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    News {
        cursor: Vec<u8>,
        items: u64,
        hashes: Vec<u8>,
    },
    Chunk {
        cursor: u64,
        bytes: Vec<u8>,
        id: Vec<u8>,
    },
    Refused(String),
    Lost,
}

impl Answer {
    pub fn as_reply(&self) -> Reply<'_> {
        match self {
            Self::News {
                cursor,
                items,
                hashes,
            } => Reply::News {
                cursor,
                items: *items,
                hashes,
            },
            Self::Chunk { cursor, bytes, id } => Reply::Chunk {
                cursor: *cursor,
                bytes,
                id,
            },
            Self::Refused(text) => Reply::Refused(text),
            Self::Lost => Reply::Lost("connection reset"),
        }
    }
}

#[derive(Debug)]
pub struct Server {
    pub held: Held,
    /// The most bytes of a feed.
    pub feed_bytes: u64,
    /// The most bytes of a chunk.
    pub chunk_bytes: usize,
    /// Whether it knows `BF.READ`.
    pub has_feeds: bool,
    /// Whether it knows `WITHID`.
    pub has_ids: bool,
    /// Whether the follower may run its commands.
    pub permits: bool,
    next_id: u64,
}

impl Server {
    pub fn new(first_id: u64) -> Self {
        Self {
            held: Held::Nothing,
            feed_bytes: 1 << 20,
            chunk_bytes: 4 << 20,
            has_feeds: true,
            has_ids: true,
            permits: true,
            next_id: first_id,
        }
    }

    pub fn with(object: Object) -> Self {
        let mut server = Self::new(1);
        server.hold(object);
        server
    }

    fn hold(&mut self, object: Object) {
        self.next_id += 1;
        self.held = Held::Filter(Filter {
            object,
            feed: None,
            id: self.next_id,
        });
    }

    pub fn object(&self) -> Option<&Object> {
        match &self.held {
            Held::Filter(filter) => Some(&filter.object),
            _ => None,
        }
    }

    /// Returns the cursor behind the last item of the filter's feed.
    pub fn cursor(&self) -> Option<String> {
        match &self.held {
            Held::Filter(filter) => filter.feed.as_ref().map(|feed| feed.end().to_string()),
            _ => None,
        }
    }

    pub fn contains(&self, item: &[u8]) -> bool {
        self.object()
            .is_some_and(|object| object.contains(item, || 0))
    }

    pub fn add(&mut self, item: &[u8]) {
        self.change(&Change::Add(vec![item.to_vec()]));
    }

    /// Adds the items of these numbers together.
    pub fn add_numbers(&mut self, numbers: Range<u64>) {
        let items = numbers.map(|number| number.to_le_bytes().to_vec());
        self.change(&Change::Add(items.collect()));
    }

    pub fn change(&mut self, change: &Change) {
        match (change, &mut self.held) {
            (Change::Make(make), _) => self.hold(make.object()),
            (Change::Delete, held) => *held = Held::Nothing,
            (Change::Text, held) => *held = Held::Text,
            (Change::HalfLoad, held) => *held = Held::HalfLoaded,
            (Change::Reload, Held::Filter(filter)) => {
                self.next_id += 1;
                (filter.feed, filter.id) = (None, self.next_id);
            }
            (Change::Add(items), Held::Filter(filter)) => filter.add(items, self.feed_bytes),
            (Change::Merge(items), Held::Filter(filter)) => {
                filter.merge(items);
                self.next_id += 1;
                filter.id = self.next_id;
            }
            (Change::Add(_) | Change::Merge(_) | Change::Reload, _) => {}
        }
    }

    /// Returns the reply to a follower's command.
    pub fn reply(&mut self, request: &Request) -> Answer {
        self.try_reply(request).unwrap_or_else(Answer::Refused)
    }

    fn try_reply(&mut self, request: &Request) -> Result<Answer, String> {
        let words = request.words(b"k");
        let (name, cursor) = (words[0].clone(), words[2].clone());
        assert_eq!(words[1], b"k");
        if !self.permits {
            let name = String::from_utf8(name).unwrap().to_lowercase();
            return Err(format!(
                "NOPERM User reader has no permissions to run the '{name}' command"
            ));
        }
        if name == b"BF.READ" && !self.has_feeds {
            return Err(UNKNOWN_COMMAND.to_owned());
        }
        let filter = match &mut self.held {
            Held::Nothing => return Err(Error::NOT_FOUND.to_string()),
            Held::Text => return Err(Error::WRONG_TYPE.to_string()),
            Held::HalfLoaded => return Err(Error::STILL_LOADING.to_string()),
            Held::Filter(filter) => filter,
        };
        let cursor = String::from_utf8(cursor).unwrap();
        if name == b"BF.SCANDUMP" {
            if words.len() > 3 && !self.has_ids {
                return Err(LACKS_IDS.to_owned());
            }
            return Ok(filter.piece(cursor.parse().unwrap(), self.chunk_bytes));
        }
        assert_eq!(name, b"BF.READ");
        if !filter.object.is_plain() {
            return Err(Error::NO_FEED.to_string());
        }
        if cursor == "$" {
            let items = filter.object.items(|| 0);
            let feed = filter
                .feed
                .get_or_insert_with(|| Feed::new(filter.id, items));
            return Ok(Answer::News {
                cursor: feed.end().to_string().into_bytes(),
                items,
                hashes: Vec::new(),
            });
        }
        filter.read(&cursor)
    }
}

impl Filter {
    fn add(&mut self, items: &[Vec<u8>], feed_bytes: u64) {
        let feed = &mut self.feed;
        let items = items.iter().map(Vec::as_slice);
        self.object.add_each_probed(
            items,
            || Limits::NONE,
            |added| assert!(added.is_ok()),
            |new| {
                if let Some(feed) = feed {
                    feed.push(new, || feed_bytes);
                }
            },
        );
    }

    fn merge(&mut self, items: &[Vec<u8>]) {
        let mut other = self.object.try_clone().unwrap();
        for item in items {
            other.add(item, Time::default(), || Limits::NONE).unwrap();
        }
        if let Ok(merged) = Object::merged(&[&self.object, &other], Limits::NONE) {
            self.object = merged;
            self.feed = None;
        }
    }

    fn piece(&self, cursor: u64, most: usize) -> Answer {
        let (next, bytes) = chunks::piece(&self.object, cursor).unwrap();
        let mut bytes = bytes.into_owned();
        let cursor = if cursor == 0 || bytes.len() <= most {
            next
        } else {
            bytes.truncate(most);
            cursor + most as u64
        };
        let id = format!("{:016x}", self.id).into_bytes();
        Answer::Chunk { cursor, bytes, id }
    }

    fn read(&self, cursor: &str) -> Result<Answer, String> {
        let (id, sequence) = cursor.split_once('-').unwrap();
        let from = Cursor {
            feed: u64::from_str_radix(id, 16).unwrap(),
            sequence: sequence.parse().unwrap(),
        };
        let feed = self.feed.as_ref().ok_or(Error::FEED_UNKNOWN.to_string())?;
        let parts = feed.since(from).map_err(|lost| match lost {
            Lost::Unknown => Error::FEED_UNKNOWN.to_string(),
            Lost::Overrun => Error::FEED_OVERRUN.to_string(),
        })?;
        let new = parts.concat();
        let count = new.len().min(MAX_COUNT);
        let next = Cursor {
            sequence: from.sequence + count as u64,
            ..from
        };
        Ok(Answer::News {
            cursor: next.to_string().into_bytes(),
            items: next.sequence.min(self.object.items(|| 0)),
            hashes: new[..count].concat(),
        })
    }
}

/// Returns a random number from 0 to 1.
pub fn fraction(random: &mut Rng) -> f64 {
    f64::from(u16::try_from(random.below(10_001)).unwrap()) / 10_000.0
}

/// Asserts that a copy equals its filter, byte for byte.
#[track_caller]
pub fn is_equal(follower: &Follower, server: &Server) {
    let (copy, _) = follower.copy().expect("there is a copy");
    let object = server.object().expect("there is a filter");
    assert!(pieces(copy) == pieces(object), "the copy differs");
}

/// Sends a follower's commands, with no time between a command and its reply, until it waits. Returns until when.
pub fn drive(follower: &mut Follower, server: &mut Server, now: Duration) -> Duration {
    loop {
        match follower.next(now) {
            Step::Wait(until) => return until,
            Step::Send(request) => {
                let answer = server.reply(&request);
                follower.take(answer.as_reply(), now, 0.5);
            }
        }
    }
}
