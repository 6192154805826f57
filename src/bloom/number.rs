//! Numbers that other floors agree on: fractions, powers, sums that can't overflow, and how large they
//! may become.

/// The largest capacity of an object, all filters together, and the most bytes that its filters may take.
pub const MAX_CAPACITY: u64 = i64::MAX as u64;

/// Half of [`MAX_CAPACITY`], and more than anybody ever adds. An object with periods or counters stays below
/// it, so that its sums have room to grow and it can be loaded again.
pub const MANY: u64 = MAX_CAPACITY / 2;

/// A number strictly between 0 and 1: an error rate, or a tightening ratio.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// 0.5: the tightening ratio that selects this module's own law of growth.
    pub const HALF: Self = Self(0.5);

    /// The number, or `None` if it does not lie strictly between 0 and 1 (NaN does not).
    pub const fn new(value: f64) -> Option<Self> {
        if 0.0 < value && value < 1.0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// `base` to the power of `exponent`, by squaring. `f64::powf` may differ between machines, and then a
/// replica's filters would.
pub fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

/// The powers of one number, each as [`power`] computes it, in less time.
pub struct Powers([f64; 64]);

impl Powers {
    /// The powers of a number.
    pub fn of(mut base: f64) -> Self {
        Self(std::array::from_fn(|_| {
            let square = base;
            base *= base;
            square
        }))
    }

    /// The number to the power of `exponent`.
    pub fn get(&self, mut exponent: u64) -> f64 {
        let mut result = 1.0;
        while exponent > 0 {
            result *= self.0[exponent.trailing_zeros() as usize];
            exponent &= exponent - 1;
        }
        result
    }
}

/// `e` to the power of a number: the same on every processor, as the C library's is not.
pub fn exp(exponent: f64) -> f64 {
    libm::exp(exponent)
}

/// The natural logarithm of a number: the same on every processor, as the C library's is not.
pub fn ln(number: f64) -> f64 {
    libm::log(number)
}

/// Sums over filters, none of which passes [`MAX_CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sum of the filters' capacities.
    pub capacity: u64,
    /// Number of items in the filters.
    pub items: u64,
    /// Bytes of the filters.
    pub bytes: u64,
}

impl Sums {
    /// Adds a filter.
    pub fn add(&mut self, capacity: u64, items: u64, bytes: u64) -> Result<(), &'static str> {
        let add = |sum: u64, more: u64| {
            let total = sum.checked_add(more).filter(|sum| *sum <= MAX_CAPACITY);
            total.ok_or("sum out of range")
        };
        *self = Self {
            capacity: add(self.capacity, capacity)?,
            items: add(self.items, items)?,
            bytes: add(self.bytes, bytes)?,
        };
        Ok(())
    }
}
