//! The settings, and what the commands need of them.
//!
//! A setting may have a second name, the specification's, under which it is the same setting. When
//! the module is loaded the server applies to each *name* its value from the config file, or else
//! its default; a default that comes in under one name must not undo what was given under the
//! other. So while the module loads, a value equal to the default is not applied (it is what the
//! setting starts with), and the name with hyphens, registered last, wins where both were given.
//!
//! What stands behind the module's path on a `loadmodule` line becomes the default: a line of the
//! config file then overrides it, and CONFIG REWRITE writes a line exactly where the value differs
//! from it.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use crate::bloom::{Fraction, Growth, Limits, Params, Seed};
use crate::ffi::{self, Ctx, Registration, Settable, Setting, TextSlot, Value};
use crate::keyspace::Stored;

/// A setting: its names, its value, and what values it may have.
struct Entry {
    name: &'static CStr,
    /// The specification's spelling.
    alias: Option<&'static CStr>,
    kind: Kind,
    /// Numbers as they are, rates as the bits of a double, switches as 0 and 1.
    value: AtomicI64,
    default: AtomicI64,
    text: TextSlot,
}

enum Kind {
    Number { min: i64, max: i64, memory: bool },
    Fraction,
    Switch,
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

    const fn memory(
        name: &'static CStr,
        alias: Option<&'static CStr>,
        default: i64,
        min: i64,
    ) -> Self {
        let (max, memory) = (i64::MAX, true);
        Self::new(name, alias, Kind::Number { min, max, memory }, default)
    }

    const fn fraction(name: &'static CStr, alias: Option<&'static CStr>, default: f64) -> Self {
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

    fn rate(&self) -> Fraction {
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
        }
    }

    /// The stored form of a value, if the setting may have it.
    fn admit(&self, value: &Value) -> Result<i64, String> {
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
            _ => Err("argument is of the wrong kind".to_owned()),
        }
    }

    /// A value as it is written on a `loadmodule` line.
    fn parse(&self, word: &[u8]) -> Result<Value, String> {
        let text = String::from_utf8_lossy(word);
        match self.kind {
            Kind::Number { memory, .. } => {
                let number = if memory {
                    bytes(&text)
                } else {
                    text.parse().ok()
                };
                let wrong = || "argument must be a number".to_owned();
                number.map(Value::Number).ok_or_else(wrong)
            }
            Kind::Fraction => Ok(Value::Text(text.into_owned())),
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
        }
    }

    fn set(&self, value: Value) -> Result<(), String> {
        let value = self.admit(&value)?;
        if LOADING.load(Relaxed) && value == self.default.load(Relaxed) {
            return Ok(());
        }
        self.value.store(value, Relaxed);
        if !LOADING.load(Relaxed) {
            follow();
        }
        Ok(())
    }

    fn text(&self) -> &TextSlot {
        &self.text
    }
}

const fn to_bits(value: f64) -> i64 {
    value.to_bits().cast_signed()
}

const fn to_double(bits: i64) -> f64 {
    f64::from_bits(bits.cast_unsigned())
}

/// The shortest text that reads back as this double.
pub fn double_text(value: f64) -> String {
    format!("{value:?}")
}

/// An amount of memory as the server's config file writes it.
fn bytes(text: &str) -> Option<i64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: i64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit)
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
static FP_RATE: Entry = Entry::fraction(c"bloom-fp-rate", Some(c"bloom_fp_rate"), 0.01);
static TIGHTENING: Entry = Entry::fraction(c"bloom-tightening-ratio", None, 0.5);
static FILTER_MEMORY: Entry = Entry::memory(
    c"bloom-filter-max-memory-usage",
    Some(c"bloom_filter_max_memory_usage"),
    64 << 20,
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
static RANDOM_SEED: Entry = Entry::switch(c"bloom-use-random-seed", true);
static DEFRAG: Entry = Entry::switch(c"bloom-defrag-enabled", true);
static INFO_ALIAS: Entry = Entry::switch(c"bloom-info-alias", true);

static ENTRIES: [&Entry; 11] = [
    &CAPACITY,
    &EXPANSION,
    &FP_RATE,
    &TIGHTENING,
    &FILTER_MEMORY,
    &OBJECT_MEMORY,
    &LARGE,
    &SATURATE,
    &RANDOM_SEED,
    &DEFRAG,
    &INFO_ALIAS,
];

/// Whether the server is still applying its config file.
static LOADING: AtomicBool = AtomicBool::new(true);

/// Takes the words behind the module's path, pairs of a name and a value, and gives the settings
/// to register: second names first.
///
/// # Errors
/// A word that is no setting, or a value that it can't have.
pub fn configure(words: &[&[u8]]) -> Result<Vec<Registration>, String> {
    for pair in words.chunks(2) {
        let &[name, value] = pair else {
            return Err(format!("no value for {}", String::from_utf8_lossy(pair[0])));
        };
        let shown = String::from_utf8_lossy(name);
        // RedisBloom's own words, so that its line of a config file holds.
        let entry = match &name.to_ascii_uppercase()[..] {
            b"ERROR_RATE" => Some(&FP_RATE),
            b"INITIAL_SIZE" => Some(&CAPACITY),
            _ => ENTRIES.into_iter().find(|entry| entry.has_name(name)),
        };
        let entry = entry.ok_or_else(|| format!("no setting is called {shown}"))?;
        let value = entry.parse(value).and_then(|value| entry.admit(&value));
        let value = value.map_err(|what| format!("{shown}: {what}"))?;
        entry.default.store(value, Relaxed);
        entry.value.store(value, Relaxed);
    }
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

/// Called when the server has applied its config file.
pub fn on_configured() {
    LOADING.store(false, Relaxed);
    follow();
}

/// Does what follows from settings that are more than a value to look up.
fn follow() {
    ffi::set_info_alias(INFO_ALIAS.is_on());
}

/// What an object is made of where the command does not say.
pub fn defaults() -> Params {
    Params {
        capacity: CAPACITY.unsigned(),
        error_rate: FP_RATE.rate(),
        tightening: TIGHTENING.rate(),
        growth: Growth::from_expansion(u32::try_from(EXPANSION.unsigned()).unwrap_or(u32::MAX)),
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

/// The limits for what this server's own clients ask.
pub fn limits() -> Limits {
    let object_bytes = match OBJECT_MEMORY.unsigned() {
        0 => u64::MAX,
        bytes => bytes.saturating_sub(Stored::OVERHEAD_BYTES),
    };
    Limits::Within {
        filter_bytes: FILTER_MEMORY.unsigned(),
        object_bytes,
        saturate: SATURATE.is_on(),
    }
}

/// The limits for a command: none for what has happened already elsewhere.
pub fn limits_for(ctx: Ctx) -> Limits {
    if ctx.must_obey() {
        Limits::Obey
    } else {
        limits()
    }
}

/// From how many bytes on something is freed in the background, and not moved by defrag.
pub fn large_bytes() -> u64 {
    LARGE.unsigned()
}

/// Whether objects take part in defrag.
pub fn defrag_is_on() -> bool {
    DEFRAG.is_on()
}
