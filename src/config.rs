//! The settings, and what the commands need of them.
//!
//! A setting may have an alias, the specification's name for it. While the module loads, the server
//! sets every *name* to its value in the config file, or else to its default, and the default of one
//! name must not overwrite what the other was set to. So during that time setting the default does
//! nothing: it is what the setting starts with. Where both names are set, the one with hyphens
//! wins, because it is registered last.
//!
//! The arguments behind the module's path on a `loadmodule` line become the defaults, so that a line
//! of the config file overrides them, and CONFIG REWRITE writes a line exactly where a value differs.

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use crate::ffi::{self, Ctx, Registration, Settable, Setting, TextSlot, Value};
use valkeybloom_protocol::bloom::{Defaults, Maker};
use valkeybloom_protocol::numerals::{double_text, integer, memory_amount};
use valkeybloom_sketches::bloom::{Growth, Limits, Params, Tightening};
use valkeybloom_sketches::cuckoo::{self, ranges};
use valkeybloom_sketches::{Fraction, Seed};

/// A setting: its names, its value, and which values are valid.
struct Entry {
    name: &'static CStr,
    /// The specification's name.
    alias: Option<&'static CStr>,
    kind: Kind,
    /// Encoded: a number as it is, a fraction as the bits of a double, a switch as 0 or 1, a maker as its place in the list.
    value: AtomicI64,
    default: AtomicI64,
    /// Whether a valid value suits the other settings.
    suits: fn(i64) -> Result<(), String>,
    text: TextSlot,
}

enum Kind {
    Number { min: i64, max: i64, memory: bool },
    Fraction,
    Switch,
    Maker,
}

impl Entry {
    const fn new(
        name: &'static CStr,
        alias: Option<&'static CStr>,
        kind: Kind,
        default: i64,
    ) -> Self {
        Self {
            name,
            alias,
            kind,
            value: AtomicI64::new(default),
            default: AtomicI64::new(default),
            suits: |_| Ok(()),
            text: TextSlot::new(),
        }
    }

    const fn number(
        name: &'static CStr,
        alias: Option<&'static CStr>,
        default: i64,
        min: i64,
        max: i64,
    ) -> Self {
        let memory = false;
        Self::new(name, alias, Kind::Number { min, max, memory }, default)
    }

    const fn of_range(name: &'static CStr, default: i64, range: &RangeInclusive<u64>) -> Self {
        let (min, max) = (range.start().cast_signed(), range.end().cast_signed());
        Self::number(name, None, default, min, max)
    }

    const fn memory(
        name: &'static CStr,
        alias: Option<&'static CStr>,
        default: i64,
        min: i64,
    ) -> Self {
        let (max, memory) = (i64::MAX, true);
        Self::new(name, alias, Kind::Number { min, max, memory }, default)
    }

    const fn ratio(name: &'static CStr, alias: Option<&'static CStr>, default: f64) -> Self {
        Self::new(name, alias, Kind::Fraction, to_bits(default))
    }

    const fn switch(name: &'static CStr, default: bool) -> Self {
        Self::new(name, None, Kind::Switch, default as i64)
    }

    fn is_on(&self) -> bool {
        self.value.load(Relaxed) != 0
    }

    fn unsigned(&self) -> u64 {
        self.value.load(Relaxed).cast_unsigned()
    }

    fn maker(&self) -> Maker {
        maker(self.value.load(Relaxed))
    }

    fn fraction(&self) -> Fraction {
        Fraction::new(to_double(self.value.load(Relaxed))).unwrap_or(Fraction::HALF)
    }

    fn setting(&self) -> Setting {
        let default = self.default.load(Relaxed);
        match self.kind {
            Kind::Number { min, max, memory } => Setting::Number {
                default,
                min,
                max,
                memory,
            },
            Kind::Fraction => Setting::Text {
                default: double_text(to_double(default)),
            },
            Kind::Switch => Setting::Switch {
                default: default != 0,
            },
            Kind::Maker => Setting::Text {
                default: maker(default).name().to_owned(),
            },
        }
    }

    /// Encodes a value, if it is valid.
    fn encode(&self, value: &Value) -> Result<i64, String> {
        match (&self.kind, value) {
            (Kind::Number { min, max, .. }, Value::Number(number)) => {
                if (min..=max).contains(&number) {
                    Ok(*number)
                } else {
                    Err(format!(
                        "argument must be between {min} and {max} inclusive"
                    ))
                }
            }
            (Kind::Fraction, Value::Text(text)) => text
                .parse()
                .ok()
                .and_then(Fraction::new)
                .map(|fraction| to_bits(fraction.get()))
                .ok_or_else(|| "argument must be a number between 0 and 1 exclusive".to_owned()),
            (Kind::Switch, Value::Switch(on)) => Ok(i64::from(*on)),
            (Kind::Maker, Value::Text(text)) => {
                let is_named = |maker: &Maker| maker.name().eq_ignore_ascii_case(text);
                let place = Maker::ALL.iter().position(is_named);
                place
                    .and_then(|place| i64::try_from(place).ok())
                    .ok_or_else(|| {
                        let [own, valkey_bloom, redisbloom] = Maker::ALL.map(Maker::name);
                        format!("argument must be '{own}', '{valkey_bloom}' or '{redisbloom}'")
                    })
            }
            _ => Err("argument is of the wrong kind".to_owned()),
        }
    }

    /// Reads a value as a `loadmodule` line writes it.
    fn parse(&self, word: &[u8]) -> Result<Value, String> {
        let text = String::from_utf8_lossy(word);
        match self.kind {
            Kind::Number { memory, .. } => {
                let number = if memory {
                    memory_amount(&text)
                } else {
                    integer(word)
                };
                let wrong = || "argument must be a number".to_owned();
                number.map(Value::Number).ok_or_else(wrong)
            }
            Kind::Fraction | Kind::Maker => Ok(Value::Text(text.into_owned())),
            Kind::Switch if word.eq_ignore_ascii_case(b"yes") => Ok(Value::Switch(true)),
            Kind::Switch if word.eq_ignore_ascii_case(b"no") => Ok(Value::Switch(false)),
            Kind::Switch => Err("argument must be 'yes' or 'no'".to_owned()),
        }
    }

    fn has_name(&self, word: &[u8]) -> bool {
        let prefix: &[u8] = b"bf.";
        let name = match word.split_at_checked(prefix.len()) {
            Some((start, rest)) if start.eq_ignore_ascii_case(prefix) => rest,
            _ => word,
        };
        let names = [Some(self.name), self.alias];
        let mut names = names.into_iter().flatten();
        names.any(|own| own.to_bytes().eq_ignore_ascii_case(name))
    }
}

impl Settable for Entry {
    fn get(&self) -> Value {
        let value = self.value.load(Relaxed);
        match self.kind {
            Kind::Number { .. } => Value::Number(value),
            Kind::Fraction => Value::Text(double_text(to_double(value))),
            Kind::Switch => Value::Switch(value != 0),
            Kind::Maker => Value::Text(maker(value).name().to_owned()),
        }
    }

    fn set(&self, value: Value) -> Result<(), String> {
        let value = self.encode(&value)?;
        let loading = LOADING.load(Relaxed);
        if loading && value == self.default.load(Relaxed) {
            return Ok(());
        }
        (self.suits)(value)?;
        self.value.store(value, Relaxed);
        if !loading {
            apply();
        }
        Ok(())
    }

    fn text(&self) -> &TextSlot {
        &self.text
    }
}

/// The maker at a place in the list.
fn maker(place: i64) -> Maker {
    let place = usize::try_from(place).ok();
    let maker = place.and_then(|place| Maker::ALL.get(place));
    maker.copied().unwrap_or(Maker::Own)
}

const fn to_bits(value: f64) -> i64 {
    value.to_bits().cast_signed()
}

const fn to_double(bits: i64) -> f64 {
    f64::from_bits(bits.cast_unsigned())
}

static CAPACITY: Entry = Entry::number(
    c"bloom-capacity",
    Some(c"bloom_capacity"),
    100_000,
    1,
    i64::MAX,
);
static EXPANSION: Entry = Entry::number(
    c"bloom-expansion",
    Some(c"bloom_expansion_rate"),
    2,
    0,
    u32::MAX as i64,
);
static FP_RATE: Entry = Entry::ratio(c"bloom-fp-rate", Some(c"bloom_fp_rate"), 0.01);
static TIGHTENING: Entry = Entry::ratio(c"bloom-tightening-ratio", None, 0.5);
static FILTER_MEMORY: Entry = Entry::memory(
    c"bloom-filter-max-memory-usage",
    Some(c"bloom_filter_max_memory_usage"),
    Limits::DEFAULT.filter_bytes.cast_signed(),
    1,
);
static OBJECT_MEMORY: Entry = Entry::memory(c"bloom-memory-usage-limit", None, 0, 0);
static LARGE: Entry = Entry::memory(
    c"bloom-large-item-threshold",
    Some(c"bloom_large_item_threshold"),
    4096,
    0,
);
static SATURATE: Entry = Entry::switch(c"bloom-saturate-nonscaling", false);
static NEW_FILTERS: Entry = Entry::new(c"bloom-new-filters", None, Kind::Maker, 0);
static RANDOM_SEED: Entry = Entry::switch(c"bloom-use-random-seed", true);
static DEFRAG: Entry = Entry::switch(c"bloom-defrag-enabled", true);
static INFO_ALIAS: Entry = Entry::switch(c"bloom-info-alias", true);

static CF_BUCKET_SIZE: Entry = Entry {
    suits: |size| require_two_buckets(CF_INITIAL_SIZE.value.load(Relaxed), size),
    ..Entry::of_range(c"cf-bucket-size", 2, &ranges::BUCKET_SIZE)
};
static CF_INITIAL_SIZE: Entry = Entry {
    suits: |size| require_two_buckets(size, CF_BUCKET_SIZE.value.load(Relaxed)),
    ..Entry::of_range(c"cf-initial-size", 1024, &(2..=ranges::CAPACITY_MAX))
};
static CF_MAX_ITERATIONS: Entry =
    Entry::of_range(c"cf-max-iterations", 20, &ranges::MAX_ITERATIONS);
static CF_EXPANSION: Entry = Entry::of_range(c"cf-expansion-factor", 1, &ranges::EXPANSION);
static CF_MAX_FILTERS: Entry = Entry::of_range(c"cf-max-expansions", 32, &(1..=65_536));

static ENTRIES: [&Entry; 17] = [
    &CAPACITY,
    &EXPANSION,
    &FP_RATE,
    &TIGHTENING,
    &FILTER_MEMORY,
    &OBJECT_MEMORY,
    &LARGE,
    &SATURATE,
    &NEW_FILTERS,
    &RANDOM_SEED,
    &DEFRAG,
    &INFO_ALIAS,
    // The server applies its file in this order, so that the size is compared with the new bucket's.
    &CF_BUCKET_SIZE,
    &CF_INITIAL_SIZE,
    &CF_MAX_ITERATIONS,
    &CF_EXPANSION,
    &CF_MAX_FILTERS,
];

/// Whether the server is still applying its config file.
static LOADING: AtomicBool = AtomicBool::new(true);

/// Sets the defaults from the arguments behind the module's path, pairs of a name and a value, and
/// returns the settings to register, aliases first.
///
/// # Errors
/// A name that no setting has, or a value that is not valid.
pub fn configure(words: &[&[u8]]) -> Result<Vec<Registration>, String> {
    for pair in words.chunks(2) {
        let &[name, value] = pair else {
            return Err(format!("no value for {}", String::from_utf8_lossy(pair[0])));
        };
        let shown = String::from_utf8_lossy(name);
        // RedisBloom's names for its arguments, so that its `loadmodule` line works here.
        let entry = match &name.to_ascii_uppercase()[..] {
            b"ERROR_RATE" => Some(&FP_RATE),
            b"INITIAL_SIZE" => Some(&CAPACITY),
            b"CF_MAX_EXPANSIONS" => Some(&CF_MAX_FILTERS),
            _ => ENTRIES.into_iter().find(|entry| entry.has_name(name)),
        };
        let entry = entry.ok_or_else(|| format!("no setting is called {shown}"))?;
        let value = entry.parse(value).and_then(|value| entry.encode(&value));
        let value = value.map_err(|what| format!("{shown}: {what}"))?;
        entry.default.store(value, Relaxed);
        entry.value.store(value, Relaxed);
    }
    require_two_buckets(
        CF_INITIAL_SIZE.value.load(Relaxed),
        CF_BUCKET_SIZE.value.load(Relaxed),
    )?;
    let aliases = ENTRIES
        .iter()
        .filter_map(|entry| Some((*entry, entry.alias?, true)));
    let names = ENTRIES.iter().map(|entry| (*entry, entry.name, false));
    Ok(aliases
        .chain(names)
        .map(|(entry, name, hidden)| Registration {
            name,
            setting: entry.setting(),
            target: entry,
            hidden,
        })
        .collect())
}

/// Requires that the initial size is that of two buckets, at least.
fn require_two_buckets(initial_size: i64, bucket_size: i64) -> Result<(), String> {
    if initial_size >= 2 * bucket_size {
        Ok(())
    } else {
        Err("cf-initial-size must be at least twice cf-bucket-size".to_owned())
    }
}

/// Called when the server has applied its config file.
pub fn on_configured() {
    LOADING.store(false, Relaxed);
    apply();
}

/// Acts on the settings that are more than a value to look up.
fn apply() {
    ffi::set_info_alias(INFO_ALIAS.is_on());
}

/// What a new object is where its command does not say it.
pub fn defaults() -> Defaults {
    Defaults {
        params: Params {
            capacity: CAPACITY.unsigned(),
            error_rate: FP_RATE.fraction(),
            tightening: Tightening::ours(TIGHTENING.fraction()),
            growth: Growth::from_expansion(u32::try_from(EXPANSION.unsigned()).unwrap_or(u32::MAX)),
        },
        maker: NEW_FILTERS.maker(),
    }
}

/// The parameters of a new cuckoo filter that its command does not name.
pub fn cuckoo_defaults() -> cuckoo::Params {
    let narrow = |entry: &Entry| u16::try_from(entry.unsigned()).unwrap_or(u16::MAX);
    cuckoo::Params {
        capacity: CF_INITIAL_SIZE.unsigned(),
        bucket_size: u8::try_from(CF_BUCKET_SIZE.unsigned()).unwrap_or(u8::MAX),
        max_iterations: narrow(&CF_MAX_ITERATIONS),
        expansion: narrow(&CF_EXPANSION),
    }
}

/// The number of filters at which a cuckoo filter takes no more items.
pub fn cuckoo_filters_max() -> u64 {
    CF_MAX_FILTERS.unsigned()
}

/// The limits on what clients may ask for in cuckoo filters: the same on memory as for the others.
pub fn cuckoo_limits(overhead_bytes: u64) -> cuckoo::Limits {
    let Limits {
        filter_bytes,
        object_bytes,
        ..
    } = limits(overhead_bytes);
    cuckoo::Limits {
        filters: cuckoo_filters_max(),
        filter_bytes,
        object_bytes,
    }
}

/// The seed of a new object.
pub fn new_seed() -> Seed {
    if RANDOM_SEED.is_on() {
        Seed::new(Ctx::random_bytes())
    } else {
        Seed::FIXED
    }
}

/// The limits on what clients may ask for. The setting limits all memory that an object takes, of
/// which `overhead_bytes` are not the object's own.
pub fn limits(overhead_bytes: u64) -> Limits {
    let object_bytes = match OBJECT_MEMORY.unsigned() {
        0 => u64::MAX,
        bytes => bytes.saturating_sub(overhead_bytes),
    };
    Limits {
        filter_bytes: FILTER_MEMORY.unsigned(),
        object_bytes,
        saturate: SATURATE.is_on(),
    }
}

/// Anything larger is freed in the background, and not moved by defragmentation.
pub fn large_bytes() -> u64 {
    LARGE.unsigned()
}

/// Whether objects take part in defragmentation.
pub fn defrag_is_on() -> bool {
    DEFRAG.is_on()
}
