//! The replies that are due. Words are read by the module's parser, and keys hold the library's objects: both are held
//! against other implementations where they are tested. So what can fail here is what is between them and a client:
//! keys, limits, the order of refusals, and replies in both protocols. The items that must be found are a set.

use std::collections::{HashMap, HashSet};
use std::mem::size_of;
use std::time::{SystemTime, UNIX_EPOCH};

use valkeybloom_protocol::bloom::{
    Defaults, InfoField, InfoFields, InfoRequest, Insert, Maker, Read, Reserve, kind_name,
};
use valkeybloom_protocol::error::{Error, Field};
use valkeybloom_protocol::numerals::{double_text, integer};
use valkeybloom_protocol::words::Origin;
use valkeybloom_sketches::bloom::{
    Added, Growth, Kind, Limits, New, Object, Params, Refusal, Tightening, Time, chunks, dump,
};
use valkeybloom_sketches::{DecodeError, Fraction, Seed};

use super::{FILTER_LIMIT, VALUE_LIMIT};
use crate::harness::{Reply, bulk, int, ok, simple};

const LIMITS: Limits = Limits {
    filter_bytes: FILTER_LIMIT as u64,
    object_bytes: VALUE_LIMIT as u64 - BESIDE_OBJECT,
    ..Limits::DEFAULT
};

/// The bytes of a value besides its object: a word for the allocator's share.
const BESIDE_OBJECT: u64 =
    (size_of::<chunks::Value>() + size_of::<u64>()) as u64 - Object::BASE_BYTES;

/// The commands, with the fewest and the most words they take.
pub const ARITY: [(&str, usize, usize); 20] = [
    ("bf.add", 3, 3),
    ("bf.madd", 3, usize::MAX),
    ("bf.exists", 3, 3),
    ("bf.mexists", 3, usize::MAX),
    ("bf.card", 2, 2),
    ("bf.reserve", 4, usize::MAX),
    ("bf.insert", 2, usize::MAX),
    ("bf.info", 2, 3),
    ("bf.load", 3, 4),
    ("bf.scandump", 3, 3),
    ("bf.loadchunk", 4, 4),
    ("bf.read", 3, usize::MAX),
    ("bf.debug", 2, 2),
    ("bf.del", 3, 3),
    ("bf.mdel", 3, usize::MAX),
    ("bf.count", 3, 3),
    ("bf.missing", 3, usize::MAX),
    ("bf.merge", 3, usize::MAX),
    ("del", 2, 2),
    ("copy", 3, 3),
];

/// The contents of a key.
enum Content {
    /// A value of another type.
    Other,
    Ours {
        value: chunks::Value,
        /// Items that it must find.
        known: HashSet<Vec<u8>>,
    },
}

/// Items to add, and what a new object for them is.
struct Addition<'w> {
    create: Result<New, Error>,
    seed: Option<Seed>,
    ttl_ms: Option<u64>,
    items: &'w [&'w [u8]],
}

#[derive(Default)]
pub struct Model {
    keys: HashMap<Vec<u8>, Content>,
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.expect("after 1970").as_millis()).expect("not that late")
}

pub fn defaults() -> Defaults {
    Defaults {
        params: Params {
            capacity: 100,
            error_rate: Fraction::new(0.01).expect("a rate"),
            tightening: Tightening::HALF,
            growth: Growth::from_expansion(2),
        },
        maker: Maker::Own,
    }
}

fn count(number: u64) -> Reply {
    int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn truth(value: bool, resp3: bool) -> Reply {
    if resp3 {
        Reply::Bool(value)
    } else {
        int(value.into())
    }
}

fn rate(value: f64, resp3: bool) -> Reply {
    if resp3 {
        Reply::Double(value)
    } else {
        bulk(double_text(value))
    }
}

/// Returns the end of a time to live, or the refusal of one that no clock reaches.
fn expiry(ttl_ms: u64) -> Result<(), Error> {
    let end = now_ms().checked_add(ttl_ms).map(i64::try_from);
    end.and_then(Result::ok).ok_or(Error::Bad(Field::TTL))?;
    Ok(())
}

/// The errors for too small a rate and too much memory on the way to SCALETO.
const GROWTH_ERRORS: [Error; 2] = [Error::GROWTH_TO_RATE, Error::GROWTH_TO_MEMORY];

fn require_reach(new: &New, wanted: u64, [rate, memory]: [Error; 2]) -> Result<(), Error> {
    match new.reach(LIMITS) {
        (reached, _) if reached >= wanted => Ok(()),
        (_, Some(Refusal::RateTooSmall)) => Err(rate),
        _ => Err(memory),
    }
}

fn require_counters(object: &Object) -> Result<(), Error> {
    if object.shape().is_counting() {
        Ok(())
    } else {
        Err(Error::NO_COUNTERS)
    }
}

impl Model {
    pub fn has_other(&mut self, key: &str) {
        self.keys.insert(key.as_bytes().to_vec(), Content::Other);
    }

    /// Returns the items that each object must find.
    pub fn known(&self) -> impl Iterator<Item = (&Vec<u8>, &HashSet<Vec<u8>>)> {
        self.keys.iter().filter_map(|(key, content)| match content {
            Content::Ours { known, .. } if !known.is_empty() => Some((key, known)),
            _ => None,
        })
    }

    /// Runs a command. Returns the reply that is due.
    pub fn run(&mut self, words: &[Vec<u8>], resp3: bool) -> Reply {
        let name = String::from_utf8_lossy(&words[0]).to_lowercase();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match self.reply(&name, &words, resp3) {
            Ok(reply) => reply,
            Err(Error::Arity) => Reply::Error(format!(
                "ERR wrong number of arguments for '{name}' command"
            )),
            Err(error) => Reply::Error(error.to_string()),
        }
    }

    fn reply(&mut self, name: &str, words: &[&[u8]], resp3: bool) -> Result<Reply, Error> {
        let arity = ARITY.iter().find(|(known, ..)| *known == name);
        let (_, least, most) = arity.expect("a command of the model's");
        if !(*least..=*most).contains(&words.len()) {
            return Err(Error::Arity);
        }
        let (key, items) = (words[1], &words[2..]);
        let yes = |value| truth(value, resp3);
        Ok(match name {
            "bf.add" => match self.add(key, &plain(items))?[0] {
                Ok(added) => yes(added == Added::New),
                Err(refusal) => return Err(refusal.into()),
            },
            "bf.madd" => outcomes(&self.add(key, &plain(items))?, resp3),
            "bf.insert" => outcomes(&self.insert(words)?, resp3),
            "bf.reserve" => self.reserve(words)?,
            "bf.exists" => {
                let object = self.object(key)?;
                yes(object.is_some_and(|object| object.contains(items[0], now_ms)))
            }
            "bf.mexists" => {
                let object = self.object(key)?;
                let found = |item: &&[u8]| object.is_some_and(|it| it.contains(item, now_ms));
                Reply::Array(items.iter().map(|item| yes(found(item))).collect())
            }
            "bf.missing" => {
                let object = self.object(key)?;
                let found = |item: &&[u8]| object.is_some_and(|it| it.contains(item, now_ms));
                let missing: HashSet<_> = items.iter().filter(|item| !found(item)).collect();
                count(missing.len() as u64)
            }
            "bf.card" => count(self.object(key)?.map_or(0, |object| object.items(now_ms))),
            "bf.count" => match self.object(key)? {
                None => int(0),
                Some(object) => {
                    require_counters(object)?;
                    count(object.count(items[0]))
                }
            },
            "bf.del" => yes(self.remove(key, items)?[0]),
            "bf.mdel" => {
                let removed = self.remove(key, items)?;
                Reply::Array(removed.into_iter().map(yes).collect())
            }
            "bf.merge" => self.merge(&words[1..])?,
            "bf.info" => {
                let object = self.object(key)?.ok_or(Error::NOT_FOUND)?;
                let request = InfoRequest::parse(words, Error::UNKNOWN_FIELD)?;
                info(object, request, resp3)?
            }
            "bf.debug" => debug(self.object(key)?.ok_or(Error::NOT_FOUND)?),
            "bf.scandump" => {
                let object = self.object(key)?.ok_or(Error::NOT_FOUND)?;
                let cursor = integer(items[0]).ok_or(Error::Bad(Field::CURSOR))?;
                let cursor = u64::try_from(cursor).unwrap_or(u64::MAX);
                let (next, piece) = chunks::piece(object, cursor).expect("there is memory");
                Reply::Array(vec![count(next), Reply::Bulk(piece.to_vec())])
            }
            "bf.read" => {
                let request = Read::parse(words)?;
                let object = self.object(key)?.ok_or(Error::NOT_FOUND)?;
                if !object.is_plain() {
                    return Err(Error::NO_FEED);
                }
                if request.from.is_some() {
                    return Err(Error::FEED_UNKNOWN);
                }
                Reply::Array(vec![bulk(""), count(object.items(now_ms)), bulk("")])
            }
            "bf.load" => self.load(words)?,
            "bf.loadchunk" => self.load_chunk(words)?,
            "del" => int(self.keys.remove(key).is_some().into()),
            "copy" => self.copy(key, items[0]),
            _ => unreachable!("a command without a reply"),
        })
    }

    fn held(&mut self, key: &[u8]) -> Result<Option<&mut chunks::Value>, Error> {
        match self.keys.get_mut(key) {
            None => Ok(None),
            Some(Content::Other) => Err(Error::WRONG_TYPE),
            Some(Content::Ours { value, .. }) => Ok(Some(value)),
        }
    }

    fn object(&self, key: &[u8]) -> Result<Option<&Object>, Error> {
        match self.keys.get(key) {
            None => Ok(None),
            Some(Content::Other) => Err(Error::WRONG_TYPE),
            Some(Content::Ours { value, .. }) => match value {
                chunks::Value::Complete(object) => Ok(Some(object)),
                chunks::Value::Partial(_) => Err(Error::STILL_LOADING),
            },
        }
    }

    fn object_mut(&mut self, key: &[u8]) -> Result<Option<&mut Object>, Error> {
        match self.held(key)? {
            None => Ok(None),
            Some(chunks::Value::Complete(object)) => Ok(Some(object)),
            Some(chunks::Value::Partial(_)) => Err(Error::STILL_LOADING),
        }
    }

    fn store(&mut self, key: &[u8], value: chunks::Value, known: HashSet<Vec<u8>>) {
        self.keys
            .insert(key.to_vec(), Content::Ours { value, known });
    }

    fn known_mut(&mut self, key: &[u8]) -> &mut HashSet<Vec<u8>> {
        match self.keys.get_mut(key) {
            Some(Content::Ours { known, .. }) => known,
            _ => panic!("no object at {}", key.escape_ascii()),
        }
    }

    fn add(
        &mut self,
        key: &[u8],
        addition: &Addition,
    ) -> Result<Vec<Result<Added, Refusal>>, Error> {
        let ttl_ms = addition.ttl_ms;
        let time = Time {
            now_ms: now_ms(),
            ttl_ms,
        };
        let shape = match self.object(key)? {
            Some(object) => object.shape(),
            None => addition.create?.shape(),
        };
        match shape.kind {
            Kind::Windowed(window) if ttl_ms > Some(window.ms()) => return Err(Error::LONG_TTL),
            Kind::Windowed(_) => {}
            _ if ttl_ms.is_some() => return Err(Error::NO_WINDOW),
            _ => {}
        }
        if let Some(object) = self.object_mut(key)? {
            object.tidy(time.now_ms);
        } else {
            let seed = addition.seed.unwrap_or(Seed::FIXED);
            let object = Object::make(&addition.create?, seed, LIMITS)?;
            self.store(key, chunks::Value::Complete(object), HashSet::new());
        }
        let object = self.object_mut(key)?.expect("it was made");
        let (mut outcomes, items) = (Vec::new(), addition.items);
        let push = |outcome| outcomes.push(outcome);
        object.add_each(items.iter().copied(), time, || LIMITS, push);
        let added = items
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| outcome.is_ok());
        let added: Vec<_> = added.map(|(item, _)| item.to_vec()).collect();
        self.known_mut(key).extend(added);
        Ok(outcomes)
    }

    fn insert(&mut self, words: &[&[u8]]) -> Result<Vec<Result<Added, Refusal>>, Error> {
        let request = Insert::parse(words, defaults(), Origin::Client)?;
        if let (Some(wanted), Some(Ok(new))) = (request.scale_to, &request.create) {
            require_reach(new, wanted, [Error::SCALE_TO_RATE, Error::SCALE_TO_MEMORY])?;
        }
        if let (Some(wanted), Some(Ok(new))) = (request.grow_to, &request.create) {
            require_reach(new, wanted, GROWTH_ERRORS)?;
        }
        let moment = request.moment;
        if moment.at_ms.is_some() || moment.saturate {
            return Err(Error::UNKNOWN_OPTION);
        }
        let addition = Addition {
            create: request.create.unwrap_or(Err(Error::NOT_FOUND)),
            seed: request.seed,
            ttl_ms: moment.ttl_ms,
            items: &words[request.items],
        };
        self.add(words[1], &addition)
    }

    fn reserve(&mut self, words: &[&[u8]]) -> Result<Reply, Error> {
        let request = Reserve::parse(words, defaults(), Origin::Client)?;
        if let (Some(wanted), Ok(new)) = (request.grow_to, &request.create) {
            require_reach(new, wanted, GROWTH_ERRORS)?;
        }
        if self.object(words[1])?.is_some() {
            return if request.unless_exists {
                Ok(Reply::Nil)
            } else {
                Err(Error::EXISTS)
            };
        }
        let new = request.create?;
        request.ttl_ms.map(expiry).transpose()?;
        let addition = Addition {
            create: Ok(new),
            ..plain(&[])
        };
        self.add(words[1], &addition)?;
        Ok(ok())
    }

    fn remove(&mut self, key: &[u8], items: &[&[u8]]) -> Result<Vec<bool>, Error> {
        let Some(object) = self.object_mut(key)? else {
            return Ok(vec![false; items.len()]);
        };
        require_counters(object)?;
        let removed: Vec<bool> = items.iter().map(|item| object.remove(item)).collect();
        // Other items may have the same fingerprint.
        if removed.contains(&true) {
            self.known_mut(key).clear();
        }
        Ok(removed)
    }

    fn merge(&mut self, keys: &[&[u8]]) -> Result<Reply, Error> {
        let existed = self.object(keys[0])?.is_some();
        let mut names = HashSet::from([keys[0]]);
        let others: Vec<&[u8]> = keys[1..]
            .iter()
            .copied()
            .filter(|k| names.insert(k))
            .collect();
        let mut sources: Vec<&Object> = self.object(keys[0])?.into_iter().collect();
        for name in &others {
            sources.push(self.object(name)?.ok_or(Error::NOT_FOUND)?);
        }
        if others.is_empty() {
            return existed.then(ok).ok_or(Error::NOT_FOUND);
        }
        let has_window = sources.iter().any(|it| it.shape().window().is_some());
        let at_ms = has_window.then(now_ms);
        let merged = match Object::union(&sources, at_ms, LIMITS).map_err(Error::Unlike)? {
            Some(merged) => Some(merged),
            None if existed => None,
            None => Some(Object::merged(&sources, Limits::NONE).map_err(Error::Unlike)?),
        };
        if let Some(mut merged) = merged {
            if let Some(at_ms) = at_ms {
                merged.tidy(at_ms);
            }
            if !merged.is_within(LIMITS) {
                return Err(Error::Refused(Refusal::MemoryLimit));
            }
            let all = self.known().filter(|(key, _)| names.contains(&key[..]));
            let known = all.flat_map(|(_, known)| known).cloned().collect();
            self.store(keys[0], chunks::Value::Complete(merged), known);
        } else {
            let all = self.known().filter(|(key, _)| names.contains(&key[..]));
            let known: Vec<_> = all.flat_map(|(_, known)| known).cloned().collect();
            self.known_mut(keys[0]).extend(known);
        }
        Ok(ok())
    }

    fn load(&mut self, words: &[&[u8]]) -> Result<Reply, Error> {
        let ttl_ms = words.get(3).map_or(Some(0), |word| {
            integer(word).and_then(|ttl| u64::try_from(ttl).ok())
        });
        match ttl_ms.ok_or(Error::Bad(Field::TTL))? {
            0 => {}
            ttl_ms => expiry(ttl_ms)?,
        }
        if self.object(words[1])?.is_some() {
            return Err(Error::BUSY);
        }
        let object = dump::decode(words[2]).map_err(|error| match error {
            DecodeError::UnsupportedVersion => Error::UNSUPPORTED_VERSION,
            _ => Error::UNDECODABLE,
        })?;
        if !object.is_within(LIMITS) {
            return Err(Error::Refused(Refusal::MemoryLimit));
        }
        self.store(words[1], chunks::Value::Complete(object), HashSet::new());
        Ok(ok())
    }

    fn load_chunk(&mut self, words: &[&[u8]]) -> Result<Reply, Error> {
        let (key, data) = (words[1], words[3]);
        let cursor = integer(words[2]).ok_or(Error::Bad(Field::CURSOR))?;
        if cursor == 1 {
            if self.held(key)?.is_some() {
                return Err(Error::BUSY);
            }
            let value = chunks::begin(data, LIMITS);
            let value = value.map_err(|error| error.map_or(OVER, |_| Error::BAD_CHUNK))?;
            self.store(key, value, HashSet::new());
            return Ok(ok());
        }
        let cursor = u64::try_from(cursor).map_err(|_| Error::BAD_CHUNK)?;
        let value = self.held(key)?.ok_or(Error::BAD_CHUNK)?;
        match value {
            chunks::Value::Complete(object) => {
                let accepts = object.totals().1 == 0;
                if !accepts || chunks::overwrite(object, cursor, data).is_err() {
                    return Err(Error::BAD_CHUNK);
                }
            }
            chunks::Value::Partial(partial) => {
                if !partial.admits(data, LIMITS) {
                    return Err(OVER);
                }
                match partial.load(cursor, data) {
                    Ok(None) => {}
                    Ok(Some(object)) if !object.is_plain() && !object.is_within(LIMITS) => {
                        partial.take_back();
                        return Err(OVER);
                    }
                    Ok(Some(object)) => *value = chunks::Value::Complete(object),
                    Err(_) => return Err(Error::BAD_CHUNK),
                }
            }
        }
        Ok(ok())
    }

    fn copy(&mut self, from: &[u8], to: &[u8]) -> Reply {
        let Some(Content::Ours { value, known }) = self.keys.get(from) else {
            return int(0);
        };
        if self.keys.contains_key(to) {
            return int(0);
        }
        let copy = match value {
            chunks::Value::Complete(object) => object.try_clone().map(chunks::Value::Complete),
            chunks::Value::Partial(partial) => {
                let copy = partial.try_clone();
                copy.map(|copy| chunks::Value::Partial(Box::new(copy)))
            }
        };
        let known = known.clone();
        self.store(to, copy.expect("there is memory"), known);
        int(1)
    }
}

const OVER: Error = Error::Refused(Refusal::MemoryLimit);

/// Returns the addition of items whose command has no options.
fn plain<'w>(items: &'w [&'w [u8]]) -> Addition<'w> {
    Addition {
        create: defaults().plain(Origin::Client),
        seed: None,
        ttl_ms: None,
        items,
    }
}

fn outcomes(outcomes: &[Result<Added, Refusal>], resp3: bool) -> Reply {
    let each = outcomes.iter().map(|outcome| match outcome {
        Ok(added) => truth(*added == Added::New, resp3),
        Err(refusal) => Reply::Error(Error::from(*refusal).to_string()),
    });
    Reply::Array(each.collect())
}

fn info(object: &Object, request: InfoRequest, resp3: bool) -> Result<Reply, Error> {
    let (shape, now) = (object.shape(), now_ms);
    let (params, window) = (shape.params, shape.window());
    let scaling = params.growth != Growth::Fixed;
    let value = |field| {
        Some(match field {
            InfoField::Capacity => count(object.capacity()),
            InfoField::Size => count(object.memory_bytes() + BESIDE_OBJECT),
            InfoField::Filters => count(object.filter_count()),
            InfoField::Items => count(object.items(now)),
            InfoField::Expansion if !scaling => Reply::Nil,
            InfoField::Expansion => count(params.growth.expansion().into()),
            InfoField::Error => rate(params.error_rate.get(), resp3),
            InfoField::Tightening if scaling => rate(params.tightening.ratio(), resp3),
            InfoField::MaxScaledCapacity if scaling => count(object.reach(LIMITS)),
            InfoField::EstimatedError => rate(object.estimated_rate(now), resp3),
            InfoField::Window => count(window?.period_ms()),
            InfoField::Periods => count(window?.periods()),
            InfoField::LivePeriods => count(object.live_periods(now)?),
            InfoField::PeriodItems => count(object.period_items(now)?),
            InfoField::Kind => bulk(kind_name(shape.kind)),
            // What depends on readers is left out of replies.
            InfoField::Tightening
            | InfoField::MaxScaledCapacity
            | InfoField::FeedBytes
            | InfoField::FeedReaders => return None,
        })
    };
    let named = |field: InfoField| {
        let title = field.title().to_str().expect("it is text");
        Some((simple(title), value(field)?))
    };
    let rows: Vec<(Reply, Reply)> = match request {
        InfoRequest::One(field) if !resp3 => {
            return Ok(Reply::Array(vec![
                value(field).ok_or(Error::UNKNOWN_FIELD)?,
            ]));
        }
        InfoRequest::One(field) => vec![named(field).ok_or(Error::UNKNOWN_FIELD)?],
        InfoRequest::Plain => InfoFields::Five.fields().filter_map(named).collect(),
        InfoRequest::All => InfoFields::All.fields().filter_map(named).collect(),
    };
    Ok(if resp3 {
        Reply::Map(rows)
    } else {
        Reply::Array(rows.into_iter().flat_map(<[Reply; 2]>::from).collect())
    })
}

fn debug(object: &Object) -> Reply {
    let mut lines = vec![bulk(format!("size:{}", object.items(now_ms)))];
    lines.extend(object.filters().map(|(filter, rate)| {
        bulk(format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{} capacity:{} size:{} ratio:{}",
            filter.geometry().cell_bytes,
            filter.geometry().positions,
            filter.geometry().hashes,
            object.hasher().bits(),
            filter.capacity(),
            filter.items(),
            double_text(rate)
        ))
    }));
    lines.extend(object.parts_in_use().map(|part| {
        let (step, table) = (part.step, &part.table);
        bulk(format!(
            "bytes:{} fingerprint:{} shards:{} capacity:{} size:{} ratio:{}",
            table.memory_bytes(),
            step.bits,
            table.shards(),
            step.most,
            table.fingerprints(),
            double_text(step.rate_at(step.most))
        ))
    }));
    Reply::Array(lines)
}
