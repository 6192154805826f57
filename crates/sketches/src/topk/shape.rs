//! The shape of a sketch: the length of its list, its cells, and its decay.

/// The most rows of a sketch that a client may make. Adding an item visits a cell of each row, so this bounds the time.
pub const DEPTH_MAX: u64 = 32;

/// The largest increment of an item in one step.
pub const INCREMENT_MAX: u32 = 100_000;

/// The shape of a sketch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    k: u32,
    width: u32,
    depth: u32,
    decay: f64,
}

/// The parameter that makes a shape invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The length of the list is not within 1 to 2³² − 1.
    K,
    /// The width is not within 1 to 2³² − 1.
    Width,
    /// The depth is not within 1 to 2³² − 1, or beyond [`DEPTH_MAX`] where that is the limit.
    Depth,
    /// The decay is not above 0 and at most 1.
    Decay,
    /// There are 2³² cells or more.
    Cells,
}

crate::error::texts!(Fault {
    Self::K => "the length of the list is out of range",
    Self::Width => "the width is out of range",
    Self::Depth => "the depth is out of range",
    Self::Decay => "the decay is out of range",
    Self::Cells => "there are too many cells",
});

impl Shape {
    /// The width of a sketch whose command gives the length of the list alone.
    pub const DEFAULT_WIDTH: u64 = 8;
    /// The depth of a sketch whose command gives the length of the list alone.
    pub const DEFAULT_DEPTH: u64 = 7;
    /// The decay of a sketch whose command gives the length of the list alone.
    pub const DEFAULT_DECAY: f64 = 0.9;

    /// Returns the shape of a list of `k` items over `depth` rows of `width` cells.
    ///
    /// # Errors
    /// The first invalid parameter.
    pub fn new(k: u64, width: u64, depth: u64, decay: f64) -> Result<Self, Fault> {
        let number = |number: u64, fault| match u32::try_from(number) {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(fault),
        };
        let shape = Self {
            k: number(k, Fault::K)?,
            width: number(width, Fault::Width)?,
            depth: number(depth, Fault::Depth)?,
            decay,
        };
        // A NaN fails this comparison.
        if !(decay > 0.0 && decay <= 1.0) {
            return Err(Fault::Decay);
        }
        if shape.cells() > u64::from(u32::MAX) {
            return Err(Fault::Cells);
        }
        Ok(shape)
    }

    /// Requires that a client may make sketches of this shape: the depth is at most [`DEPTH_MAX`].
    ///
    /// # Errors
    /// [`Fault::Depth`]
    pub fn within_limits(self) -> Result<Self, Fault> {
        if u64::from(self.depth) > DEPTH_MAX {
            return Err(Fault::Depth);
        }
        Ok(self)
    }

    /// Returns the length of the list.
    pub const fn k(&self) -> u32 {
        self.k
    }

    /// Returns the number of cells in a row.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of rows.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// Returns the decay.
    pub const fn decay(&self) -> f64 {
        self.decay
    }

    /// Returns the number of cells.
    pub const fn cells(&self) -> u64 {
        self.width as u64 * self.depth as u64
    }
}
