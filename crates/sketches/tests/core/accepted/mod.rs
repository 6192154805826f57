//! Whatever is accepted can be stored and loaded, whatever is done to it in between: objects of every kind, their
//! stored forms with fields changed, and the commands of clients on whatever loads as an object.
//!
//! Fields are changed by their type (a number, a double or a filter) and never by their meaning, so this module does
//! not know the layout of a form. Most changed forms are refused; a try costs little.
//!
//! A story is all that follows from one seed. `SOAK_SECONDS` sets how long each test plays stories; `SOAK_SEED` plays
//! a single one.

mod changes;

use std::env;
use std::time::{Duration, Instant};

use valkeybloom_sketches::Seed;
use valkeybloom_sketches::bloom::chunks::{self, Partial, Value};
use valkeybloom_sketches::bloom::{
    Added, Dialect, Growth, Limits, Object, Params, Refusal, Shape, Tightening, Time, dump, rdb,
};

use crate::redisbloom::draft::{Draft, Link, drafts};
use crate::support::{
    Field, Rng, Stream, bitmaps, counting, fields_of, fraction, header_of, object_of, read_value,
    said_of, through_every_form, windowed,
};
use changes::{EDGES, change_bytes, change_fields, numbers, other_number};

/// A stored form.
#[derive(Clone, Debug)]
enum Stored {
    Fields(Dialect, Stream),
    Dump(Vec<u8>),
    /// A header, and the cells to come.
    Pieces(Vec<u8>, Vec<u8>),
}

impl Stored {
    /// Returns a form of an object, with some of it changed.
    fn changed(rng: &mut Rng, object: &Object) -> Self {
        let mut fields: Vec<Field> = fields_of(object).0.into();
        match (rng.below(3), dump::encode(object)) {
            (0, Some(mut dump)) => {
                change_bytes(rng, &mut dump, &fields);
                Self::Dump(dump)
            }
            (1, _) => {
                let mut header = header_of(object);
                change_bytes(rng, &mut header, &fields);
                Self::Pieces(header, bitmaps(object))
            }
            _ => {
                change_fields(rng, &mut fields);
                Self::Fields(Dialect::of(object), Stream(fields.into()))
            }
        }
    }

    const fn form(&self) -> usize {
        match self {
            Self::Fields(..) => 0,
            Self::Pieces(..) => 1,
            Self::Dump(_) => 2,
        }
    }

    /// Returns the object, if it is accepted as one.
    fn load(&self, rng: &mut Rng) -> Option<Object> {
        let value = match self {
            Self::Fields(dialect, stream) => {
                let mut stream = stream.clone();
                let value = rdb::read(*dialect, dialect.rdb_version(), &mut stream);
                // A server refuses what is not read to its end.
                value.ok().filter(|_| stream == Stream::default())
            }
            Self::Dump(dump) => dump::decode(dump).ok().map(Value::Complete),
            Self::Pieces(header, _) => chunks::begin(header, Limits::NONE).ok(),
        };
        match (value?, self) {
            (Value::Complete(object), _) => Some(object),
            (Value::Partial(partial), Self::Pieces(_, cells)) => filled(*partial, cells, rng),
            (Value::Partial(partial), _) => {
                read_again(&partial);
                None
            }
        }
    }
}

/// Stores a partly loaded object and loads it again.
fn read_again(partial: &Partial) -> Partial {
    let dialect = partial.dialect();
    let mut written = Stream::default();
    partial.write_rdb(&mut written);
    let read = read_value(dialect, dialect.rdb_version(), written.clone());
    let Ok(Value::Partial(read)) = read else {
        panic!("partly loaded, and not read again: {read:?}");
    };
    let mut again = Stream::default();
    read.write_rdb(&mut again);
    assert!(again == written, "other fields of what is partly loaded");
    *read
}

/// Returns the object that a header begins, unless it claims more than is worth filling.
fn filled(mut partial: Partial, cells: &[u8], rng: &mut Rng) -> Option<Object> {
    let mut loaded = 0;
    for _ in 0..300 {
        if rng.below(20) == 0 {
            partial = read_again(&partial);
        }
        let mut length = 1 << rng.below(9);
        loop {
            let chunk = cells.iter().copied().cycle().skip(loaded);
            let chunk: Vec<u8> = chunk.take(length).collect();
            match partial.load((loaded + length + 1) as u64, &chunk) {
                Ok(None) => break loaded += length,
                Ok(Some(object)) => return Some(object),
                Err(error) => {
                    assert!(length > 1, "a header is accepted, and no byte: {error}");
                    length /= 2;
                }
            }
        }
    }
    read_again(&partial);
    None
}

/// An operation of a client.
#[derive(Clone, Debug)]
enum Command {
    Add {
        items: Vec<Vec<u8>>,
        time: Time,
        id: Option<u64>,
        limits: Limits,
    },
    Remove {
        item: Vec<u8>,
        id: Option<u64>,
    },
    Tidy(u64),
}

/// The outcome of an operation.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    added: Vec<Result<Added, Refusal>>,
    removed: bool,
    tidied: bool,
}

impl Command {
    /// Does it as the server does.
    fn run(&self, object: &mut Object) -> Outcome {
        let mut outcome = Outcome::default();
        match self {
            Self::Add {
                items,
                time,
                id,
                limits,
            } => {
                outcome.tidied = object.tidy(time.now_ms);
                valid(object);
                if let [item] = &items[..] {
                    outcome.added = vec![object.add(item, *time, *id, || *limits)];
                } else {
                    let items = items.iter().map(Vec::as_slice);
                    let added = &mut outcome.added;
                    object.add_each(items, *time, *id, || *limits, |one| added.push(one));
                }
            }
            Self::Remove { item, id } => outcome.removed = object.remove(item, *id),
            Self::Tidy(now_ms) => outcome.tidied = object.tidy(*now_ms),
        }
        valid(object);
        outcome
    }
}

#[track_caller]
fn valid(object: &Object) {
    assert_eq!(object.check(), Ok(()));
}

/// Returns all that an object answers at a time.
fn answers(object: &Object, now_ms: u64) -> impl PartialEq + std::fmt::Debug {
    let now = || now_ms;
    let items: Vec<[u8; 1]> = (0..40).map(|item| [item]).collect();
    let mut claims = Vec::new();
    let each = items.iter().map(<[u8; 1]>::as_slice);
    object.contains_each(each, now, |claim| claims.push(claim));
    let counts: Vec<u64> = items.iter().map(|item| object.count(item)).collect();
    // An estimate takes as long as a thousand answers.
    let estimate = object
        .items(now)
        .is_multiple_of(16)
        .then(|| object.estimated_rate(now).to_bits());
    (
        (claims, counts),
        (object.items(now), object.capacity(now)),
        estimate,
        (object.filter_count(now), object.live_periods(now)),
    )
}

/// A step of a story, printed if the story fails.
#[derive(Debug)]
#[expect(dead_code, reason = "it is read by who reads what is printed")]
enum Step {
    Made(Stored),
    Offered(Stored),
    Did(usize, Command),
    Merged(usize, usize, Limits),
    Stored(usize),
}

/// Counts of events, so that no test passes without trying anything.
#[derive(Debug, Default)]
struct Tally {
    /// The objects accepted as fields, in pieces, and as a dump.
    accepted: [u32; 3],
    new: u32,
    present: u32,
    refused: u32,
    removed: u32,
    tidied: u32,
    merged: u32,
    stored: u32,
}

struct Story<'t> {
    seed: u64,
    rng: Rng,
    /// Objects that hash items in one way.
    objects: Vec<Object>,
    now_ms: u64,
    id: u64,
    steps: Vec<Step>,
    tally: &'t mut Tally,
}

impl Drop for Story<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SOAK_SEED={}", self.seed);
            for step in &self.steps {
                eprintln!("{step:?}");
            }
        }
    }
}

impl Story<'_> {
    /// Returns the object for the next step: often the one that came last.
    fn pick(&mut self) -> usize {
        let last = self.objects.len() - 1;
        if self.rng.below(2) == 0 {
            last
        } else {
            self.rng.below(last + 1)
        }
    }

    fn keep(&mut self, object: Object) {
        valid(&object);
        if self.objects.len() == 4 {
            let gone = self.rng.below(4);
            self.objects.remove(gone);
        }
        self.objects.push(object);
    }

    /// Limits that keep objects small; what exceeds the memory of all machines is not what this is about.
    fn limits(&mut self) -> Limits {
        let rng = &mut self.rng;
        Limits {
            filter_bytes: *rng.pick(&[4096, 4096, 4096, 200]),
            object_bytes: *rng.pick(&[u64::MAX, u64::MAX, 1 << 13, 1 << 10]),
            saturate: rng.below(2) == 0,
        }
    }

    fn item(&mut self) -> Vec<u8> {
        match self.rng.below(4) {
            0 => self.rng.bytes(8),
            _ => vec![self.rng.next().to_le_bytes()[0] % 40],
        }
    }

    /// Returns the time of the next command: later or earlier by some periods, or by as much as there is.
    fn pass_time(&mut self, object: usize, among: &[u64]) -> u64 {
        let window = self.objects[object].shape().window();
        let period_ms = window.map_or(1, valkeybloom_sketches::bloom::Window::period_ms);
        let rng = &mut self.rng;
        let some_ms = (rng.next() % 8).saturating_mul(period_ms / 2);
        self.now_ms = match rng.below(12) {
            0..=2 => self.now_ms,
            3..=5 => self.now_ms.saturating_add(some_ms),
            6 => self.now_ms.saturating_sub(some_ms),
            // In a live period of the object, or at its end.
            7..=9 => {
                let start = rng.pick(among).saturating_mul(period_ms);
                start.saturating_add(rng.next() % 3).saturating_sub(1)
            }
            10 => other_number(rng, self.now_ms, among),
            _ => *rng.pick(&EDGES),
        };
        self.now_ms
    }

    /// Returns a command for one of the objects. Its numbers are mostly the object's own, or next to them.
    fn command(&mut self, object: usize) -> Command {
        let among = numbers(&Vec::from(fields_of(&self.objects[object]).0));
        let now_ms = self.pass_time(object, &among);
        let id = (self.rng.below(4) > 0).then(|| {
            let one = *self.rng.pick(&among);
            match self.rng.below(6) {
                // Rising ids, as clients usually send them.
                0..=2 => {
                    self.id += self.rng.next() % 4;
                    self.id
                }
                3 | 4 => one,
                _ => other_number(&mut self.rng, one, &among),
            }
        });
        match self.rng.below(8) {
            0 => Command::Tidy(now_ms),
            1 | 2 if self.objects[object].shape().is_counting() => Command::Remove {
                item: self.item(),
                id,
            },
            _ => {
                let ttl_ms = (self.rng.below(3) == 0)
                    .then(|| other_number(&mut self.rng, now_ms, &among).max(1));
                let count = match self.rng.below(3) {
                    0 => self.rng.below(80),
                    _ => 1,
                };
                Command::Add {
                    items: (0..count).map(|_| self.item()).collect(),
                    time: Time { now_ms, ttl_ms },
                    id,
                    limits: self.limits(),
                }
            }
        }
    }

    fn run(&mut self, object: usize, command: &Command) -> Outcome {
        self.steps.push(Step::Did(object, command.clone()));
        let outcome = command.run(&mut self.objects[object]);
        for added in &outcome.added {
            *match added {
                Ok(Added::New) => &mut self.tally.new,
                Ok(Added::Present | Added::Again) => &mut self.tally.present,
                Err(_) => &mut self.tally.refused,
            } += 1;
        }
        self.tally.removed += u32::from(outcome.removed);
        self.tally.tidied += u32::from(outcome.tidied);
        outcome
    }

    /// Offers changed forms of an object until one is accepted.
    fn offer(&mut self) {
        let object = self.pick();
        for _ in 0..12 {
            let stored = Stored::changed(&mut self.rng, &self.objects[object]);
            self.steps.push(Step::Offered(stored.clone()));
            if let Some(accepted) = stored.load(&mut self.rng) {
                self.tally.accepted[stored.form()] += 1;
                return self.keep(accepted);
            }
            self.steps.pop();
        }
    }

    /// Stores an object in all forms and loads it again. The results must be equal, now and after further operations.
    fn store(&mut self, object: usize) {
        self.steps.push(Step::Stored(object));
        self.tally.stored += 1;
        let mut copy = through_every_form(&self.objects[object]);
        let among = numbers(&Vec::from(fields_of(&copy).0));
        for now_ms in [self.now_ms, 0, u64::MAX, self.pass_time(object, &among)] {
            let answered = answers(&self.objects[object], now_ms);
            assert_eq!(answers(&copy, now_ms), answered, "at {now_ms}");
        }
        for _ in 0..self.rng.below(3) {
            let mut command = self.command(object);
            if let Command::Add { limits, .. } = &mut command {
                // A copy may take a few bytes less.
                limits.object_bytes = u64::MAX;
            }
            let outcome = self.run(object, &command);
            assert_eq!(command.run(&mut copy), outcome);
        }
        assert!(
            said_of(&copy) == said_of(&self.objects[object]),
            "other bytes"
        );
        if self.rng.below(2) == 0 {
            self.objects[object] = copy;
        }
    }

    fn merge(&mut self) {
        let (one, other, limits) = (self.pick(), self.pick(), self.limits());
        self.steps.push(Step::Merged(one, other, limits));
        let sources = [&self.objects[one], &self.objects[other]];
        if let Ok(merged) = Object::merged(&sources, limits) {
            self.tally.merged += 1;
            self.keep(merged);
        }
    }
}

/// An empty object of a kind, or one as another program wrote it.
type Make = fn(&mut Rng) -> Object;

/// Plays the story of a seed.
fn play(seed: u64, make: Make, tally: &mut Tally) {
    let mut rng = Rng::new(seed);
    let object = make(&mut rng);
    let dialect = Dialect::of(&object);
    let first = Stored::Fields(dialect, fields_of(&object));
    let mut story = Story {
        seed,
        rng,
        objects: vec![object],
        now_ms: 0,
        id: 0,
        steps: vec![Step::Made(first)],
        tally,
    };
    for turn in 0..40 {
        let object = story.pick();
        match story.rng.below(8) {
            0 | 1 if turn > 4 => story.offer(),
            2 if turn > 4 => story.merge(),
            3 => story.store(object),
            _ => {
                let command = story.command(object);
                story.run(object, &command);
            }
        }
    }
    for object in 0..story.objects.len() {
        story.store(object);
    }
}

/// Plays `stories` stories, or more if there is time.
fn play_all(stories: u64, make: Make) {
    let number = |name| {
        let text = env::var(name).ok()?;
        let number = text.parse();
        Some(number.unwrap_or_else(|_| panic!("{name} is a number")))
    };
    let mut tally = Tally::default();
    if let Some(seed) = number("SOAK_SEED") {
        return play(seed, make, &mut tally);
    }
    let end = number("SOAK_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    for seed in 0.. {
        if seed >= stories && end.is_none_or(|end| Instant::now() >= end) {
            break;
        }
        play(seed, make, &mut tally);
    }
    let Tally {
        accepted,
        new,
        present,
        refused,
        ..
    } = tally;
    let kind = make(&mut Rng::new(0));
    let dumps = Dialect::of(&kind).has_dump();
    let enough = [true, true, dumps].map(|has_form| if has_form { stories } else { 0 });
    assert!(
        (0..3).all(|form| u64::from(accepted[form]) >= enough[form]),
        "{tally:?}"
    );
    let every = [new, present, refused, tally.merged, tally.stored];
    assert!(every.iter().all(|count| *count > 0), "{tally:?}");
    assert_eq!(tally.removed > 0, kind.shape().is_counting(), "{tally:?}");
    assert_eq!(
        tally.tidied > 0,
        kind.shape().window().is_some(),
        "{tally:?}"
    );
}

/// The number of stories for each kind of objects.
const STORIES: u64 = 600;

fn small_params(rng: &mut Rng) -> Params {
    let rates = [0.3, 0.1, 0.01, 0.5, 0.9, 1.0 - f64::EPSILON, 1e-6];
    Params {
        capacity: 1 + rng.next() % if rng.below(2) == 0 { 3 } else { 20 },
        error_rate: fraction(*rng.pick(&rates)),
        tightening: Tightening::from_stored(*rng.pick(&[
            0.5,
            0.5,
            0.5_f64.next_up(),
            0.9,
            0.1,
            1e-9,
        ]))
        .unwrap(),
        growth: Growth::from_expansion(*rng.pick(&[0, 1, 1, 2, 2, 3, 7, u32::MAX])),
    }
}

fn seed(rng: &mut Rng) -> Seed {
    match rng.below(2) {
        0 => Seed::FIXED,
        _ => rng.seed(),
    }
}

#[test]
fn plain_objects() {
    play_all(STORIES, |rng| {
        let shape = Shape::plain(small_params(rng));
        object_of(&shape, seed(rng))
    });
}

#[test]
fn objects_with_a_window() {
    play_all(STORIES, |rng| {
        let periods = *rng.pick(&[1, 2, 3, 5, 24]);
        let period_ms = *rng.pick(&[1, 50, 1000, 1 << 40]);
        let shape = windowed(small_params(rng), period_ms, periods);
        object_of(&shape, seed(rng))
    });
}

#[test]
fn objects_with_counters() {
    play_all(STORIES, |rng| {
        let shape = counting(small_params(rng));
        object_of(&shape, seed(rng))
    });
}

#[test]
fn objects_of_redisbloom() {
    play_all(STORIES, |rng| {
        if rng.below(3) == 0 {
            return rng.pick(&drafts()).read().unwrap();
        }
        let rounded = rng.below(2) == 0;
        let link = Link {
            hashes: 1 + rng.next() % 9,
            ..Link::new(1 + rng.next() % 20, 0.1, 64, if rounded { 5 } else { 0 })
        };
        let draft = Draft {
            version: 4,
            items: 0,
            options: *rng.pick(&[0, 1, 4, 5, 8, 13]),
            growth: *rng.pick(&[0, 1, 2, 3]),
            links: vec![link],
        };
        draft.read().unwrap()
    });
}
