//! One pass, for input that can be read only once: a record is dropped if a filter claims its item.

use valkeybloom_sketches::bloom::{
    Added, Growth, Kind, Limits, Object, Params, Refusal, Shape, Tightening, Time,
};
use valkeybloom_sketches::{Fraction, Seed};

use super::passes::Passes;
use super::printer::Printer;
use crate::failure::{Failure, Result};
use crate::lines::Block;

/// The items that the filter has room for at first: 6 MB at the default rate.
pub const FIRST_ITEMS: u64 = 1_000_000;

/// No memory limits: the system has its own.
const LIMITS: Limits = Limits {
    saturate: false,
    ..Limits::NONE
};

/// A filter that grows, and keeps its rate.
pub struct OnePass(Object);

impl OnePass {
    pub fn new(rate: Fraction) -> Result<Self> {
        let params = Params {
            capacity: FIRST_ITEMS,
            error_rate: rate,
            tightening: Tightening::HALF,
            growth: Growth::from_expansion(2),
        };
        let kind = Kind::Plain;
        Object::new(&Shape { params, kind }, Seed::random(), LIMITS)
            .map(Self)
            .map_err(failed)
    }

    /// Adds the items of a block. Returns whether each is new.
    fn add(&mut self, block: &Block) -> Result<Vec<bool>> {
        let mut are_new = Vec::with_capacity(block.len());
        let mut done = Ok(());
        self.0.add_each(
            block.record_items(),
            Time::at(0),
            || LIMITS,
            |added| match added {
                Ok(added) => are_new.push(added == Added::New),
                Err(refusal) => done = Err(failed(refusal)),
            },
        );
        done.map(|()| are_new)
    }
}

impl Passes<'_> {
    /// Prints the records whose items are new to the filter.
    pub fn print_once(&self, mut filter: OnePass, printer: &mut Printer) -> Result<()> {
        self.each_block("writing", |mut block| {
            let are_new = filter.add(&block)?;
            printer.print_block(&mut block, are_new.into_iter().map(u64::from))
        })?;
        printer.output.end()
    }
}

fn failed(refusal: Refusal) -> Failure {
    Failure::new(match refusal {
        Refusal::RateTooSmall => "that rate is too small",
        _ => "there is no memory for the filter: use a larger rate, or a machine with more",
    })
}
