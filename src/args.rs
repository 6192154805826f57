//! Arguments to requests: a cursor over the words of a command, and a type for each command that
//! has options. What is malformed is refused here, before a key is looked at.

use std::ops::Range;

use crate::bloom::{Fraction, Growth, Params, Seed, Shape, Window};
use crate::reply::{Error, Field};
use crate::text::integer;

/// The words of a command, its name first.
pub trait Words {
    /// How many.
    fn count(&self) -> usize;
    /// The word at an index below the count.
    fn word(&self, index: usize) -> &[u8];
}

impl Words for [&[u8]] {
    fn count(&self) -> usize {
        self.len()
    }

    fn word(&self, index: usize) -> &[u8] {
        self[index]
    }
}

/// The words not yet taken.
struct Cursor<'a, W: ?Sized> {
    words: &'a W,
    next: usize,
}

impl<'a, W: Words + ?Sized> Cursor<'a, W> {
    /// Behind the command's name and key.
    fn behind_key(words: &'a W) -> Self {
        Self { words, next: 2 }
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let word = (self.next < self.words.count()).then(|| self.words.word(self.next))?;
        self.next += 1;
        Some(word)
    }

    fn rest(self) -> Range<usize> {
        self.next..self.words.count()
    }

    fn fraction(&mut self, field: Field) -> Result<Fraction, Error> {
        let number = self
            .take()
            .and_then(text)
            .and_then(|text| text.parse().ok());
        Fraction::new(number.ok_or(Error::Bad(field))?).ok_or(Error::Range(field))
    }

    fn expansion(&mut self) -> Result<u32, Error> {
        let expansion = self.take().and_then(integer).map(u32::try_from);
        expansion
            .and_then(Result::ok)
            .ok_or(Error::Bad(Field::Expansion))
    }

    /// A whole number above 0.
    fn positive(&mut self, field: Field) -> Result<u64, Error> {
        match self.take().and_then(integer).map(u64::try_from) {
            Some(Ok(0)) => Err(Error::Range(field)),
            Some(Ok(number)) => Ok(number),
            _ => Err(Error::Bad(field)),
        }
    }

    fn id(&mut self) -> Result<u64, Error> {
        let word = self.take().and_then(text);
        let digits = word.filter(|text| !text.starts_with('+'));
        let id = digits.and_then(|text| text.parse().ok());
        id.ok_or(Error::Bad(Field::Id))
    }

    /// A time since the epoch, in milliseconds.
    fn time(&mut self) -> Result<u64, Error> {
        let time = self.take().and_then(integer).map(u64::try_from);
        time.and_then(Result::ok).ok_or(Error::UnknownOption)
    }

    fn seed(&mut self) -> Result<Seed, Error> {
        let bytes = self.take().and_then(|word| word.try_into().ok());
        bytes.map(Seed::new).ok_or(Error::Seed)
    }
}

fn text(word: &[u8]) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

/// What a command says of an object's kind and growth, in any order.
#[derive(Default)]
struct ShapeWords {
    expansion: Option<u32>,
    nonscaling: bool,
    period_ms: Option<u64>,
    periods: Option<u64>,
    counting: bool,
}

impl ShapeWords {
    /// Takes an option, or tells that it is another.
    fn take<W: Words + ?Sized>(
        &mut self,
        option: &[u8],
        from: &mut Cursor<W>,
    ) -> Result<bool, Error> {
        if option.eq_ignore_ascii_case(b"EXPANSION") {
            self.expansion = Some(from.expansion()?);
        } else if option.eq_ignore_ascii_case(b"NONSCALING") {
            self.nonscaling = true;
        } else if option.eq_ignore_ascii_case(b"WINDOW") {
            self.period_ms = Some(from.positive(Field::Window)?);
        } else if option.eq_ignore_ascii_case(b"PERIODS") {
            let periods = from.positive(Field::Periods)?;
            let few = periods <= Window::MAX_PERIODS;
            self.periods = Some(few.then_some(periods).ok_or(Error::Bad(Field::Periods))?);
        } else if option.eq_ignore_ascii_case(b"COUNTING") {
            self.counting = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn settle(&self, params: Params) -> Result<Shape, Error> {
        let growth = match (self.nonscaling, self.expansion) {
            (true, None | Some(0)) => Growth::Fixed,
            (true, Some(_)) => return Err(Error::FixedExpansion),
            (false, Some(expansion)) => Growth::from_expansion(expansion),
            (false, None) => params.growth,
        };
        let window = match (self.period_ms, self.periods) {
            (None, None) => None,
            (Some(period_ms), Some(periods)) => {
                let window = Window::new(period_ms, periods);
                Some(window.ok_or(Error::Bad(Field::Window))?)
            }
            _ => return Err(Error::HalfWindow),
        };
        if window.is_some() && self.counting {
            return Err(Error::CountingWindow);
        }
        Ok(Shape {
            params: Params { growth, ..params },
            window,
            counting: self.counting,
        })
    }
}

/// BF.RESERVE.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserve {
    /// The object to make.
    pub shape: Shape,
    /// For how long the key is to live, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// Whether a filter that exists is no error.
    pub unless_exists: bool,
}

impl Reserve {
    /// Reads the words; what they do not say is the defaults'.
    ///
    /// # Errors
    /// What the contract says of each argument.
    pub fn parse<W: Words + ?Sized>(words: &W, defaults: Params) -> Result<Self, Error> {
        if words.count() < 4 {
            return Err(Error::Arity);
        }
        let mut from = Cursor::behind_key(words);
        let error_rate = from.fraction(Field::ErrorRate)?;
        let capacity = from.positive(Field::Capacity)?;
        let (mut shape, mut ttl_ms, mut unless_exists) = (ShapeWords::default(), None, false);
        while let Some(option) = from.take() {
            if option.eq_ignore_ascii_case(b"EX") {
                let ms = from.positive(Field::Ttl)?.checked_mul(1000);
                ttl_ms = Some(ms.ok_or(Error::Bad(Field::Ttl))?);
            } else if option.eq_ignore_ascii_case(b"PX") {
                ttl_ms = Some(from.positive(Field::Ttl)?);
            } else if option.eq_ignore_ascii_case(b"NX") {
                unless_exists = true;
            } else if !shape.take(option, &mut from)? {
                return Err(Error::UnknownOption);
            }
        }
        let params = Params {
            capacity,
            error_rate,
            ..defaults
        };
        Ok(Self {
            shape: shape.settle(params)?,
            ttl_ms,
            unless_exists,
        })
    }
}

/// BF.INSERT.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// The object to make if there is none; `None` if none is to be made.
    pub create: Option<Shape>,
    /// Its seed, if it was given.
    pub seed: Option<Seed>,
    /// How many items it has to be able to hold.
    pub scale_to: Option<u64>,
    /// For how long the items are to be found, in milliseconds.
    pub ttl_ms: Option<u64>,
    /// The items' id.
    pub id: Option<u64>,
    /// The time at which it happened, in milliseconds since the epoch: only a primary or an AOF says so.
    pub at_ms: Option<u64>,
    /// The indices of the items among the words.
    pub items: Range<usize>,
}

impl Insert {
    /// Reads the words; what they do not say is the defaults'.
    ///
    /// # Errors
    /// What the contract says of each argument.
    pub fn parse<W: Words + ?Sized>(words: &W, defaults: Params) -> Result<Self, Error> {
        if words.count() < 2 {
            return Err(Error::Arity);
        }
        let mut from = Cursor::behind_key(words);
        let (mut capacity, mut error_rate, mut tightening) = (None, None, defaults.tightening);
        let (mut nocreate, mut seed, mut scale_to) = (false, None, None);
        let (mut ttl_ms, mut id, mut at_ms) = (None, None, None);
        let mut shape = ShapeWords::default();
        let mut items = 0..0;
        while let Some(option) = from.take() {
            if option.eq_ignore_ascii_case(b"ITEMS") {
                items = from.rest();
                if items.is_empty() {
                    return Err(Error::Arity);
                }
                break;
            }
            if option.eq_ignore_ascii_case(b"CAPACITY") {
                capacity = Some(from.positive(Field::Capacity)?);
            } else if option.eq_ignore_ascii_case(b"ERROR") {
                error_rate = Some(from.fraction(Field::ErrorRate)?);
            } else if option.eq_ignore_ascii_case(b"TIGHTENING") {
                tightening = from.fraction(Field::Tightening)?;
            } else if option.eq_ignore_ascii_case(b"SEED") {
                seed = Some(from.seed()?);
            } else if option.eq_ignore_ascii_case(b"VALIDATESCALETO") {
                scale_to = Some(from.positive(Field::Capacity)?);
            } else if option.eq_ignore_ascii_case(b"TTL") {
                ttl_ms = Some(from.positive(Field::Ttl)?);
            } else if option.eq_ignore_ascii_case(b"ID") {
                id = Some(from.id()?);
            } else if option.eq_ignore_ascii_case(b"AT") {
                at_ms = Some(from.time()?);
            } else if option.eq_ignore_ascii_case(b"NOCREATE") {
                nocreate = true;
            } else if !shape.take(option, &mut from)? {
                return Err(Error::UnknownOption);
            }
        }
        if nocreate && (capacity.is_some() || error_rate.is_some()) {
            return Err(Error::NoCreate);
        }
        let shape = shape.settle(Params {
            capacity: capacity.unwrap_or(defaults.capacity),
            error_rate: error_rate.unwrap_or(defaults.error_rate),
            tightening,
            growth: defaults.growth,
        })?;
        if scale_to.is_some() && shape.params.growth == Growth::Fixed {
            return Err(Error::FixedScaleTo);
        }
        Ok(Self {
            create: (!nocreate).then_some(shape),
            seed,
            scale_to,
            ttl_ms,
            id,
            at_ms,
            items,
        })
    }
}

/// BF.DEL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete {
    /// The id with which the item was added.
    pub id: Option<u64>,
}

impl Delete {
    /// Reads the words.
    ///
    /// # Errors
    /// [`Error::Arity`], [`Error::Bad`] or [`Error::UnknownOption`].
    pub fn parse<W: Words + ?Sized>(words: &W) -> Result<Self, Error> {
        if words.count() < 3 {
            return Err(Error::Arity);
        }
        let mut from = Cursor { words, next: 3 };
        let mut id = None;
        while let Some(option) = from.take() {
            if !option.eq_ignore_ascii_case(b"ID") {
                return Err(Error::UnknownOption);
            }
            id = Some(from.id()?);
        }
        Ok(Self { id })
    }
}

/// A field of BF.INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InfoField {
    /// Items that the filters are made for.
    Capacity,
    /// Bytes of memory.
    Size,
    /// Filters in the stack.
    Filters,
    /// Items that it took.
    Items,
    /// The growth factor.
    Expansion,
    /// The rate that was asked for.
    Error,
    /// The ratio of successive rates.
    Tightening,
    /// Items that it can come to hold.
    MaxScaledCapacity,
    /// The rate that its filters let expect.
    EstimatedError,
    /// Length of a period.
    Window,
    /// Number of periods.
    Periods,
    /// Number of periods that answer.
    LivePeriods,
}

impl InfoField {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 12] = [
        Self::Capacity,
        Self::Size,
        Self::Filters,
        Self::Items,
        Self::Expansion,
        Self::Error,
        Self::Tightening,
        Self::MaxScaledCapacity,
        Self::EstimatedError,
        Self::Window,
        Self::Periods,
        Self::LivePeriods,
    ];

    fn word(self) -> &'static [u8] {
        match self {
            Self::Capacity => b"CAPACITY",
            Self::Size => b"SIZE",
            Self::Filters => b"FILTERS",
            Self::Items => b"ITEMS",
            Self::Expansion => b"EXPANSION",
            Self::Error => b"ERROR",
            Self::Tightening => b"TIGHTENING",
            Self::MaxScaledCapacity => b"MAXSCALEDCAPACITY",
            Self::EstimatedError => b"ESTIMATEDERROR",
            Self::Window => b"WINDOW",
            Self::Periods => b"PERIODS",
            Self::LivePeriods => b"LIVEPERIODS",
        }
    }

    /// Reads the words of BF.INFO: the field that they ask for, or `None` for all.
    ///
    /// # Errors
    /// [`Error::Arity`] or [`Error::UnknownField`].
    pub fn parse<W: Words + ?Sized>(words: &W) -> Result<Option<Self>, Error> {
        if !(2..=3).contains(&words.count()) {
            return Err(Error::Arity);
        }
        let mut from = Cursor::behind_key(words);
        let Some(word) = from.take() else {
            return Ok(None);
        };
        let field = Self::ALL
            .into_iter()
            .find(|f| word.eq_ignore_ascii_case(f.word()));
        field.map(Some).ok_or(Error::UnknownField)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server's settings would be; none of these numbers is in the lines below.
    fn defaults() -> Params {
        Params {
            capacity: 77,
            error_rate: fraction(0.07),
            tightening: fraction(0.7),
            growth: Growth::from_expansion(7),
        }
    }

    fn fraction(value: f64) -> Fraction {
        Fraction::new(value).unwrap()
    }

    /// Words between single spaces; two spaces have an empty word between them.
    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    fn reserve(line: &str) -> Result<Params, Error> {
        Reserve::parse(&words(line)[..], defaults()).map(|request| request.shape.params)
    }

    fn insert(line: &str) -> Result<Insert, Error> {
        Insert::parse(&words(line)[..], defaults())
    }

    #[track_caller]
    fn reserves(line: &str, error_rate: f64, capacity: u64, expansion: u32) {
        let expected = Params {
            capacity,
            error_rate: fraction(error_rate),
            growth: Growth::from_expansion(expansion),
            ..defaults()
        };
        assert_eq!(reserve(line), Ok(expected), "{line}");
    }

    #[track_caller]
    fn reserve_refused(line: &str, text: &str) {
        assert_eq!(reserve(line).unwrap_err().to_string(), text, "{line}");
    }

    #[track_caller]
    fn insert_refused(line: &str, text: &str) {
        assert_eq!(insert(line).unwrap_err().to_string(), text, "{line}");
    }

    /// The parameters that an INSERT creates with.
    #[track_caller]
    fn inserts(line: &str, change: impl FnOnce(&mut Params)) {
        let mut expected = defaults();
        change(&mut expected);
        assert_eq!(
            insert(line).unwrap().create,
            Some(Shape::plain(expected)),
            "{line}"
        );
    }

    const ARITY: &str = "ERR wrong number of arguments";
    const BAD_RATE: &str = "ERR bad error rate";
    const RATE_RANGE: &str = "ERR (0 < error rate range < 1)";
    const BAD_CAPACITY: &str = "ERR bad capacity";
    const CAPACITY_RANGE: &str = "ERR (capacity should be larger than 0)";
    const BAD_EXPANSION: &str = "ERR bad expansion";
    const BAD_RATIO: &str = "ERR bad tightening ratio";
    const RATIO_RANGE: &str = "ERR (0 < tightening ratio range < 1)";
    const UNKNOWN: &str = "ERR unknown argument received";
    const CANNOT_EXPAND: &str = "ERR nonscaling filters cannot expand";
    const NOCREATE: &str = "ERR NOCREATE cannot be used with CAPACITY or ERROR";
    const SEED: &str = "ERR invalid seed";
    const FIXED_SCALE_TO: &str = "ERR cannot use NONSCALING and VALIDATESCALETO options together";

    /// Words that are no number at all.
    const NO_NUMBERS: [&str; 16] = [
        "", "x", "0.1x", "x0.1", "0x10", "1e", "e5", "-", "+", ".", "--1", "1-", "1,5", "0.1.1",
        "½", "١",
    ];

    /// Words that are no whole number, or that 63 bits don't hold, or negative.
    const NO_COUNTS: [&str; 16] = [
        "1.5",
        "1.0",
        "1e3",
        "-1",
        "-100",
        "+1",
        "0x10",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999999",
        "-9223372036854775808",
        "-9223372036854775809",
        "nan",
        "inf",
        "1_000",
    ];

    #[test]
    fn reserve_takes_a_rate_and_a_capacity() {
        reserves("BF.RESERVE k 0.01 100", 0.01, 100, 7);
        reserves("bf.reserve k 0.999 1", 0.999, 1, 7);
        reserves("BF.RESERVE  0.01 100", 0.01, 100, 7);
        reserves(
            "BF.RESERVE k 1e-3 9223372036854775807",
            0.001,
            i64::MAX as u64,
            7,
        );
        reserves("BF.RESERVE k .5 10", 0.5, 10, 7);
        reserves("BF.RESERVE k 5e-324 10", 5e-324, 10, 7);
    }

    #[test]
    fn reserve_takes_options_in_any_case_and_order() {
        for (line, expansion) in [
            ("BF.RESERVE k 0.01 100 EXPANSION 3", 3),
            ("BF.RESERVE k 0.01 100 expansion 3", 3),
            ("BF.RESERVE k 0.01 100 eXpAnSiOn 1", 1),
            ("BF.RESERVE k 0.01 100 EXPANSION 4294967295", u32::MAX),
            ("BF.RESERVE k 0.01 100 EXPANSION 0", 0),
            ("BF.RESERVE k 0.01 100 NONSCALING", 0),
            ("BF.RESERVE k 0.01 100 nonscaling", 0),
            ("BF.RESERVE k 0.01 100 NonScaling NONSCALING", 0),
            // The last of the same option wins.
            ("BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION 4", 4),
            ("BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION 0", 0),
            ("BF.RESERVE k 0.01 100 EXPANSION 0 EXPANSION 3", 3),
            // What is non-scaling anyway may be said in both ways.
            ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION 0", 0),
            ("BF.RESERVE k 0.01 100 EXPANSION 0 NONSCALING", 0),
            (
                "BF.RESERVE k 0.01 100 EXPANSION 3 NONSCALING EXPANSION 0",
                0,
            ),
        ] {
            reserves(line, 0.01, 100, expansion);
        }
    }

    #[test]
    fn reserve_refusals() {
        for line in ["BF.RESERVE", "BF.RESERVE k", "BF.RESERVE k 0.01"] {
            reserve_refused(line, ARITY);
        }
        for word in NO_NUMBERS {
            reserve_refused(&format!("BF.RESERVE k {word} 100"), BAD_RATE);
            reserve_refused(&format!("BF.RESERVE k 0.01 {word}"), BAD_CAPACITY);
            let line = format!("BF.RESERVE k 0.01 100 EXPANSION {word}");
            reserve_refused(&line, BAD_EXPANSION);
        }
        for word in [
            "0", "0.0", "-0", "1", "1.0", "-0.1", "1.5", "100", "nan", "NaN",
        ] {
            reserve_refused(&format!("BF.RESERVE k {word} 100"), RATE_RANGE);
        }
        // Too small for a double, or too near to 1, is what it is rounded to.
        let near = "0.99999999999999999999";
        for word in ["inf", "-inf", "infinity", "1e400", "-1e400", "1e-400", near] {
            reserve_refused(&format!("BF.RESERVE k {word} 100"), RATE_RANGE);
        }
        for word in NO_COUNTS {
            reserve_refused(&format!("BF.RESERVE k 0.01 {word}"), BAD_CAPACITY);
            let line = format!("BF.RESERVE k 0.01 100 EXPANSION {word}");
            reserve_refused(&line, BAD_EXPANSION);
        }
        reserve_refused("BF.RESERVE k 0.01 0", CAPACITY_RANGE);
        for line in [
            "BF.RESERVE k 0.01 100 EXPANSION",
            "BF.RESERVE k 0.01 100 EXPANSION 3 EXPANSION",
            "BF.RESERVE k 0.01 100 EXPANSION NONSCALING",
            "BF.RESERVE k 0.01 100 EXPANSION 4294967296",
            "BF.RESERVE k 0.01 100 EXPANSION 9223372036854775807",
        ] {
            reserve_refused(line, BAD_EXPANSION);
        }
        for line in [
            "BF.RESERVE k 0.01 100 EXPANSION 3 NONSCALING",
            "BF.RESERVE k 0.01 100 NONSCALING EXPANSION 3",
            "BF.RESERVE k 0.01 100 nonscaling expansion 1",
            "BF.RESERVE k 0.01 100 EXPANSION 0 NONSCALING EXPANSION 1",
        ] {
            reserve_refused(line, CANNOT_EXPAND);
        }
        for line in [
            "BF.RESERVE k 0.01 100 NONSCALE",
            "BF.RESERVE k 0.01 100 NONSCALINGS",
            "BF.RESERVE k 0.01 100 EXPANSION 3 4",
            "BF.RESERVE k 0.01 100 ",
            "BF.RESERVE k 0.01 100 CAPACITY 100",
            "BF.RESERVE k 0.01 100 TIGHTENING 0.5",
            "BF.RESERVE k 0.01 100 NOCREATE",
            "BF.RESERVE k 0.01 100 ITEMS a",
        ] {
            reserve_refused(line, UNKNOWN);
        }
    }

    /// A number is the whole word: spaces around it, a NUL behind it, or bytes that are no text.
    #[test]
    fn numbers_with_anything_beside_them_are_refused() {
        let beside: [[&[u8]; 2]; 6] = [
            [b" ", b""],
            [b"", b" "],
            [b"", b"\0"],
            [b"", b"\n"],
            [b"", b"\xff"],
            [b"\xc3", b""],
        ];
        for [before, behind] in beside {
            let wrong = |number: &[u8]| [before, number, behind].concat();
            let refused = |words: &[&[u8]], text: &str| {
                let error = Reserve::parse(words, defaults()).unwrap_err();
                assert_eq!(error.to_string(), text, "{words:?}");
            };
            refused(&[b"BF.RESERVE", b"k", &wrong(b"0.1"), b"5"], BAD_RATE);
            refused(&[b"BF.RESERVE", b"k", b"0.1", &wrong(b"5")], BAD_CAPACITY);
            let line: [&[u8]; 6] = [
                b"BF.RESERVE",
                b"k",
                b"0.1",
                b"5",
                b"EXPANSION",
                &wrong(b"2"),
            ];
            refused(&line, BAD_EXPANSION);
            let line: [&[u8]; 5] = [b"BF.RESERVE", b"k", b"0.1", b"5", &wrong(b"NONSCALING")];
            refused(&line, UNKNOWN);
            let line: [&[u8]; 4] = [b"BF.INSERT", b"k", b"TIGHTENING", &wrong(b"0.1")];
            let error = Insert::parse(&line[..], defaults()).unwrap_err();
            assert_eq!(error.to_string(), BAD_RATIO);
        }
    }

    #[test]
    fn insert_takes_the_defaults_where_nothing_is_said() {
        let expected = Insert {
            create: Some(Shape::plain(defaults())),
            seed: None,
            scale_to: None,
            ttl_ms: None,
            id: None,
            at_ms: None,
            items: 0..0,
        };
        assert_eq!(insert("BF.INSERT k"), Ok(expected));
        inserts("BF.INSERT k ITEMS a", |_| ());
        // An option stands for itself alone.
        inserts("BF.INSERT k CAPACITY 5", |p| p.capacity = 5);
        inserts("BF.INSERT k ERROR 0.5", |p| p.error_rate = fraction(0.5));
        inserts("BF.INSERT k TIGHTENING 0.25", |p| {
            p.tightening = fraction(0.25);
        });
        inserts("BF.INSERT k EXPANSION 3", |p| {
            p.growth = Growth::from_expansion(3);
        });
        inserts("BF.INSERT k EXPANSION 0", |p| p.growth = Growth::Fixed);
        inserts("BF.INSERT k NONSCALING", |p| p.growth = Growth::Fixed);
    }

    #[test]
    fn insert_takes_options_in_any_case_and_order() {
        let all = |params: &mut Params| {
            *params = Params {
                capacity: 5,
                error_rate: fraction(0.5),
                tightening: fraction(0.25),
                growth: Growth::from_expansion(3),
            };
        };
        for line in [
            "BF.INSERT k CAPACITY 5 ERROR 0.5 TIGHTENING 0.25 EXPANSION 3 ITEMS a",
            "BF.INSERT k expansion 3 tightening 0.25 error 0.5 capacity 5 items a",
            "BF.INSERT k eXpansion 3 CapacitY 5 tIGHTENING 0.25 ErRoR 0.5",
            // The last of the same option wins.
            "BF.INSERT k CAPACITY 6 CAPACITY 5 ERROR 0.6 ERROR 0.5 TIGHTENING 0.26 TIGHTENING 0.25 \
             EXPANSION 4 EXPANSION 3",
        ] {
            inserts(line, all);
        }
        let seed = "s".repeat(32);
        let line = format!("BF.INSERT k sEED {seed} validatescaleto 9 NoNsCaLiNg");
        insert_refused(&line, FIXED_SCALE_TO);
        let line = format!(
            "BF.INSERT k SEED {} validateScaleTo 8 SEED {seed} VALIDATESCALETO 9",
            "r".repeat(32)
        );
        let request = insert(&line).unwrap();
        assert_eq!(request.seed, Some(Seed::new([b's'; 32])));
        assert_eq!(request.scale_to, Some(9));
        assert_eq!(request.create, Some(Shape::plain(defaults())));
    }

    #[test]
    fn insert_with_nocreate_creates_nothing() {
        for line in [
            "BF.INSERT k NOCREATE ITEMS a",
            "BF.INSERT k nocreate NOCREATE ITEMS a",
            "BF.INSERT k NOCREATE EXPANSION 3 ITEMS a",
            "BF.INSERT k NONSCALING NOCREATE ITEMS a",
            "BF.INSERT k TIGHTENING 0.2 NOCREATE ITEMS a",
        ] {
            let request = insert(line).unwrap();
            assert_eq!(request.create, None, "{line}");
            assert_eq!(request.items.len(), 1, "{line}");
        }
        for line in [
            "BF.INSERT k NOCREATE CAPACITY 5 ITEMS a",
            "BF.INSERT k CAPACITY 5 NOCREATE ITEMS a",
            "BF.INSERT k NOCREATE ERROR 0.5 ITEMS a",
            "BF.INSERT k ERROR 0.5 nocreate",
            "BF.INSERT k ERROR 0.5 NOCREATE CAPACITY 5",
        ] {
            insert_refused(line, NOCREATE);
        }
    }

    #[test]
    fn insert_refusals() {
        for line in [
            "",
            "BF.INSERT",
            "BF.INSERT k ITEMS",
            "BF.INSERT k CAPACITY 5 items",
        ] {
            insert_refused(line, ARITY);
        }
        for (option, text) in [
            ("CAPACITY", BAD_CAPACITY),
            ("ERROR", BAD_RATE),
            ("EXPANSION", BAD_EXPANSION),
            ("TIGHTENING", BAD_RATIO),
            ("VALIDATESCALETO", BAD_CAPACITY),
            ("SEED", SEED),
        ] {
            // Without a value, and with another option for a value.
            insert_refused(&format!("BF.INSERT k {option}"), text);
            insert_refused(&format!("BF.INSERT k {option} ITEMS a"), text);
            insert_refused(&format!("BF.INSERT k ITEM {option}"), UNKNOWN);
            for word in NO_NUMBERS {
                insert_refused(&format!("BF.INSERT k {option} {word} ITEMS a"), text);
            }
        }
        for word in NO_COUNTS {
            for (option, text) in [
                ("CAPACITY", BAD_CAPACITY),
                ("EXPANSION", BAD_EXPANSION),
                ("VALIDATESCALETO", BAD_CAPACITY),
            ] {
                insert_refused(&format!("BF.INSERT k {option} {word} ITEMS a"), text);
            }
        }
        for option in ["CAPACITY", "VALIDATESCALETO"] {
            insert_refused(&format!("BF.INSERT k {option} 0 ITEMS a"), CAPACITY_RANGE);
        }
        for word in ["0", "1", "-0.1", "1.5", "nan", "inf", "-inf", "1e-400"] {
            insert_refused(&format!("BF.INSERT k ERROR {word}"), RATE_RANGE);
            insert_refused(&format!("BF.INSERT k TIGHTENING {word}"), RATIO_RANGE);
        }
        for line in [
            "BF.INSERT k EXPANSION 3 NONSCALING ITEMS a",
            "BF.INSERT k NONSCALING EXPANSION 3 ITEMS a",
        ] {
            insert_refused(line, CANNOT_EXPAND);
        }
        for line in [
            "BF.INSERT k NONSCALING VALIDATESCALETO 9",
            "BF.INSERT k VALIDATESCALETO 9 NONSCALING ITEMS a",
            "BF.INSERT k VALIDATESCALETO 9 EXPANSION 0 ITEMS a",
        ] {
            insert_refused(line, FIXED_SCALE_TO);
        }
        for line in [
            "BF.INSERT k a",
            "BF.INSERT k ",
            "BF.INSERT k ITEM a",
            "BF.INSERT k CAPACITY 5 6",
            "BF.INSERT k WINDOWS",
        ] {
            insert_refused(line, UNKNOWN);
        }
    }

    #[test]
    fn insert_takes_a_seed_of_any_32_bytes() {
        let parse = |seed: &[u8]| {
            let line: [&[u8]; 6] = [b"BF.INSERT", b"k", b"SEED", seed, b"ITEMS", b"a"];
            Insert::parse(&line[..], defaults()).map(|request| request.seed)
        };
        let mut bytes = [0; 32];
        assert_eq!(parse(&bytes), Ok(Some(Seed::new(bytes))));
        bytes = std::array::from_fn(|index| 0xf0_u8.wrapping_add(index.to_le_bytes()[0]));
        assert_eq!(parse(&bytes), Ok(Some(Seed::new(bytes))));
        for length in [0, 1, 31, 33, 64] {
            assert_eq!(parse(&vec![b's'; length]), Err(Error::Seed), "{length}");
        }
    }

    #[test]
    fn items_are_all_that_stands_behind_the_word() {
        for (line, items) in [
            ("BF.INSERT k ITEMS a", 3..4),
            ("BF.INSERT k ITEMS a b c", 3..6),
            ("BF.INSERT k CAPACITY 5 ITEMS a b", 5..7),
            // An empty item, and ones that are named like options.
            ("BF.INSERT k ITEMS ", 3..4),
            ("BF.INSERT k ITEMS NOCREATE", 3..4),
            ("BF.INSERT k ITEMS CAPACITY 0 ITEMS", 3..6),
            ("BF.INSERT k items items", 3..4),
        ] {
            let request = insert(line).unwrap();
            assert_eq!(request.items, items, "{line}");
            assert_eq!(
                request.create.map(|shape| shape.params.capacity == 5),
                Some(line.contains("CAPACITY 5"))
            );
        }
        // Nothing is read out of the bytes of an item or a key.
        let line: [&[u8]; 6] = [
            b"BF.INSERT",
            b"ITEMS",
            b"ITEMS",
            b"a b",
            b"\0\xff",
            b"NOCREATE\0",
        ];
        let request = Insert::parse(&line[..], defaults()).unwrap();
        assert_eq!(request.items, 3..6);
        assert_eq!(request.create, Some(Shape::plain(defaults())));
    }

    #[test]
    fn defaults_that_do_not_scale_are_overruled_by_an_expansion() {
        let fixed = Params {
            growth: Growth::Fixed,
            ..defaults()
        };
        let reserve = |line| Reserve::parse(&words(line)[..], fixed).map(|r| r.shape.params.growth);
        assert_eq!(reserve("BF.RESERVE k 0.1 5"), Ok(Growth::Fixed));
        assert_eq!(reserve("BF.RESERVE k 0.1 5 NONSCALING"), Ok(Growth::Fixed));
        let scaling = Ok(Growth::from_expansion(2));
        assert_eq!(reserve("BF.RESERVE k 0.1 5 EXPANSION 2"), scaling);
        let insert = |line| Insert::parse(&words(line)[..], fixed);
        let request = insert("BF.INSERT k EXPANSION 2 VALIDATESCALETO 9").unwrap();
        assert_eq!(request.scale_to, Some(9));
        let error = insert("BF.INSERT k VALIDATESCALETO 9").unwrap_err();
        assert_eq!(error.to_string(), FIXED_SCALE_TO);
    }

    const BAD_WINDOW: &str = "ERR bad window";
    const BAD_PERIODS: &str = "ERR bad periods";
    const BAD_TTL: &str = "ERR bad ttl";
    const BAD_ID: &str = "ERR bad id";
    const HALF_WINDOW: &str = "ERR WINDOW and PERIODS have to be given together";
    const COUNTING_WINDOW: &str = "ERR WINDOW and COUNTING cannot be combined";

    /// The shape that these words ask for behind a RESERVE and in an INSERT.
    #[track_caller]
    fn shapes(options: &str, window: Option<(u64, u64)>, counting: bool) {
        let window = window.map(|(period_ms, periods)| Window::new(period_ms, periods).unwrap());
        let line = format!("BF.RESERVE k 0.01 100 {options}");
        let request = Reserve::parse(&words(&line)[..], defaults()).unwrap();
        assert_eq!(request.shape.window, window, "{line}");
        assert_eq!(request.shape.counting, counting, "{line}");
        assert_eq!((request.ttl_ms, request.unless_exists), (None, false));
        let line = format!("BF.INSERT k {options} ITEMS a");
        let shape = insert(&line).unwrap().create.unwrap();
        assert_eq!((shape.window, shape.counting), (window, counting), "{line}");
        assert_eq!(shape.params.capacity, defaults().capacity);
    }

    #[track_caller]
    fn shape_refused(options: &str, text: &str) {
        reserve_refused(&format!("BF.RESERVE k 0.01 100 {options}"), text);
        insert_refused(&format!("BF.INSERT k {options}"), text);
    }

    #[test]
    fn windows_and_counters_are_asked_for_in_any_case_and_order() {
        for (options, window, counting) in [
            ("COUNTING", None, true),
            ("counting COUNTING EXPANSION 3", None, true),
            ("WINDOW 60000 PERIODS 5", Some((60_000, 5)), false),
            (
                "periods 5 NONSCALING window 60000",
                Some((60_000, 5)),
                false,
            ),
            ("Window 1 Periods 1", Some((1, 1)), false),
            ("WINDOW 2 PERIODS 1440", Some((2, 1_440)), false),
            // The last of the same option wins.
            ("WINDOW 9 PERIODS 8 WINDOW 7 PERIODS 6", Some((7, 6)), false),
            (
                "WINDOW 9223372036854775807 PERIODS 1",
                Some((i64::MAX as u64, 1)),
                false,
            ),
            (
                "WINDOW 4611686018427387903 PERIODS 2",
                Some((i64::MAX as u64 / 2, 2)),
                false,
            ),
        ] {
            shapes(options, window, counting);
        }
    }

    #[test]
    fn windows_that_can_not_be_are_refused() {
        for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
            shape_refused(&format!("WINDOW {word} PERIODS 5"), BAD_WINDOW);
            shape_refused(&format!("PERIODS {word} WINDOW 5"), BAD_PERIODS);
        }
        for options in ["WINDOW", "PERIODS 5 WINDOW", "WINDOW PERIODS 5"] {
            shape_refused(options, BAD_WINDOW);
        }
        for options in [
            "PERIODS",
            "WINDOW 5 PERIODS COUNTING",
            "WINDOW 5 PERIODS 1441",
            "WINDOW 5 PERIODS 65535",
            "WINDOW 5 PERIODS 9223372036854775807",
        ] {
            shape_refused(options, BAD_PERIODS);
        }
        shape_refused("WINDOW 0 PERIODS 5", "ERR (window should be larger than 0)");
        shape_refused(
            "WINDOW 5 PERIODS 0",
            "ERR (periods should be larger than 0)",
        );
        for options in [
            "WINDOW 5",
            "PERIODS 5",
            "WINDOW 5 COUNTING",
            "COUNTING PERIODS 5",
        ] {
            shape_refused(options, HALF_WINDOW);
        }
        for options in [
            "WINDOW 9223372036854775807 PERIODS 2",
            "WINDOW 4611686018427387904 PERIODS 2",
            "WINDOW 6405119470038039 PERIODS 1440",
        ] {
            shape_refused(options, BAD_WINDOW);
        }
        for options in ["WINDOW 5 PERIODS 5 5", "COUNTING 1", "COUNTERS", "PERIOD 5"] {
            shape_refused(options, UNKNOWN);
        }
    }

    #[test]
    fn windows_do_not_combine_with_counters() {
        for options in [
            "WINDOW 5 PERIODS 5 COUNTING",
            "COUNTING WINDOW 5 PERIODS 5",
            "window 5 Counting PERIODS 5",
            "PERIODS 5 COUNTING NONSCALING WINDOW 5 COUNTING",
            "WINDOW 5 PERIODS 1440 EXPANSION 1 COUNTING",
        ] {
            shape_refused(options, COUNTING_WINDOW);
        }
        // A word that is wrong by itself is refused first, wherever it stands.
        shape_refused("COUNTING WINDOW 5 PERIODS 1441", BAD_PERIODS);
        shape_refused("WINDOW 5 PERIODS 5 COUNTING WINDOW x", BAD_WINDOW);
        shape_refused("WINDOW 5 PERIODS 5 COUNTING 1", UNKNOWN);
        shape_refused("COUNTING WINDOW 9223372036854775807 PERIODS 2", BAD_WINDOW);
        shape_refused(
            "WINDOW 5 PERIODS 5 COUNTING EXPANSION 2 NONSCALING",
            CANNOT_EXPAND,
        );
        reserve_refused(
            "BF.RESERVE k 0.01 100 WINDOW 5 PERIODS 5 COUNTING EX 0",
            "ERR (ttl should be larger than 0)",
        );
        insert_refused(
            "BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NOCREATE ITEMS a",
            COUNTING_WINDOW,
        );
        insert_refused(
            "BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NOCREATE CAPACITY 5",
            NOCREATE,
        );
        insert_refused(
            "BF.INSERT k WINDOW 5 PERIODS 5 COUNTING NONSCALING VALIDATESCALETO 5",
            COUNTING_WINDOW,
        );
        // The same words behind ITEMS are items.
        let request = insert("BF.INSERT k COUNTING ITEMS WINDOW 5 PERIODS 5").unwrap();
        assert_eq!(request.create.unwrap().window, None);
    }

    #[test]
    fn reserve_takes_a_time_to_live_and_a_condition() {
        let parse = |options: &str| {
            let line = format!("BF.RESERVE k 0.01 100 {options}");
            Reserve::parse(&words(&line)[..], defaults())
                .map(|request| (request.ttl_ms, request.unless_exists))
                .map_err(|error| error.to_string())
        };
        for (options, ttl_ms, unless_exists) in [
            ("EX 1", Some(1_000), false),
            ("px 1", Some(1), false),
            ("NX", None, true),
            ("nx Ex 60 NX", Some(60_000), true),
            ("EX 60 PX 5", Some(5), false),
            ("PX 5 EX 60 COUNTING", Some(60_000), false),
            ("PX 9223372036854775807", Some(i64::MAX as u64), false),
            (
                "EX 9223372036854775",
                Some(9_223_372_036_854_775_000),
                false,
            ),
        ] {
            assert_eq!(parse(options), Ok((ttl_ms, unless_exists)), "{options}");
        }
        let refused = |options: &str, text: &str| {
            assert_eq!(parse(options), Err(text.to_owned()), "{options}");
        };
        for option in ["EX", "PX"] {
            refused(option, BAD_TTL);
            refused(&format!("{option} NX"), BAD_TTL);
            refused(&format!("{option} 0"), "ERR (ttl should be larger than 0)");
            for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
                refused(&format!("{option} {word}"), BAD_TTL);
            }
        }
        refused("EX 9223372036854775807", BAD_TTL);
        for options in ["TTL 5", "ID 5", "AT 5", "XX", "NX 1", "EXAT 5"] {
            refused(options, UNKNOWN);
        }
    }

    #[test]
    fn insert_takes_times_and_ids() {
        for (line, ttl_ms, id, at_ms) in [
            ("BF.INSERT k TTL 5 ITEMS a", Some(5), None, None),
            ("BF.INSERT k ID 5 ITEMS a", None, Some(5), None),
            ("BF.INSERT k AT 5 ITEMS a", None, None, Some(5)),
            (
                "BF.INSERT k at 3 id 0 TTL 4 ttl 1 ID 2 NOCREATE ITEMS TTL",
                Some(1),
                Some(2),
                Some(3),
            ),
            (
                "BF.INSERT k TTL 9223372036854775807 ID 18446744073709551615 AT 9223372036854775807",
                Some(i64::MAX as u64),
                Some(u64::MAX),
                Some(i64::MAX as u64),
            ),
            ("BF.INSERT k AT 0 ID 0", None, Some(0), Some(0)),
        ] {
            let request = insert(line).unwrap();
            assert_eq!(
                (request.ttl_ms, request.id, request.at_ms),
                (ttl_ms, id, at_ms),
                "{line}"
            );
        }
        for (option, text) in [("TTL", BAD_TTL), ("ID", BAD_ID), ("AT", UNKNOWN)] {
            insert_refused(&format!("BF.INSERT k {option}"), text);
            insert_refused(&format!("BF.INSERT k {option} ITEMS a"), text);
            for word in NO_NUMBERS.into_iter().chain(NO_COUNTS) {
                let fits = word.parse::<u64>().is_ok() && !word.starts_with('+');
                if option != "ID" || !fits {
                    insert_refused(&format!("BF.INSERT k {option} {word} ITEMS a"), text);
                }
            }
        }
        insert_refused("BF.INSERT k TTL 0", "ERR (ttl should be larger than 0)");
        insert_refused("BF.INSERT k ID 18446744073709551616", BAD_ID);
        for line in ["BF.INSERT k EX 5", "BF.INSERT k PX 5", "BF.INSERT k NX"] {
            insert_refused(line, UNKNOWN);
        }
    }

    #[test]
    fn del_takes_an_id() {
        let parse = |line: &str| {
            Delete::parse(&words(line)[..])
                .map(|request| request.id)
                .map_err(|error| error.to_string())
        };
        for (line, id) in [
            ("BF.DEL k item", None),
            ("BF.DEL k ID", None),
            ("BF.DEL ID AT", None),
            ("BF.DEL k item ID 0", Some(0)),
            ("BF.DEL k item id 18446744073709551615", Some(u64::MAX)),
            ("BF.DEL k ID ID 4 Id 3", Some(3)),
        ] {
            assert_eq!(parse(line), Ok(id), "{line}");
        }
        let refused = |line: &str, text: &str| {
            assert_eq!(parse(line), Err(text.to_owned()), "{line}");
        };
        for line in ["", "BF.DEL", "BF.DEL k"] {
            refused(line, ARITY);
        }
        for word in ["", "x", "-1", "+1", "1.0", "18446744073709551616", "½"] {
            refused(&format!("BF.DEL k item ID {word}"), BAD_ID);
        }
        refused("BF.DEL k item ID", BAD_ID);
        for line in [
            "BF.DEL k item AT",
            "BF.DEL k item AT 5",
            "BF.DEL k item ID 5 AT 5",
            "BF.DEL k item other",
            "BF.DEL k item ID 5 6",
            "BF.DEL k item TTL 5",
        ] {
            refused(line, UNKNOWN);
        }
    }

    #[test]
    fn info_takes_one_field_or_none() {
        let parse = |line: &str| InfoField::parse(&words(line)[..]);
        assert_eq!(parse("BF.INFO k"), Ok(None));
        for (word, field) in [
            ("CAPACITY", InfoField::Capacity),
            ("SIZE", InfoField::Size),
            ("FILTERS", InfoField::Filters),
            ("ITEMS", InfoField::Items),
            ("EXPANSION", InfoField::Expansion),
            ("ERROR", InfoField::Error),
            ("TIGHTENING", InfoField::Tightening),
            ("MAXSCALEDCAPACITY", InfoField::MaxScaledCapacity),
            ("ESTIMATEDERROR", InfoField::EstimatedError),
            ("WINDOW", InfoField::Window),
            ("PERIODS", InfoField::Periods),
            ("LIVEPERIODS", InfoField::LivePeriods),
        ] {
            for word in [word.to_owned(), word.to_lowercase(), mixed(word)] {
                assert_eq!(
                    parse(&format!("BF.INFO k {word}")),
                    Ok(Some(field)),
                    "{word}"
                );
            }
        }
        for line in ["BF.INFO", "BF.INFO k SIZE SIZE", "BF.INFO k SIZE "] {
            assert_eq!(parse(line).unwrap_err().to_string(), ARITY, "{line}");
        }
        for word in [
            "",
            "SIZES",
            "SIZ",
            "Number of filters",
            "SIZE\0",
            "WINDOWS",
            "ESTIMATED",
            "*",
        ] {
            let line: [&[u8]; 3] = [b"BF.INFO", b"k", word.as_bytes()];
            let error = InfoField::parse(&line[..]).unwrap_err();
            assert_eq!(error.to_string(), "ERR invalid information value", "{word}");
        }
        let line: [&[u8]; 3] = [b"BF.INFO", b"k", b"\xff"];
        assert_eq!(InfoField::parse(&line[..]), Err(Error::UnknownField));
    }

    /// Every other letter small.
    fn mixed(word: &str) -> String {
        let letters = word.chars().enumerate();
        letters
            .map(|(index, letter)| {
                if index % 2 == 0 {
                    letter
                } else {
                    letter.to_ascii_lowercase()
                }
            })
            .collect()
    }
}
