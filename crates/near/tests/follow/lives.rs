//! Random lives of a follower beside its server: anything may happen between any two steps.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use valkeybloom_near::{Follower, Options, Request, State, Step};
use valkeybloom_sketches::bloom::{Growth, Object};
use valkeybloom_testing::support::Rng;

use super::history::History;
use super::server::{Answer, Change, Make, Maker, Server, fraction, is_equal};

/// The number of items whose answers are checked.
const ITEMS: usize = 60;

/// A server, perhaps with a replica that is behind.
struct Servers {
    primary: Server,
    /// What a replica has yet to apply, and when.
    replica: Option<(Server, VecDeque<(Duration, Change)>)>,
    lag: Duration,
}

impl Servers {
    fn read(&mut self) -> &mut Server {
        match &mut self.replica {
            Some((replica, _)) => replica,
            None => &mut self.primary,
        }
    }

    fn change(&mut self, change: &Change, now: Duration, random: &mut Rng) {
        self.primary.change(change);
        if let Some((_, queue)) = &mut self.replica {
            let due = now + part(self.lag, random);
            let last = queue.back().map_or(Duration::ZERO, |(due, _)| *due);
            queue.push_back((due.max(last), change.clone()));
        }
    }

    /// Applies what the replica has received by now.
    fn replicate(&mut self, now: Duration) {
        if let Some((replica, queue)) = &mut self.replica {
            while queue.front().is_some_and(|(due, _)| *due <= now) {
                let (_, change) = queue.pop_front().unwrap();
                replica.change(&change);
            }
        }
    }
}

/// Returns a random part of a time.
fn part(whole: Duration, random: &mut Rng) -> Duration {
    whole.mul_f64(fraction(random))
}

/// The events that occurred, so that a test can assert its coverage.
#[derive(Debug, Default)]
struct Seen {
    claimed: u64,
    denied: u64,
    own: u64,
    compared: u64,
    filters: u64,
    grown_while_fetched: u64,
    resyncs: u64,
    fetches: u64,
    missing: u64,
    refused: u64,
}

struct Life {
    servers: Servers,
    follower: Follower,
    options: Options,
    history: History,
    /// The items that the program added since the key got its filter.
    own: HashSet<usize>,
    random: Rng,
    now: Duration,
    next_item: u64,
    seen: Seen,
    /// Whether anything goes wrong, and anything is written.
    is_quiet: bool,
    fetched_filters: u64,
}

impl Life {
    fn new(seed: u64, options: Options, has_feeds: bool) -> Self {
        let mut random = Rng::new(seed);
        let mut primary = Server::new(1);
        // Without feeds, fetching has to take less time than the copy is good for.
        primary.chunk_bytes = *random.pick(if has_feeds {
            &[7, 40, 500]
        } else {
            &[100, 500, 2000]
        });
        (primary.has_feeds, primary.has_ids) = (has_feeds, has_feeds);
        let replica = (!options.lag.is_zero()).then(|| {
            let mut replica = Server::new(1 << 32);
            replica.chunk_bytes = primary.chunk_bytes;
            (replica.has_feeds, replica.has_ids) = (has_feeds, has_feeds);
            (replica, VecDeque::new())
        });
        let items = (0..ITEMS).map(|item| format!("item {item}").into_bytes());
        Self {
            history: History::new(items.collect(), &primary),
            servers: Servers {
                primary,
                replica,
                lag: options.lag,
            },
            follower: Follower::new(options),
            options,
            own: HashSet::new(),
            random,
            now: Duration::from_secs(1000),
            next_item: 0,
            seen: Seen::default(),
            is_quiet: false,
            fetched_filters: 0,
        }
    }

    fn go_to(&mut self, time: Duration) {
        self.now = self.now.max(time);
        self.servers.replicate(self.now);
    }

    fn change(&mut self, change: &Change) {
        if matches!(
            change,
            Change::Make(_) | Change::Delete | Change::Text | Change::HalfLoad
        ) {
            self.own.clear();
            self.history.replaced = Some(self.now);
        }
        self.servers.change(change, self.now, &mut self.random);
        self.servers.replicate(self.now);
        self.history.note(&self.servers.primary, self.now);
    }

    fn make(&mut self) -> Change {
        let makers = [
            Maker::Own,
            Maker::Own,
            Maker::ValkeyBloom,
            Maker::RedisBloom,
            Maker::RedisBloom,
            Maker::Windowed,
            Maker::Counting,
        ];
        let expansion = *self.random.pick(&[0, 1, 2, 4]);
        Change::Make(Make {
            by: *self.random.pick(&makers),
            capacity: 1 + self.random.below(60) as u64,
            growth: Growth::from_expansion(expansion),
            seed: u8::from(self.random.one_in(2)),
        })
    }

    fn items(&mut self) -> Vec<Vec<u8>> {
        let count = 1 + self.random.below(6);
        let most = if self.random.one_in(12) { 150 } else { 1 };
        let new = self.next_item..self.next_item + self.random.below(most) as u64;
        self.next_item = new.end;
        let known = (0..count).map(|_| self.random.below(ITEMS));
        let known = known.map(|index| self.history.item(index).to_vec());
        known
            .chain(new.map(|number| number.to_le_bytes().to_vec()))
            .collect()
    }

    /// Something happens at the server, perhaps.
    fn happen(&mut self) {
        if self.is_quiet || !self.random.one_in(4) {
            return;
        }
        let is_plain = |server: &Server| server.object().is_some_and(Object::is_plain);
        if !is_plain(&self.servers.primary) && self.random.one_in(3) {
            let make = self.make();
            return self.change(&make);
        }
        match self.random.below(200) {
            0 => self.change(&Change::Delete),
            1 => {
                let make = self.make();
                self.change(&make);
            }
            2 => self.change(&Change::Text),
            3 => self.change(&Change::HalfLoad),
            4 => {
                let items = self.items();
                self.change(&Change::Merge(items));
            }
            5 => self.servers.read().change(&Change::Reload),
            6 => self.servers.read().feed_bytes = *self.random.pick(&[1024, 1 << 20]),
            7 => self.servers.read().permits = false,
            8..=20 => self.servers.read().permits = true,
            21..=80 => {
                // The program writes: the server has it some time before the reply comes.
                let index = self.random.below(ITEMS);
                let item = self.history.item(index).to_vec();
                self.change(&Change::Add(vec![item.clone()]));
                let object = self.servers.primary.object();
                if object.is_some_and(Object::is_plain) {
                    self.follower.keep(&item, self.now);
                    self.own.insert(index);
                }
            }
            _ => {
                let items = self.items();
                self.change(&Change::Add(items));
            }
        }
    }

    /// Returns how long an answer may have been wrong at the server.
    fn age(&self) -> Duration {
        let refresh = self
            .options
            .refresh
            .filter(|_| !self.servers.primary.has_feeds);
        self.options.max_age + self.options.lag + refresh.unwrap_or_default()
    }

    fn check(&mut self) {
        for _ in 0..3 {
            let index = self.random.below(self.history.len());
            let item = self.history.item(index);
            let answer = self.follower.contains(item, self.now);
            let together = |each| assert_eq!(each, answer, "looked up in a batch");
            self.follower
                .contains_each(std::iter::once(item), self.now, together);
            let Some(answer) = answer else {
                // Beside a replica, the program's own items may be the server's alone to answer.
                let may_lack = !self.options.lag.is_zero();
                assert!(!self.follower.is_fresh(self.now) || self.options.confirm || may_lack);
                continue;
            };
            assert!(self.follower.is_fresh(self.now));
            assert!(answer || !self.options.confirm, "it denies an item");
            if self.own.contains(&index) {
                assert!(answer, "item {index}, which the program added, is denied");
                self.seen.own += 1;
            }
            // A filter that was replaced while it was fetched without a feed may claim more items than either.
            let age = self.age();
            let is_mixed = !self.servers.primary.has_feeds
                && self.history.replaced.is_some_and(|at| at + age > self.now);
            let is_right = self.history.gave(index, answer, self.now, age);
            assert!(
                is_right || answer && is_mixed,
                "at {:?} item {index}: {answer}, {:?}",
                self.now,
                self.follower
            );
            self.seen.claimed += u64::from(answer);
            self.seen.denied += u64::from(!answer);
        }
        let (state, held) = (self.follower.state(self.now), self.follower.copy());
        self.seen.missing += u64::from(state == State::Missing);
        self.seen.refused += u64::from(state == State::Refused);
        // A copy at a cursor is what the server has there.
        let server = self.servers.read();
        if let Some((copy, Some(cursor))) = held
            && server.cursor().is_some_and(|end| end.as_bytes() == cursor)
            && self.random.one_in(4)
        {
            is_equal(&self.follower, server);
            self.seen.compared += 1;
            self.seen.filters = self.seen.filters.max(copy.filter_count());
        }
    }

    /// Spoils an answer.
    fn spoil(&mut self, answer: &mut Answer) {
        let kind = self.random.below(3);
        match (kind, &mut *answer) {
            (0, Answer::News { hashes, .. }) => {
                hashes.pop();
            }
            (1, Answer::News { items, .. }) => *items += 1,
            (0, Answer::Chunk { bytes, .. }) => {
                bytes.pop();
            }
            (1, Answer::Chunk { cursor, .. }) => *cursor += 1,
            (2, Answer::News { .. }) => {
                *answer = Answer::Chunk {
                    cursor: 1,
                    bytes: vec![1, 2, 3],
                    id: b"0000000000000001".to_vec(),
                };
            }
            (2, Answer::Chunk { .. }) => {
                *answer = Answer::News {
                    cursor: b"0000000000000001-0".to_vec(),
                    items: 0,
                    hashes: Vec::new(),
                };
            }
            _ => {}
        }
    }

    fn step(&mut self) {
        match self.follower.next(self.now) {
            Step::Wait(until) => {
                self.happen();
                self.check();
                let mut wait = until.saturating_sub(self.now);
                if self.random.one_in(2) {
                    wait = part(wait, &mut self.random);
                }
                if self.options.refresh.is_none() {
                    wait = wait.min(Duration::from_secs(5));
                }
                self.go_to(self.now + wait);
                self.check();
            }
            Step::Send(request) => {
                let latency = Duration::from_micros(1 + self.random.below(3000) as u64);
                self.go_to(self.now + latency);
                self.happen();
                let is_lost = !self.is_quiet && self.random.one_in(80);
                let filters = |servers: &mut Servers| {
                    let object = servers.read().object();
                    object.map_or(0, Object::filter_count)
                };
                let mut answer = self.servers.read().reply(&request);
                if matches!(request, Request::Chunk { cursor: 0, .. }) {
                    self.fetched_filters = filters(&mut self.servers);
                }
                self.happen();
                self.check();
                if is_lost {
                    answer = Answer::Lost;
                    let timeout = part(self.options.max_age, &mut self.random);
                    self.go_to(self.now + timeout);
                } else if !self.is_quiet && self.random.one_in(300) {
                    self.spoil(&mut answer);
                }
                self.go_to(self.now + latency);
                let fetches = self.follower.stats().fetches;
                let random = fraction(&mut self.random);
                self.follower.take(answer.as_reply(), self.now, random);
                if self.follower.stats().fetches > fetches
                    && filters(&mut self.servers) > self.fetched_filters
                {
                    self.seen.grown_while_fetched += 1;
                }
                self.happen();
                self.check();
            }
        }
    }

    /// Nothing is written any more, and nothing goes wrong: the copy becomes equal to the filter.
    fn settle(&mut self) {
        self.is_quiet = true;
        let object = self.servers.primary.object();
        if !object.is_some_and(Object::is_plain) {
            self.change(&Change::Make(Make::growing(Maker::Own, 10, 1)));
            let items = self.items();
            self.change(&Change::Add(items));
        }
        let server = self.servers.read();
        (server.permits, server.feed_bytes) = (true, 1 << 20);
        let quiet = self.now + self.options.lag;
        let end = quiet + Duration::from_secs(200);
        let is_settled = |life: &mut Self| {
            let has_feed = life.servers.primary.has_feeds;
            let cursor = life.servers.read().cursor();
            let (read_at, now) = (life.follower.age(life.now), life.now);
            let Some((_, at)) = life.follower.copy() else {
                return false;
            };
            let is_at_end = !has_feed || at == cursor.as_deref().map(str::as_bytes);
            is_at_end && read_at.is_some_and(|age| now > quiet + age) && life.follower.is_fresh(now)
        };
        while !is_settled(self) {
            assert!(self.now < end, "it does not catch up: {:?}", self.follower);
            self.step();
        }
        is_equal(&self.follower, self.servers.read());
        is_equal(&self.follower, &self.servers.primary);
        for index in 0..ITEMS {
            let item = self.history.item(index);
            let expected = self.servers.primary.contains(item);
            let answer = self.follower.contains(item, self.now);
            // Beside a replica, only the server knows that an item of the program's is lost.
            if answer.is_some() || expected || self.options.lag.is_zero() {
                let is_answered = expected || !self.options.confirm;
                assert_eq!(answer, is_answered.then_some(expected));
            }
        }
        let stats = self.follower.stats();
        self.seen.resyncs += stats.resyncs;
        self.seen.fetches += stats.fetches;
    }
}

fn lives(count: u64, steps: usize, has_feeds: bool, options: impl Fn(&mut Rng) -> Options) -> Seen {
    let mut seen = Seen::default();
    for seed in 1..=count {
        let options = options(&mut Rng::new(seed));
        let mut life = Life::new(seed, options, has_feeds);
        life.seen = seen;
        for _ in 0..steps {
            life.step();
        }
        life.settle();
        seen = life.seen;
    }
    seen
}

fn polling(random: &mut Rng) -> Options {
    Options {
        every: Duration::from_millis(*random.pick(&[10, 50, 300])),
        max_age: Duration::from_millis(*random.pick(&[100, 1000, 5000])),
        ..Options::default()
    }
}

#[test]
fn a_trusting_copy_is_never_older_than_it_may_be() {
    let seen = lives(150, 4000, true, polling);
    assert!(seen.claimed > 100_000, "{seen:?}");
    assert!(seen.denied > 100_000, "{seen:?}");
    assert!(seen.own > 10_000, "{seen:?}");
    assert!(seen.compared > 10_000, "{seen:?}");
    assert!(seen.filters > 5, "{seen:?}");
    assert!(seen.grown_while_fetched > 20, "{seen:?}");
    assert!(seen.resyncs > 1000, "{seen:?}");
    assert!(seen.missing > 1000, "{seen:?}");
    assert!(seen.refused > 1000, "{seen:?}");
}

#[test]
fn a_confirming_copy_only_claims() {
    let seen = lives(60, 3000, true, |random| Options {
        confirm: true,
        ..polling(random)
    });
    assert_eq!(seen.denied, 0);
    assert!(seen.claimed > 50_000, "{seen:?}");
    assert!(seen.own > 5_000, "{seen:?}");
}

#[test]
fn a_copy_of_a_replica_claims_what_the_program_added() {
    let seen = lives(100, 3000, true, |random| Options {
        lag: Duration::from_millis(*random.pick(&[20, 400, 2000])),
        ..polling(random)
    });
    assert!(seen.own > 10_000, "{seen:?}");
    assert!(seen.denied > 10_000, "{seen:?}");
    assert!(seen.compared > 1000, "{seen:?}");
}

#[test]
fn a_copy_without_a_feed_is_fetched_anew() {
    for lag in [0, 300] {
        let seen = lives(60, 3000, false, |random| Options {
            refresh: Some(Duration::from_millis(*random.pick(&[100, 700, 3000]))),
            lag: Duration::from_millis(lag),
            ..polling(random)
        });
        assert!(seen.own > 1000, "{seen:?}");
        assert!(seen.denied > 10_000, "{seen:?}");
        assert!(seen.fetches > 1000, "{seen:?}");
    }
}

/// A server that lacks the command and is not to be fetched from anew and anew is refused.
#[test]
fn a_server_without_feeds_is_refused() {
    let mut life = Life::new(5, Options::default(), false);
    for _ in 0..200 {
        life.step();
    }
    assert_eq!(life.follower.state(life.now), State::Refused);
    assert_eq!(life.seen.claimed + life.seen.denied, 0);
}
