//! The parameters of a stack of filters.

use std::num::NonZeroU32;

use crate::number::Fraction;

use super::tightening::Tightening;

/// The growth of a stack when its newest filter is full.
// This tag also discriminates the variants of a law, which makes every object eight bytes smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Growth {
    /// No growth: the object is non-scaling.
    Fixed,
    /// A filter of its capacity times this factor is stacked on it.
    By(NonZeroU32),
}

impl Growth {
    /// Returns the growth with an expansion factor; 0 stands for a non-scaling object.
    pub const fn from_expansion(expansion: u32) -> Self {
        match NonZeroU32::new(expansion) {
            None => Self::Fixed,
            Some(factor) => Self::By(factor),
        }
    }

    /// Returns the expansion factor, or 0 for a non-scaling object, as stored in files.
    pub const fn expansion(self) -> u32 {
        match self {
            Self::Fixed => 0,
            Self::By(factor) => factor.get(),
        }
    }
}

/// The parameters of a stack of filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Capacity of the first filter, 1 to `i64::MAX`.
    pub capacity: u64,
    /// The error rate that the whole stack must not exceed.
    pub error_rate: Fraction,
    /// The ratio of the rates of successive filters, and whose law they follow.
    pub tightening: Tightening,
    /// The growth of the stack when its newest filter is full.
    pub growth: Growth,
}

impl Params {
    /// Checks parameters that were read from a file.
    ///
    /// # Errors
    /// The parameter that is out of range, in words for a log.
    pub fn from_stored(
        capacity: u64,
        error_rate: f64,
        tightening: f64,
        expansion: u64,
    ) -> Result<Self, &'static str> {
        let expansion = u32::try_from(expansion).map_err(|_| "expansion out of range")?;
        Ok(Self {
            capacity,
            error_rate: Fraction::new(error_rate).ok_or("error rate out of range")?,
            tightening: Tightening::from_stored(tightening)
                .ok_or("tightening ratio out of range")?,
            growth: Growth::from_expansion(expansion),
        })
    }
}
