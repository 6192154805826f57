//! The kind of new filters, and the object that the words of a command describe.

use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Kind, New, Params, Shape, Tightening};

use crate::error::Error;
use crate::words::Origin;

/// The implementation that new filters follow, set by `bf.bloom-new-filters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// This module.
    Own,
    /// valkey-bloom 1.0, given the same words.
    ValkeyBloom,
    /// `RedisBloom` 8.8, given the same words.
    RedisBloom,
}

impl Maker {
    /// All makers.
    pub const ALL: [Self; 3] = [Self::Own, Self::ValkeyBloom, Self::RedisBloom];
    /// Their names, in the same order.
    pub const NAMES: [&str; 3] = ["own", "valkey-bloom", "redisbloom"];

    /// The name, as a value of the setting `bf.bloom-new-filters`.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// The defaults for missing words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// The parameters of a new object.
    pub params: Params,
    /// The maker of a new object.
    pub maker: Maker,
}

impl Defaults {
    /// Returns the plain object that a command without options creates.
    ///
    /// # Errors
    /// [`Error::NotMade`]: this maker makes no object with these parameters.
    pub fn plain(self, origin: Origin) -> Result<New, Error> {
        Wanted::plain(self.params, None).by(self, origin)
    }
}

/// The object that the words of a command describe.
pub(super) struct Wanted {
    pub shape: Shape,
    /// The value of EXPANSION, if given.
    pub expansion: Option<u32>,
    /// Whether SCALETO is given.
    pub scales_to: bool,
    /// The value of TIGHTENING, if given.
    pub tightening: Option<Fraction>,
    /// Whether SEED is given.
    pub seeded: bool,
}

impl Wanted {
    /// Returns a plain object, with the value of EXPANSION, if given.
    pub const fn plain(params: Params, expansion: Option<u32>) -> Self {
        Self {
            shape: Shape::plain(params),
            expansion,
            scales_to: false,
            tightening: None,
            seeded: false,
        }
    }

    /// Returns the object to create: the one that the words describe, or the maker's version of it.
    ///
    /// # Errors
    /// [`Error::NotMade`]: a client wants an object that this maker does not make.
    pub fn by(self, defaults: Defaults, origin: Origin) -> Result<New, Error> {
        let Defaults { params, maker } = defaults;
        let own = New::Own(self.shape);
        // Commands that this module replicates specify every parameter.
        let specifies_all =
            self.seeded || self.tightening.is_some() || self.shape.kind != Kind::Plain;
        if maker == Maker::Own || origin == Origin::Elsewhere && specifies_all {
            return Ok(own);
        }
        match (self.not_made_by(maker), origin) {
            (Some(what), Origin::Client) => Err(Error::NotMade(maker.name(), what)),
            (Some(_), Origin::Elsewhere) => Ok(own),
            (None, _) if maker == Maker::RedisBloom => {
                let default = params.growth.expansion().min(New::REDISBLOOM_EXPANSION);
                Ok(New::RedisBloom {
                    params: self.shape.params,
                    factor: self.expansion.unwrap_or(default),
                })
            }
            (None, _) => {
                let mut shape = self.shape;
                let tightening = &mut shape.params.tightening;
                let ratio = self.tightening.unwrap_or(tightening.ratio());
                *tightening = Tightening::like_valkey_bloom(ratio);
                Ok(New::Own(shape))
            }
        }
    }

    /// Returns the first property that a peer's filters can't have, if there is one.
    fn not_made_by(&self, peer: Maker) -> Option<&'static str> {
        let Params {
            capacity, growth, ..
        } = self.shape.params;
        let is_redisbloom = peer == Maker::RedisBloom;
        let is_large = capacity > New::REDISBLOOM_CAPACITY;
        let expands = growth.expansion() > New::REDISBLOOM_EXPANSION;
        let mut all = [
            (self.shape.window().is_some(), "WINDOW"),
            (self.shape.is_counting(), "COUNTING"),
            (self.scales_to, "SCALETO"),
            (is_redisbloom && is_large, "a capacity above 1073741824"),
            (is_redisbloom && expands, "an expansion above 32768"),
        ]
        .into_iter();
        all.find_map(|(is_wanted, what)| is_wanted.then_some(what))
    }
}
