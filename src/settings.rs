//! Settings: their definitions, their registration, their values, and the settings that all families share.
//!
//! A setting may have an alias, the specification's name for it. While the module loads, the server sets every
//! *name* to its value in the config file, or else to its default. The default of one name must not overwrite the
//! value that the other name set, so during that time setting the default does nothing: the setting starts with
//! it. If both names are set, the one with hyphens wins, because it is registered last.
//!
//! The arguments after the module's path on a `loadmodule` line become the defaults, so a line of the config file
//! overrides them, and CONFIG REWRITE writes a line exactly for a value that differs.

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::{double_text, integer, memory_amount};
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::Limits;

use crate::ffi::{self, Ctx, Registration, Settable, SettingKind, TextSlot};

/// A setting: its names, its value, and the rules for valid values.
pub struct Setting {
    name: &'static CStr,
    /// The specification's name.
    alias: Option<&'static CStr>,
    /// The name of `RedisBloom`'s argument for this setting, so that its `loadmodule` line works here.
    argument: Option<&'static [u8]>,
    kind: Kind,
    /// The encoded value: a number itself, the bits of a fraction's double, 0 or 1 for a switch, the index of a choice
    /// in its list.
    value: AtomicI64,
    default: AtomicI64,
    /// Checks an otherwise valid value against other settings.
    check: fn(i64) -> Result<(), String>,
    slot: TextSlot,
}

enum Kind {
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
    const fn new(name: &'static CStr, kind: Kind, default: i64) -> Self {
        Self {
            name,
            alias: None,
            argument: None,
            kind,
            value: AtomicI64::new(default),
            default: AtomicI64::new(default),
            check: |_| Ok(()),
            slot: TextSlot::new(),
        }
    }

    /// Makes a setting whose value is an integer in a range.
    pub const fn integer(name: &'static CStr, default: i64, range: &RangeInclusive<u64>) -> Self {
        let (min, max) = (range.start().cast_signed(), range.end().cast_signed());
        let memory = false;
        Self::new(name, Kind::Number { min, max, memory }, default)
    }

    /// Makes a setting whose value is an amount of memory in bytes.
    pub const fn memory(name: &'static CStr, default: i64, min: i64) -> Self {
        let (max, memory) = (i64::MAX, true);
        Self::new(name, Kind::Number { min, max, memory }, default)
    }

    /// Makes a setting whose value is a number between 0 and 1.
    pub const fn ratio(name: &'static CStr, default: f64) -> Self {
        Self::new(name, Kind::Fraction, to_bits(default))
    }

    /// Makes a setting that is on or off.
    pub const fn switch(name: &'static CStr, default: bool) -> Self {
        Self::new(name, Kind::Switch, default as i64)
    }

    /// Makes a setting whose value is one of these words; the first is the default.
    pub const fn choice(name: &'static CStr, words: &'static [&'static str]) -> Self {
        Self::new(name, Kind::Choice(words), 0)
    }

    /// Adds the specification's name.
    pub const fn with_alias(mut self, alias: &'static CStr) -> Self {
        self.alias = Some(alias);
        self
    }

    /// Adds the name of `RedisBloom`'s argument for this setting.
    pub const fn with_argument(mut self, argument: &'static [u8]) -> Self {
        self.argument = Some(argument);
        self
    }

    /// Adds a check of the value against other settings.
    pub const fn with_check(mut self, check: fn(i64) -> Result<(), String>) -> Self {
        self.check = check;
        self
    }

    /// Returns whether a switch is on.
    pub fn is_on(&self) -> bool {
        self.value.load(Relaxed) != 0
    }

    /// Returns the value of a number.
    pub fn number(&self) -> i64 {
        self.value.load(Relaxed)
    }

    /// Returns the value of a number that is not negative.
    pub fn unsigned(&self) -> u64 {
        self.number().cast_unsigned()
    }

    /// Returns the index of a choice in its list.
    fn index(&self) -> usize {
        usize::try_from(self.number()).expect("only indices are stored")
    }

    /// Returns the value of a fraction.
    pub fn fraction(&self) -> Fraction {
        Fraction::new(to_double(self.value.load(Relaxed))).unwrap_or(Fraction::HALF)
    }

    /// Returns the kind of the values for the registration.
    fn registered(&self) -> SettingKind {
        match self.kind {
            Kind::Number { min, max, memory } => SettingKind::Number { min, max, memory },
            Kind::Fraction | Kind::Choice(_) => SettingKind::Text,
            Kind::Switch => SettingKind::Switch,
        }
    }

    /// Returns whether a word of a `loadmodule` line names this setting.
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
    fn get(&self) -> i64 {
        self.number()
    }

    fn set(&self, value: i64) -> Result<(), String> {
        let loading = LOADING.load(Relaxed);
        if loading && value == self.default.load(Relaxed) {
            return Ok(());
        }
        (self.check)(value)?;
        self.value.store(value, Relaxed);
        if !loading {
            apply();
        }
        Ok(())
    }

    fn text(&self, value: i64) -> String {
        match self.kind {
            Kind::Fraction => double_text(to_double(value)),
            Kind::Choice(words) => words[usize::try_from(value).expect("an index")].to_owned(),
            Kind::Number { .. } | Kind::Switch => value.to_string(),
        }
    }

    fn parse(&self, text: &str) -> Result<i64, String> {
        match self.kind {
            Kind::Number { min, max, memory } => {
                let number = if memory {
                    memory_amount(text)
                } else {
                    integer(text.as_bytes())
                };
                let number = number.ok_or("argument must be a number")?;
                let is_within = (min..=max).contains(&number);
                let range = || format!("argument must be between {min} and {max} inclusive");
                is_within.then_some(number).ok_or_else(range)
            }
            Kind::Fraction => {
                let fraction = text.parse().ok().and_then(Fraction::new);
                let fraction = fraction.map(|fraction| to_bits(fraction.get()));
                fraction.ok_or("argument must be a number between 0 and 1 exclusive".to_owned())
            }
            Kind::Switch if text.eq_ignore_ascii_case("yes") => Ok(1),
            Kind::Switch if text.eq_ignore_ascii_case("no") => Ok(0),
            Kind::Switch => Err("argument must be 'yes' or 'no'".to_owned()),
            Kind::Choice(words) => {
                let mut numbered = (0..).zip(words);
                let found = numbered.find(|(_, word)| word.eq_ignore_ascii_case(text));
                let index = found.map(|(index, _)| index);
                index.ok_or_else(|| format!("argument must be {}", one_of(words)))
            }
        }
    }

    fn slot(&self) -> &TextSlot {
        &self.slot
    }
}

/// Formats a list of words as `'a', 'b' or 'c'`.
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
    Limits::DEFAULT.filter_bytes.cast_signed(),
    1,
)
.with_alias(c"bloom_filter_max_memory_usage");
static OBJECT_MEMORY: Setting = Setting::memory(c"bloom-memory-usage-limit", 0, 0);
static LARGE: Setting = Setting::memory(c"bloom-large-item-threshold", 4096, 0)
    .with_alias(c"bloom_large_item_threshold");
static DEFRAG: Setting = Setting::switch(c"bloom-defrag-enabled", true);
static NEW_FILTERS: Setting = Setting::choice(c"bloom-new-filters", &Maker::NAMES);
static INFO_ALIAS: Setting = Setting::switch(c"bloom-info-alias", true);

/// The settings that all families share; their names are from the time when there was only one family.
static SHARED: [&Setting; 6] = [
    &FILTER_MEMORY,
    &OBJECT_MEMORY,
    &LARGE,
    &NEW_FILTERS,
    &DEFRAG,
    &INFO_ALIAS,
];

/// Whether the server is still applying its config file.
static LOADING: AtomicBool = AtomicBool::new(true);

/// Sets the defaults from the arguments after the module's path, which are pairs of a name and a value,
/// and returns the settings to register, aliases first.
///
/// # Errors
/// An unknown name, a name without a value, or an invalid value.
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
        let value = setting.parse(&String::from_utf8_lossy(value));
        let value = value.map_err(|what| format!("{shown}: {what}"))?;
        setting.default.store(value, Relaxed);
        setting.value.store(value, Relaxed);
    }
    for setting in all() {
        (setting.check)(setting.number())?;
    }
    let aliases = all().filter_map(|setting| Some((setting, setting.alias?, true)));
    let names = all().map(|setting| (setting, setting.name, false));
    Ok(aliases
        .chain(names)
        .map(|(setting, name, hidden)| Registration {
            name,
            kind: setting.registered(),
            default: setting.default.load(Relaxed),
            target: setting,
            hidden,
        })
        .collect())
}

/// Applies the settings when the server has set them from its config file.
pub fn on_configured() {
    LOADING.store(false, Relaxed);
    apply();
}

/// Applies the settings that act when they are set.
fn apply() {
    ffi::set_info_alias(INFO_ALIAS.is_on());
}

/// Returns the memory limits for clients in bytes: of a filter, and of an object. The setting for objects limits the
/// total memory of a value, which includes `overhead_bytes` besides the object's own bytes.
pub fn memory_limits(overhead_bytes: u64) -> (u64, u64) {
    let object_bytes = match OBJECT_MEMORY.unsigned() {
        0 => u64::MAX,
        bytes => bytes.saturating_sub(overhead_bytes),
    };
    (FILTER_MEMORY.unsigned(), object_bytes)
}

/// Returns the implementation that new filters follow.
pub fn maker() -> Maker {
    Maker::ALL[NEW_FILTERS.index()]
}

/// Allows a client what `RedisBloom` 8.8 does not have.
///
/// # Errors
/// [`Error::NotMade`]: new filters are to be `RedisBloom`'s, so that its servers can take the data back.
pub fn require_in_redisbloom(ctx: Ctx, what: &'static str) -> Result<(), Error> {
    require_in(&[Maker::RedisBloom], ctx, what)
}

/// Allows a client what no peer has.
///
/// # Errors
/// [`Error::NotMade`]: new filters are to be a peer's, so that its servers can take the data back.
pub fn require_in_peers(ctx: Ctx, what: &'static str) -> Result<(), Error> {
    require_in(&[Maker::RedisBloom, Maker::ValkeyBloom], ctx, what)
}

fn require_in(lacking: &[Maker], ctx: Ctx, what: &'static str) -> Result<(), Error> {
    let maker = maker();
    if lacking.contains(&maker) && !ctx.must_obey() {
        return Err(Error::NotMade(maker.name(), what));
    }
    Ok(())
}

/// Returns the size in bytes above which a value is freed in the background, and an allocation is not moved by
/// defragmentation.
pub fn large_bytes() -> u64 {
    LARGE.unsigned()
}

/// Returns whether objects take part in defragmentation.
pub fn defrag_is_on() -> bool {
    DEFRAG.is_on()
}
