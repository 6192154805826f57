//! BF.INFO: its fields, and its request.

use std::ffi::CStr;

use crate::error::Error;
use crate::words::CommandWords;

/// A field of BF.INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoField {
    /// The sum of the filters' capacities.
    Capacity,
    /// The object's memory in bytes.
    Size,
    /// The number of filters in the stack.
    Filters,
    /// The number of items inserted.
    Items,
    /// The growth factor.
    Expansion,
    /// The requested error rate.
    Error,
    /// The ratio of successive filters' error rates.
    Tightening,
    /// The capacity that the object can grow to.
    MaxScaledCapacity,
    /// The error rate estimated from the fill of the filters.
    EstimatedError,
    /// The length of a period.
    Window,
    /// The number of periods.
    Periods,
    /// The number of periods that lookups search.
    LivePeriods,
    /// The number of items in the period that takes additions.
    PeriodItems,
    /// What the object supports beyond additions and lookups.
    Kind,
    /// The bytes of the feed.
    FeedBytes,
    /// The number of clients that read the feed lately.
    FeedReaders,
}

impl InfoField {
    /// All fields in the order of the reply, which is that of their declaration, each with its name there and its word in
    /// the command.
    pub const ALL: [(Self, &'static CStr, &'static str); 16] = [
        (Self::Capacity, c"Capacity", "CAPACITY"),
        (Self::Size, c"Size", "SIZE"),
        (Self::Filters, c"Number of filters", "FILTERS"),
        (Self::Items, c"Number of items inserted", "ITEMS"),
        (Self::Expansion, c"Expansion rate", "EXPANSION"),
        (Self::Error, c"Error rate", "ERROR"),
        (Self::Tightening, c"Tightening ratio", "TIGHTENING"),
        (
            Self::MaxScaledCapacity,
            c"Max scaled capacity",
            "MAXSCALEDCAPACITY",
        ),
        (
            Self::EstimatedError,
            c"Estimated error rate",
            "ESTIMATEDERROR",
        ),
        (Self::Window, c"Window", "WINDOW"),
        (Self::Periods, c"Periods", "PERIODS"),
        (Self::LivePeriods, c"Live periods", "LIVEPERIODS"),
        (Self::PeriodItems, c"Items in current period", "PERIODITEMS"),
        (Self::Kind, c"Kind", "KIND"),
        (Self::FeedBytes, c"Feed bytes", "FEEDBYTES"),
        (Self::FeedReaders, c"Feed readers", "FEEDREADERS"),
    ];

    /// Returns the field's name in the reply.
    pub const fn title(self) -> &'static CStr {
        Self::ALL[self as usize].1
    }
}

/// What BF.INFO without a field answers, set by `bf.bloom-info-fields`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoFields {
    /// `RedisBloom`'s fields. Some clients accept no other field, or parse every value as an integer.
    Five,
    /// The fields of valkey-bloom 1.0, in its order.
    ValkeyBloom,
    /// All fields.
    All,
}

impl InfoFields {
    /// All values.
    pub const ALL: [Self; 3] = [Self::Five, Self::ValkeyBloom, Self::All];
    /// Their names, in the same order.
    pub const NAMES: [&str; 3] = ["five", "valkey-bloom", "all"];

    /// Returns the fields in the order of the reply. An object may lack some of them.
    pub fn fields(self) -> impl Iterator<Item = InfoField> {
        // RedisBloom's come first, and then those that valkey-bloom adds.
        let mut fields = InfoField::ALL.map(|(field, ..)| field);
        let last = match self {
            Self::Five => InfoField::Expansion,
            Self::ValkeyBloom => InfoField::MaxScaledCapacity,
            Self::All => InfoField::FeedReaders,
        };
        if self == Self::ValkeyBloom {
            // It has the error rate before the growth factor.
            fields.swap(InfoField::Expansion as usize, InfoField::Error as usize);
        }
        fields.into_iter().take(last as usize + 1)
    }
}

/// The request of BF.INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoRequest {
    /// The fields that the setting names.
    Plain,
    /// ALL: all fields.
    All,
    /// One field.
    One(InfoField),
}

impl InfoRequest {
    /// The word that requests all fields.
    pub const ALL: &str = "ALL";

    /// Parses the words.
    ///
    /// # Errors
    /// [`Error::Arity`] or `unknown`, the error of a word that is not a field.
    pub fn parse<W: CommandWords + ?Sized>(words: &W, unknown: Error) -> Result<Self, Error> {
        match words.count() {
            2 => return Ok(Self::Plain),
            3 => {}
            _ => return Err(Error::Arity),
        }
        let word = words.word(2);
        if word.eq_ignore_ascii_case(Self::ALL.as_bytes()) {
            return Ok(Self::All);
        }
        let mut all = InfoField::ALL.into_iter();
        let found = all.find(|(_, _, own)| word.eq_ignore_ascii_case(own.as_bytes()));
        found.map(|(field, ..)| Self::One(field)).ok_or(unknown)
    }
}
