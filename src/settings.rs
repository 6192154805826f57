//! Settings: what each is, how the server registers, reads and sets it, and the settings that all families share.
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

use valkeybloom_protocol::numerals::{double_text, integer, memory_amount};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::Limits;

use crate::ffi::{self, Registration, Settable, SettingKind, SettingValue, TextSlot};

/// A setting: its names, its value, and which values are valid.
pub struct Setting {
    name: &'static CStr,
    /// The specification's name.
    alias: Option<&'static CStr>,
    /// `RedisBloom`'s name of its argument, so that its `loadmodule` line works here.
    argument: Option<&'static [u8]>,
    kind: SettingType,
    /// Encoded: a number as it is, a fraction as the bits of a double, a switch as 0 or 1, a choice as its place in
    /// the list.
    value: AtomicI64,
    default: AtomicI64,
    /// Whether a valid value suits the other settings.
    suits: fn(i64) -> Result<(), String>,
    text: TextSlot,
}

enum SettingType {
    Number {
        min: i64,
        max: i64,
        memory: bool,
    },
    Fraction,
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl Setting {
    const fn new(
        name: &'static CStr,
        alias: Option<&'static CStr>,
        kind: SettingType,
        default: i64,
    ) -> Self {
        Self {
            name,
            alias,
            argument: None,
            kind,
            value: AtomicI64::new(default),
            default: AtomicI64::new(default),
            suits: |_| Ok(()),
            text: TextSlot::new(),
        }
    }

    /// A setting with a whole number from `min` to `max` as its value.
    pub const fn whole(
        name: &'static CStr,
        alias: Option<&'static CStr>,
        default: i64,
        min: i64,
        max: i64,
    ) -> Self {
        let memory = false;
        Self::new(
            name,
            alias,
            SettingType::Number { min, max, memory },
            default,
        )
    }

    /// A setting with a whole number in a range as its value.
    pub const fn of_range(name: &'static CStr, default: i64, range: &RangeInclusive<u64>) -> Self {
        let (min, max) = (range.start().cast_signed(), range.end().cast_signed());
        Self::whole(name, None, default, min, max)
    }

    /// A setting with an amount of memory, in bytes, as its value.
    pub const fn memory(
        name: &'static CStr,
        alias: Option<&'static CStr>,
        default: i64,
        min: i64,
    ) -> Self {
        let (max, memory) = (i64::MAX, true);
        Self::new(
            name,
            alias,
            SettingType::Number { min, max, memory },
            default,
        )
    }

    /// A setting with a number between 0 and 1 as its value.
    pub const fn ratio(name: &'static CStr, alias: Option<&'static CStr>, default: f64) -> Self {
        Self::new(name, alias, SettingType::Fraction, to_bits(default))
    }

    /// A setting that is on or off.
    pub const fn switch(name: &'static CStr, default: bool) -> Self {
        Self::new(name, None, SettingType::Switch, default as i64)
    }

    /// A setting with one of these words as its value, the first unless set.
    pub const fn choice(name: &'static CStr, words: &'static [&'static str]) -> Self {
        Self::new(name, None, SettingType::Choice(words), 0)
    }

    /// The same setting, with `RedisBloom`'s name of its argument.
    pub const fn with_argument(self, argument: &'static [u8]) -> Self {
        Self {
            argument: Some(argument),
            ..self
        }
    }

    /// The same setting, whose valid values also have to suit other settings.
    pub const fn suiting(self, suits: fn(i64) -> Result<(), String>) -> Self {
        Self { suits, ..self }
    }

    /// Whether a switch is on.
    pub fn is_on(&self) -> bool {
        self.value.load(Relaxed) != 0
    }

    /// The value of a number, or the place of a choice.
    pub fn number(&self) -> i64 {
        self.value.load(Relaxed)
    }

    /// The value of a number that is not negative.
    pub fn unsigned(&self) -> u64 {
        self.number().cast_unsigned()
    }

    /// The value of a ratio.
    pub fn fraction(&self) -> Fraction {
        Fraction::new(to_double(self.value.load(Relaxed))).unwrap_or(Fraction::HALF)
    }

    fn registered(&self) -> SettingKind {
        let default = self.default.load(Relaxed);
        match self.kind {
            SettingType::Number { min, max, memory } => SettingKind::Number {
                default,
                min,
                max,
                memory,
            },
            SettingType::Fraction => SettingKind::Text {
                default: double_text(to_double(default)),
            },
            SettingType::Switch => SettingKind::Switch {
                default: default != 0,
            },
            SettingType::Choice(words) => SettingKind::Text {
                default: word_at(words, default).to_owned(),
            },
        }
    }

    /// Encodes a value, if it is valid.
    fn encode(&self, value: &SettingValue) -> Result<i64, String> {
        match (&self.kind, value) {
            (SettingType::Number { min, max, .. }, SettingValue::Number(number)) => {
                if (min..=max).contains(&number) {
                    Ok(*number)
                } else {
                    Err(format!(
                        "argument must be between {min} and {max} inclusive"
                    ))
                }
            }
            (SettingType::Fraction, SettingValue::Text(text)) => text
                .parse()
                .ok()
                .and_then(Fraction::new)
                .map(|fraction| to_bits(fraction.get()))
                .ok_or_else(|| "argument must be a number between 0 and 1 exclusive".to_owned()),
            (SettingType::Switch, SettingValue::Switch(on)) => Ok(i64::from(*on)),
            (SettingType::Choice(words), SettingValue::Text(text)) => {
                let place = words
                    .iter()
                    .position(|word| word.eq_ignore_ascii_case(text));
                let place = place.and_then(|place| i64::try_from(place).ok());
                place.ok_or_else(|| format!("argument must be {}", one_of(words)))
            }
            _ => Err("argument is of the wrong kind".to_owned()),
        }
    }

    /// Reads a value as a `loadmodule` line writes it.
    fn parse(&self, word: &[u8]) -> Result<SettingValue, String> {
        let text = String::from_utf8_lossy(word);
        match self.kind {
            SettingType::Number { memory, .. } => {
                let number = if memory {
                    memory_amount(&text)
                } else {
                    integer(word)
                };
                let wrong = || "argument must be a number".to_owned();
                number.map(SettingValue::Number).ok_or_else(wrong)
            }
            SettingType::Fraction | SettingType::Choice(_) => {
                Ok(SettingValue::Text(text.into_owned()))
            }
            SettingType::Switch if word.eq_ignore_ascii_case(b"yes") => {
                Ok(SettingValue::Switch(true))
            }
            SettingType::Switch if word.eq_ignore_ascii_case(b"no") => {
                Ok(SettingValue::Switch(false))
            }
            SettingType::Switch => Err("argument must be 'yes' or 'no'".to_owned()),
        }
    }

    fn has_name(&self, word: &[u8]) -> bool {
        let prefix: &[u8] = b"bf.";
        let name = match word.split_at_checked(prefix.len()) {
            Some((start, rest)) if start.eq_ignore_ascii_case(prefix) => rest,
            _ => word,
        };
        let names = [Some(self.name), self.alias];
        let mut names = names.into_iter().flatten().map(CStr::to_bytes);
        let is_argument = self
            .argument
            .is_some_and(|own| own.eq_ignore_ascii_case(word));
        is_argument || names.any(|own| own.eq_ignore_ascii_case(name))
    }
}

impl Settable for Setting {
    fn get(&self) -> SettingValue {
        let value = self.value.load(Relaxed);
        match self.kind {
            SettingType::Number { .. } => SettingValue::Number(value),
            SettingType::Fraction => SettingValue::Text(double_text(to_double(value))),
            SettingType::Switch => SettingValue::Switch(value != 0),
            SettingType::Choice(words) => SettingValue::Text(word_at(words, value).to_owned()),
        }
    }

    fn set(&self, value: SettingValue) -> Result<(), String> {
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

/// The word of a choice at a place in its list.
fn word_at(words: &[&'static str], place: i64) -> &'static str {
    let place = usize::try_from(place).unwrap_or(0);
    words.get(place).copied().unwrap_or_default()
}

/// `'a', 'b' or 'c'`
fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => format!("'{only}'"),
        [first, last] => format!("'{first}' or '{last}'"),
        [first, rest @ ..] => format!("'{first}', {}", one_of(rest)),
    }
}

const fn to_bits(value: f64) -> i64 {
    value.to_bits().cast_signed()
}

const fn to_double(bits: i64) -> f64 {
    f64::from_bits(bits.cast_unsigned())
}

static FILTER_MEMORY: Setting = Setting::memory(
    c"bloom-filter-max-memory-usage",
    Some(c"bloom_filter_max_memory_usage"),
    Limits::DEFAULT.filter_bytes.cast_signed(),
    1,
);
static OBJECT_MEMORY: Setting = Setting::memory(c"bloom-memory-usage-limit", None, 0, 0);
static LARGE: Setting = Setting::memory(
    c"bloom-large-item-threshold",
    Some(c"bloom_large_item_threshold"),
    4096,
    0,
);
static DEFRAG: Setting = Setting::switch(c"bloom-defrag-enabled", true);
static INFO_ALIAS: Setting = Setting::switch(c"bloom-info-alias", true);

/// The settings that all families share; their names are from the time when there was one.
static SHARED: [&Setting; 5] = [&FILTER_MEMORY, &OBJECT_MEMORY, &LARGE, &DEFRAG, &INFO_ALIAS];

/// Whether the server is still applying its config file.
static LOADING: AtomicBool = AtomicBool::new(true);

/// Sets the defaults from the arguments behind the module's path, pairs of a name and a value, and
/// returns the settings to register, aliases first.
///
/// # Errors
/// A name that no setting has, or a value that is not valid.
pub fn configure(
    families: &[&[&'static Setting]],
    words: &[&[u8]],
) -> Result<Vec<Registration>, String> {
    let all = || families.iter().copied().flatten().chain(&SHARED).copied();
    for pair in words.chunks(2) {
        let &[name, value] = pair else {
            return Err(format!("no value for {}", String::from_utf8_lossy(pair[0])));
        };
        let shown = String::from_utf8_lossy(name);
        let setting = all().find(|setting| setting.has_name(name));
        let setting = setting.ok_or_else(|| format!("no setting is called {shown}"))?;
        let value = setting
            .parse(value)
            .and_then(|value| setting.encode(&value));
        let value = value.map_err(|what| format!("{shown}: {what}"))?;
        setting.default.store(value, Relaxed);
        setting.value.store(value, Relaxed);
    }
    for setting in all() {
        (setting.suits)(setting.number())?;
    }
    let aliases = all().filter_map(|setting| Some((setting, setting.alias?, true)));
    let names = all().map(|setting| (setting, setting.name, false));
    Ok(aliases
        .chain(names)
        .map(|(setting, name, hidden)| Registration {
            name,
            setting: setting.registered(),
            target: setting,
            hidden,
        })
        .collect())
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

/// The limits on memory that clients may ask for: bytes of a filter, and of an object. The setting limits all memory
/// that an object takes, and `overhead_bytes` of it are not the object's own.
pub fn memory_limits(overhead_bytes: u64) -> (u64, u64) {
    let object_bytes = match OBJECT_MEMORY.unsigned() {
        0 => u64::MAX,
        bytes => bytes.saturating_sub(overhead_bytes),
    };
    (FILTER_MEMORY.unsigned(), object_bytes)
}

/// Anything larger is freed in the background, and not moved by defragmentation.
pub fn large_bytes() -> u64 {
    LARGE.unsigned()
}

/// Whether objects take part in defragmentation.
pub fn defrag_is_on() -> bool {
    DEFRAG.is_on()
}
