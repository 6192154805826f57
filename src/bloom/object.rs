//! A Bloom object: a stack of filters that acts as one.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::batch::{BATCH, Batch, Hasher, ROW, Row, claims_each};
use super::filter::{Filter, HEADER_BYTES};
use super::probe::{Probe, Seed};
use super::redisbloom::{self, RedisBloom};
use super::sizing::{
    Cell, Fraction, Geometry, Growth, Limits, MAX_CAPACITY, Outlook, Params, Stop, Sums,
};

/// What an add did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The item was new, and is in the object now.
    New,
    /// The object claimed the item already, and is unchanged.
    Present,
    /// The object claimed the item already, and took it once more: an object with periods or counters.
    Again,
}

/// Why an item, or an object, can't be made room for. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The next filter would pass a limit on memory.
    MemoryLimit,
    /// The next filter's rate is too small for a double.
    RateTooSmall,
    /// The object is non-scaling and full.
    Full,
    /// The allocator has no memory for the next filter.
    OutOfMemory,
}

impl From<Stop> for Refusal {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Memory => Self::MemoryLimit,
            Stop::Rate => Self::RateTooSmall,
        }
    }
}

/// Why objects can't be made one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeError {
    /// They hash items in different ways.
    Seeds,
    /// They differ in what opens a filter, or in what a cell is.
    Kinds,
    /// Their rates add up to 1 or more.
    Rates,
    /// There is no room for what they would become.
    Refused(Refusal),
}

/// One filter as it was stored.
#[derive(Debug)]
pub struct FilterParts {
    /// The filter in the form of the `bloomfilter` crate.
    pub blob: Vec<u8>,
    /// Number of items for which it was made.
    pub capacity: u64,
    /// Number of items that it took.
    pub items: u64,
}

/// An object as it was stored, not checked yet.
#[derive(Debug)]
pub struct Parts {
    /// The growth factor, 0 for a non-scaling object.
    pub expansion: u64,
    /// The rate that was asked for.
    pub error_rate: f64,
    /// The tightening ratio.
    pub tightening: f64,
    /// 0 if the seed is [`Seed::FIXED`], else 1.
    pub seed_is_random: u64,
    /// The filters, oldest first.
    pub filters: Vec<FilterParts>,
}

/// A scalable Bloom filter.
///
/// ```
/// use valkeybloom::bloom::{Added, BloomObject, Fraction, Growth, Limits, Params, Seed};
///
/// let params = Params {
///     capacity: 1000,
///     error_rate: Fraction::new(0.01).unwrap(),
///     tightening: Fraction::HALF,
///     growth: Growth::from_expansion(2),
/// };
/// let mut seen = BloomObject::new(&params, Seed::FIXED, Limits::Obey).unwrap();
/// let probe = seen.probe(b"https://example.org/");
/// assert!(!seen.contains(probe));
/// assert_eq!(seen.add(probe, || Limits::Obey), Ok(Added::New));
/// assert!(seen.contains(probe));
/// ```
#[derive(Debug)]
pub struct BloomObject {
    /// Oldest first; never empty.
    filters: Vec<Filter>,
    seed: Seed,
    error_rate: Fraction,
    tightening: Fraction,
    growth: Growth,
    cell: Cell,
    /// Set in an object of RedisBloom, which follows other rules; its seed has no meaning.
    origin: Option<Box<RedisBloom>>,
    // Sums over the filters, so that asking for them does not walk a deep stack.
    items: u64,
    capacity: u64,
    blob_bytes: u64,
}

impl BloomObject {
    /// What an object without filters takes, in bytes.
    pub const BASE_BYTES: u64 = size_of::<Self>() as u64;

    /// An empty object of one filter.
    ///
    /// # Errors
    /// [`Refusal::MemoryLimit`], [`Refusal::RateTooSmall`] or [`Refusal::OutOfMemory`].
    pub fn new(params: &Params, seed: Seed, limits: Limits) -> Result<Self, Refusal> {
        Self::with_cells(Cell::Bit, params, seed, limits)
    }

    /// The same, with such cells.
    pub(super) fn with_cells(
        cell: Cell,
        params: &Params,
        seed: Seed,
        limits: Limits,
    ) -> Result<Self, Refusal> {
        let mut object = Self::empty(cell, params, seed);
        let mut outlook = object.outlook(limits);
        outlook.next_capacity = Some(params.capacity);
        let (capacity, geometry) = outlook.next()?;
        object.push(capacity, geometry)?;
        Ok(object)
    }

    fn empty(cell: Cell, params: &Params, seed: Seed) -> Self {
        Self {
            filters: Vec::new(),
            seed,
            error_rate: params.error_rate,
            tightening: params.tightening,
            growth: params.growth,
            cell,
            origin: None,
            items: 0,
            capacity: 0,
            blob_bytes: 0,
        }
    }

    /// The object that these parts are, if they are one. This is the way in for objects of bits of
    /// this type; what the rest of the core relies on is checked here.
    ///
    /// # Errors
    /// What is wrong with the parts, in words for a log.
    pub fn from_parts(parts: Parts) -> Result<Self, &'static str> {
        Self::from_parts_with(Cell::Bit, parts)
    }

    /// The same, with such cells.
    pub(super) fn from_parts_with(cell: Cell, parts: Parts) -> Result<Self, &'static str> {
        let (mut object, _) = Self::without_filters(cell, &parts)?;
        let count = parts.filters.len();
        // One by one: the allocation is as large as the filters that came, never as a claim.
        object.filters.reserve_exact(count);
        for filter in parts.filters {
            let blob = filter.blob.into_boxed_slice();
            let filter = Filter::from_blob(blob, filter.capacity, filter.items)?;
            object.account(&filter);
            object.filters.push(filter);
        }
        Ok(object)
    }

    /// The object of RedisBloom that these parts are, if they are one: the way in for those.
    ///
    /// # Errors
    /// What is wrong with the parts, in words for a log.
    pub(super) fn from_redisbloom(parts: redisbloom::Parts) -> Result<Self, &'static str> {
        let (origin, filters) = parts.finish()?;
        let mut object = Self {
            filters: Vec::new(),
            seed: Seed::FIXED,
            error_rate: origin.error_rate().ok_or("error rate out of range")?,
            tightening: Fraction::HALF,
            growth: Growth::from_expansion(origin.expansion()),
            cell: Cell::Bit,
            origin: Some(Box::new(origin)),
            items: 0,
            capacity: 0,
            blob_bytes: 0,
        };
        for filter in &filters {
            object.account(filter);
        }
        object.filters = filters;
        Ok(object)
    }

    /// What makes it an object of RedisBloom, if it is one.
    pub(super) fn origin(&self) -> Option<&RedisBloom> {
        self.origin.as_deref()
    }

    /// Whether it is an object of RedisBloom: with its hashes, its sizes and its bytes.
    #[must_use]
    pub fn is_redisbloom(&self) -> bool {
        self.origin.is_some()
    }

    /// The bits of a hash: 64, or 32 in old objects of RedisBloom.
    #[must_use]
    pub fn hash_bits(&self) -> u32 {
        match self.origin() {
            Some(origin) if !origin.is_wide() => 32,
            _ => 64,
        }
    }

    #[inline(always)]
    fn hasher(&self) -> Hasher<'_> {
        match self.origin() {
            None => Hasher::Sip(&self.seed),
            Some(origin) => Hasher::Murmur {
                wide: origin.is_wide(),
            },
        }
    }

    /// Checks all that does not need the bitmaps, and gives an object that lacks its filters, with
    /// the length of each filter's cells in bytes.
    pub(super) fn without_filters(
        cell: Cell,
        parts: &Parts,
    ) -> Result<(Self, Vec<u64>), &'static str> {
        let expansion = u32::try_from(parts.expansion).map_err(|_| "expansion out of range")?;
        let error_rate = Fraction::new(parts.error_rate).ok_or("error rate out of range")?;
        let tightening = Fraction::new(parts.tightening).ok_or("tightening ratio out of range")?;
        let growth = Growth::from_expansion(expansion);
        let newest = parts.filters.len().checked_sub(1).ok_or("no filters")?;
        let mut seed = None;
        let mut sums = Sums::default();
        let mut bitmaps = Vec::new();
        for (index, filter) in parts.filters.iter().enumerate() {
            let header = super::filter::Header::parse(&filter.blob)?;
            if *seed.get_or_insert(header.seed) != header.seed {
                return Err("filters of different seeds");
            }
            if header.cell != cell {
                return Err("filter of other cells");
            }
            if filter.capacity == 0 {
                return Err("capacity of zero");
            }
            // What is removed makes room in a filter, and an id may ask for a full one.
            if cell == Cell::Bit && index < newest && filter.items != filter.capacity {
                return Err("filter stacked on one that is not full");
            }
            if cell == Cell::Bit && filter.items > filter.capacity && growth != Growth::Fixed {
                return Err("more items than capacity");
            }
            let body_bytes = header.body_bytes();
            bitmaps.push(body_bytes);
            sums.add(filter.capacity, filter.items, body_bytes)?;
        }
        let seed = seed.ok_or("no filters")?;
        match (parts.seed_is_random, seed.is_random()) {
            (0, false) | (1, _) => {}
            (0, true) => return Err("fixed seed that is not the fixed one"),
            _ => return Err("seed flag out of range"),
        }
        let params = Params {
            capacity: 0,
            error_rate,
            tightening,
            growth,
        };
        Ok((Self::empty(cell, &params, seed), bitmaps))
    }

    /// A copy in memory of its own, or `None` where there is none.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        let mut filters = Vec::new();
        filters.try_reserve_exact(self.filters.len()).ok()?;
        for filter in &self.filters {
            filters.push(filter.try_clone()?);
        }
        Some(Self {
            filters,
            origin: self.origin.clone(),
            ..*self
        })
    }

    /// Hashes an item for this object.
    #[must_use]
    #[inline]
    pub fn probe(&self, item: &[u8]) -> Probe {
        self.hasher().probe(item)
    }

    /// Whether the object claims the item: false is certain, true is right but for the error rate.
    #[must_use]
    #[inline]
    pub fn contains(&self, probe: Probe) -> bool {
        any_contains(&self.filters, probe)
    }

    /// Adds an item. `limits` is asked only where the object has to grow.
    ///
    /// # Errors
    /// Any [`Refusal`]; the object is unchanged then.
    #[inline]
    pub fn add(&mut self, probe: Probe, limits: impl FnOnce() -> Limits) -> Result<Added, Refusal> {
        // Alone, a filter tests and sets in one pass.
        if self.filters.len() > 1 && any_contains(&self.filters, probe) {
            return Ok(Added::Present);
        }
        self.add_to_newest(probe, |newest| newest.insert(probe), limits)
    }

    #[cold]
    fn add_to_full(&mut self, probe: Probe, limits: Limits) -> Result<Added, Refusal> {
        self.grow_or_saturate(limits)?;
        if let Some(newest) = self.filters.last_mut() {
            newest.insert_slowly(probe);
            self.items += 1;
        }
        Ok(Added::New)
    }

    /// Asks for each item in turn, and tells `answer` what [`contains`](Self::contains) says.
    pub fn contains_each<'i>(
        &self,
        items: impl Iterator<Item = &'i [u8]>,
        answer: impl FnMut(bool),
    ) {
        claims_each(self.hasher(), items, || self.filters.iter().rev(), answer);
    }

    /// Adds each item in turn, and tells `outcome` what [`add`](Self::add) says. It stops after
    /// the first refusal: the items behind it are not tried.
    pub fn add_each<'i>(
        &mut self,
        mut items: impl Iterator<Item = &'i [u8]>,
        limits: impl Fn() -> Limits,
        mut outcome: impl FnMut(Result<Added, Refusal>),
    ) {
        let mut row = Row::new();
        loop {
            let batch = Batch::of(self.hasher(), &mut items);
            // Which items are claimed by filters that take no more, and how many of these were asked.
            let (mut present, mut asked) = (0, 0);
            for index in 0..batch.len() {
                let newest = self.filters.len().saturating_sub(1);
                let grown = asked < newest;
                for filter in &self.filters[asked..newest] {
                    present |= batch.claimed_by(filter, batch.from(index) & !present);
                }
                asked = newest;
                if index % ROW == 0 || grown {
                    row.locate(&batch, index / ROW * ROW, &self.filters[newest]);
                }
                let added = if present >> index & 1 == 1 {
                    Ok(Added::Present)
                } else {
                    let probe = batch.probe(index);
                    let insert = |newest: &mut Filter| match row.positions(index % ROW) {
                        Some(positions) => newest.insert_at(positions),
                        None => newest.insert_slowly(probe),
                    };
                    self.add_to_newest(probe, insert, &limits)
                };
                outcome(added);
                if added.is_err() {
                    return;
                }
            }
            if batch.len() < BATCH {
                return;
            }
        }
    }

    /// Adds an item that no older filter claims to the newest one, as `insert` does.
    #[inline(always)]
    fn add_to_newest(
        &mut self,
        probe: Probe,
        insert: impl FnOnce(&mut Filter) -> bool,
        limits: impl FnOnce() -> Limits,
    ) -> Result<Added, Refusal> {
        let newest = self.filters.last_mut().ok_or(Refusal::MemoryLimit)?;
        if newest.is_full() {
            if newest.contains(probe) {
                return Ok(Added::Present);
            }
            return self.add_to_full(probe, limits());
        }
        let new = insert(newest);
        self.items += u64::from(new);
        Ok(if new { Added::New } else { Added::Present })
    }

    /// The filters, oldest first. There is at least one.
    #[must_use]
    pub fn filters(&self) -> &[Filter] {
        &self.filters
    }

    /// The keys of the hash functions.
    #[must_use]
    pub const fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The parameters of the object; the capacity is the first filter's.
    #[must_use]
    pub fn params(&self) -> Params {
        Params {
            capacity: self.filters.first().map_or(0, Filter::capacity),
            error_rate: self.error_rate,
            tightening: self.tightening,
            growth: self.growth,
        }
    }

    /// Number of items that the object took for new.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Number of items that the filters so far are made for.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The exact number of bytes that the object's allocations asked for, itself included.
    #[must_use]
    #[inline]
    pub fn memory_bytes(&self) -> u64 {
        let table = self.filters.capacity() * size_of::<Filter>();
        let origin = self.origin().map_or(0, RedisBloom::memory_bytes);
        Self::BASE_BYTES + table as u64 + self.blob_bytes + origin
    }

    /// Whether the limits admit such an object.
    #[must_use]
    pub fn is_within(&self, limits: Limits) -> bool {
        let mut filters = self.filters.iter().map(|f| f.blob().len() as u64);
        filters.all(|bytes| limits.admit_filter(bytes)) && limits.admit_object(self.memory_bytes())
    }

    /// The rate that filter `index` was made for. For a filter that came with another geometry
    /// than this object's law gives (a file of another program), the rate that its own sizes give
    /// when it is full: `(1 − e^(−kn/m))^k`.
    #[must_use]
    pub fn filter_rate(&self, index: usize) -> f64 {
        let Some(filter) = self.filters.get(index) else {
            return 0.0;
        };
        if let Some(origin) = self.origin() {
            return origin.links[index].error_rate;
        }
        if let Some(rate) = self.params().rate(index as u64) {
            let geometry = Geometry::new(filter.capacity(), rate);
            if geometry.bitmap_bytes == filter.bitmap().len() as u64 {
                return rate.get();
            }
        }
        filter.rate_at(filter.capacity())
    }

    /// The rate of false positives now, as the items in each filter let expect it.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        let rates = self.filters.iter().map(|f| f.rate_at(f.items()));
        rates.sum::<f64>().min(1.0)
    }

    /// The most items that the object can come to hold before a limit stops its growth;
    /// [`MAX_CAPACITY`] where none does.
    #[must_use]
    pub fn max_scaled_capacity(&self, limits: Limits) -> u64 {
        match (self.origin(), self.filters.last()) {
            (Some(origin), Some(newest)) => {
                origin.reach(newest, self.capacity, self.memory_bytes(), limits)
            }
            _ => self.outlook(limits).reach().0,
        }
    }

    /// Lets `place` move the table of filters. It gives back the same filters, perhaps elsewhere.
    pub fn relocate_table(&mut self, place: impl FnOnce(Vec<Filter>) -> Vec<Filter>) {
        self.filters = place(std::mem::take(&mut self.filters));
    }

    /// Lets `place` move the blob of filter `index`, and tells whether there is such a filter.
    /// `place` gives back the same bytes, perhaps elsewhere.
    pub fn relocate_filter(
        &mut self,
        index: usize,
        place: impl FnOnce(Box<[u8]>) -> Box<[u8]>,
    ) -> bool {
        match self.filters.get_mut(index) {
            Some(filter) => {
                filter.relocate(place);
                true
            }
            None => false,
        }
    }

    fn outlook(&self, limits: Limits) -> Outlook {
        let expansion = u64::from(self.growth.expansion());
        Outlook {
            params: self.params(),
            cell: self.cell,
            limits,
            index: self.filters.len() as u64,
            next_capacity: self
                .filters
                .last()
                .and_then(|newest| newest.capacity().checked_mul(expansion)),
            capacity: self.capacity,
            bytes: self.memory_bytes(),
        }
    }

    /// Makes the newest filter one that takes items, all being full: a new one, or a fixed object's own
    /// where it may go on.
    fn grow_or_saturate(&mut self, limits: Limits) -> Result<(), Refusal> {
        if self.growth != Growth::Fixed {
            self.grow(limits)
        } else if limits.saturate() && self.items < MAX_CAPACITY {
            Ok(())
        } else {
            Err(Refusal::Full)
        }
    }

    /// Stacks the next filter on the newest.
    fn grow(&mut self, limits: Limits) -> Result<(), Refusal> {
        let (Some(origin), Some(newest)) = (self.origin(), self.filters.last()) else {
            let (capacity, geometry) = self.outlook(limits).next()?;
            return self.push(capacity, geometry);
        };
        let next = origin.next(newest, self.capacity, self.memory_bytes(), limits)?;
        let (link, filter) = next.make()?;
        let room = self.filters.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        if let Some(origin) = &mut self.origin {
            let room = origin.links.try_reserve_exact(1);
            room.map_err(|_| Refusal::OutOfMemory)?;
            origin.links.push(link);
        }
        self.account(&filter);
        self.filters.push(filter);
        Ok(())
    }

    /// Numbers of the filters that claim an item, newest first.
    pub(super) fn claimants(&self, probe: Probe) -> impl Iterator<Item = usize> {
        let indices = (0..self.filters.len()).rev();
        indices.filter(move |index| self.filters[*index].contains(probe))
    }

    /// Sets the rate that growth goes on from.
    pub(super) fn set_error_rate(&mut self, rate: Fraction) {
        self.error_rate = rate;
    }

    /// Takes over how another grows, and tells the rate that it needs to go on so.
    pub(super) fn grow_as(&mut self, params: Params) -> f64 {
        let asked = self.error_rate.get();
        if (self.growth, self.tightening) == (params.growth, params.tightening) {
            return asked;
        }
        self.growth = params.growth;
        self.tightening = params.tightening;
        self.seal_overfull();
        let rates = self.filters.iter().map(|f| f.rate_at(f.capacity()));
        let share = params.share_of(self.filters.len() as u64);
        asked.max(rates.sum::<f64>() / share)
    }

    /// Declares the newest filter full at what it holds where that is more than its capacity, which only
    /// one that does not scale may have: files say it so.
    fn seal_overfull(&mut self) {
        if self.growth == Growth::Fixed || self.cell != Cell::Bit || self.origin.is_some() {
            return;
        }
        if let Some(newest) = self.filters.last_mut()
            && newest.items() > newest.capacity()
        {
            self.capacity += newest.items() - newest.capacity();
            newest.seal();
        }
    }

    /// Counts an item once more in one of the filters, whose cells are counters.
    pub(super) fn count_up(&mut self, index: usize, probe: Probe) {
        self.recount(index, |filter| filter.count_up(probe));
    }

    /// Takes back one count of an item that one of the filters claims.
    pub(super) fn count_down(&mut self, index: usize, probe: Probe) {
        self.recount(index, |filter| filter.count_down(probe));
    }

    fn recount(&mut self, index: usize, change: impl FnOnce(&mut Filter)) {
        let filter = &mut self.filters[index];
        self.items -= filter.items();
        change(filter);
        self.items += filter.items();
    }

    /// The newest filter with room, of those from number `first` on; where there is none, a new one.
    /// Filters with counters may have room again.
    ///
    /// # Errors
    /// Any [`Refusal`]; the object is unchanged then.
    pub(super) fn make_room(
        &mut self,
        first: usize,
        limits: impl FnOnce() -> Limits,
    ) -> Result<usize, Refusal> {
        let with_room = |filter: &Filter| !filter.is_full();
        if let Some(index) = self
            .filters
            .get(first..)
            .and_then(|f| f.iter().rposition(with_room))
        {
            return Ok(first + index);
        }
        self.grow_or_saturate(limits())?;
        Ok(self.filters.len() - 1)
    }

    /// An object that answers for all of these, at least one. Filters of one size whose items have
    /// room in one of them become one; the others are laid side by side, and the one with most room
    /// takes what comes.
    ///
    /// # Errors
    /// Any [`MergeError`].
    pub fn merged(sources: &[&Self], limits: Limits) -> Result<Self, MergeError> {
        const NO_MEMORY: MergeError = MergeError::Refused(Refusal::OutOfMemory);
        let (first, others) = sources.split_first().ok_or(MergeError::Kinds)?;
        for other in others {
            if !first.hashes_as(other) {
                return Err(MergeError::Seeds);
            }
            if first.cell != other.cell {
                return Err(MergeError::Kinds);
            }
        }
        let filters: usize = sources.iter().map(|source| source.filters.len()).sum();
        let mut laid: Vec<(Filter, Option<redisbloom::Link>)> = Vec::new();
        laid.try_reserve_exact(filters).map_err(|_| NO_MEMORY)?;
        // Where the filters of each kind lie, the one with most room on top: what that one can't take, none
        // can.
        let mut places = HashMap::new();
        for source in sources {
            for (index, filter) in source.filters.iter().enumerate() {
                let link = source.origin().map(|origin| origin.links[index]);
                places.try_reserve(1).map_err(|_| NO_MEMORY)?;
                let kind = (filter.kind(), link.map(|link| link.kind()));
                let alike: &mut BinaryHeap<(u64, Reverse<usize>)> = places.entry(kind).or_default();
                alike.try_reserve(1).map_err(|_| NO_MEMORY)?;
                let most = alike.peek().map(|(_, Reverse(place))| *place);
                let place = if let Some(place) = most.filter(|p| laid[*p].0.can_absorb(filter)) {
                    alike.pop();
                    laid[place].0.absorb(filter);
                    place
                } else {
                    laid.push((filter.try_clone().ok_or(NO_MEMORY)?, link));
                    laid.len() - 1
                };
                alike.push((laid[place].0.room(), Reverse(place)));
            }
        }
        laid.sort_by_key(|(filter, _)| filter.room());
        let mut place = laid.len();
        laid.retain(|(filter, _)| {
            place -= 1;
            place == 0 || !filter.is_empty()
        });
        let newest = laid.len().saturating_sub(1);
        let mut object = Self::empty(first.cell, &first.params(), first.seed);
        object.origin.clone_from(&first.origin);
        if let Some(origin) = &mut object.origin {
            origin.links = laid.iter().filter_map(|(_, link)| *link).collect();
        }
        let mut rates = 0.0;
        for (index, (filter, _)) in laid.iter_mut().enumerate() {
            rates += filter.rate_at(filter.capacity().max(filter.items()));
            // In a stack of this type what takes no more is full: so files say it.
            if index < newest && object.cell == Cell::Bit && object.origin.is_none() {
                filter.seal();
            }
        }
        // What the sources promised, and at least what the law needs to go on from here.
        let asked: f64 = sources.iter().map(|source| source.error_rate.get()).sum();
        let share = object.params().share_of(laid.len() as u64);
        let bound = Fraction::new(asked.max(rates / share)).ok_or(MergeError::Rates)?;
        object.error_rate = match object.origin() {
            Some(origin) => origin.error_rate().unwrap_or(bound),
            None => bound,
        };
        let mut sums = Sums::default();
        for (filter, _) in &laid {
            let added = sums.add(filter.capacity(), filter.items(), 0);
            added.map_err(|_| MergeError::Refused(Refusal::MemoryLimit))?;
        }
        object
            .filters
            .try_reserve_exact(laid.len())
            .map_err(|_| NO_MEMORY)?;
        for (filter, _) in laid {
            object.account(&filter);
            object.filters.push(filter);
        }
        object.seal_overfull();
        if object.is_within(limits) {
            Ok(object)
        } else {
            Err(MergeError::Refused(Refusal::MemoryLimit))
        }
    }

    /// Whether an item has the same bits in another object's filters of the same size.
    fn hashes_as(&self, other: &Self) -> bool {
        match (self.origin(), other.origin()) {
            (None, None) => self.seed == other.seed,
            (Some(one), Some(other)) => one.is_wide() == other.is_wide(),
            _ => false,
        }
    }

    fn push(&mut self, capacity: u64, geometry: Geometry) -> Result<(), Refusal> {
        // One more and no spare: growth is rare, and the object's size stays a plain sum.
        let room = self.filters.try_reserve_exact(1);
        room.map_err(|_| Refusal::OutOfMemory)?;
        let filter = Filter::new(capacity, geometry, &self.seed).ok_or(Refusal::OutOfMemory)?;
        self.account(&filter);
        self.filters.push(filter);
        Ok(())
    }

    fn account(&mut self, filter: &Filter) {
        self.items += filter.items();
        self.capacity += filter.capacity();
        self.blob_bytes += filter.blob().len() as u64;
    }
}

/// How many filters are asked for one item together.
const GROUP: usize = 1024;

/// Whether any filter of a stack claims the item.
#[inline(always)]
fn any_contains(stack: &[Filter], probe: Probe) -> bool {
    let Some((newest, older)) = stack.split_last() else {
        return false;
    };
    // Newest first: it is the largest, and holds most of the items.
    newest.contains(probe) || !older.is_empty() && older_contain(older, probe)
}

#[inline(never)]
fn older_contain(older: &[Filter], probe: Probe) -> bool {
    let mut groups = older.rchunks(GROUP);
    match older.last() {
        Some(filter) if filter.is_plain() => {
            groups.any(|group| group_contains::<true>(group, probe))
        }
        Some(filter) if filter.counts() => older.iter().any(|filter| filter.contains(probe)),
        _ => groups.any(|group| group_contains::<false>(group, probe)),
    }
}

/// The same for a group: bit number 0 of the item is looked up in all filters, number 1 in those
/// where it was set, and so on. The lookups of one round do not wait for each other, so that their
/// cache misses overlap, and what is to be done in a round was known long before; each round halves
/// the filters.
#[inline]
fn group_contains<const PLAIN: bool>(group: &[Filter], probe: Probe) -> bool {
    let mut claims = [0_u64; GROUP / 64];
    for (claims, filters) in claims.iter_mut().zip(group.chunks(64)) {
        for (index, filter) in filters.iter().enumerate() {
            *claims |= filter.bit(probe.point::<PLAIN>(0)) << index;
        }
    }
    for round in 1.. {
        let point = probe.point::<PLAIN>(round);
        let mut left = 0;
        for (claims, filters) in claims.iter_mut().zip(group.chunks(64)) {
            let mut asked = std::mem::take(claims);
            while asked != 0 {
                let index = asked.trailing_zeros();
                let filter = &filters[index as usize];
                if round >= filter.hashes() {
                    return true;
                }
                *claims |= filter.bit(point) << index;
                asked &= asked - 1;
            }
            left |= *claims;
        }
        if left == 0 {
            break;
        }
    }
    false
}

const _: () = assert!(HEADER_BYTES == 45);
