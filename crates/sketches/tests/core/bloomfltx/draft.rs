//! Dumps, headers and RDB fields of objects with a window or with counters, put together after the
//! description of the format.

use valkeybloom_sketches::Seed;

use crate::support::{Field, HALF_OF_OURS, Stream};

#[derive(Clone)]
pub struct Draft {
    pub form: u64,
    pub options: u64,
    pub expansion: u64,
    pub error_rate: f64,
    pub tightening: f64,
    pub capacity: u64,
    pub seed: Vec<u8>,
    pub window: (u64, u64),
    /// The number of stacks to write, if it is not the true one.
    pub count: Option<u64>,
    pub stacks: Vec<StackDraft>,
    pub behind: &'static [u8],
}

#[derive(Clone)]
pub struct StackDraft {
    pub period: u64,
    /// In form 3.
    pub repeats: u64,
    pub range_count: Option<u64>,
    pub ids: (u64, u64),
    pub ranges: Vec<(u64, u64)>,
    pub count: Option<u64>,
    pub filters: Vec<FilterDraft>,
}

#[derive(Clone)]
pub struct FilterDraft {
    pub version: u8,
    pub bitmap_bytes: Option<u64>,
    pub hashes: u32,
    pub seed: Vec<u8>,
    pub cells: Vec<u8>,
    pub cut: Option<usize>,
    pub capacity: u64,
    pub items: u64,
    /// In forms 2 and 3: a flag that is not its own, and the lowest and the highest id that it took.
    pub took_flag: Option<u64>,
    pub took: Option<(u64, u64)>,
}

impl FilterDraft {
    pub fn new(version: u8, cells: &[u8], hashes: u32, capacity: u64, items: u64) -> Self {
        Self {
            version,
            bitmap_bytes: None,
            hashes,
            seed: Seed::FIXED.as_bytes().to_vec(),
            cells: cells.to_vec(),
            cut: None,
            capacity,
            items,
            took_flag: None,
            took: None,
        }
    }

    pub fn blob(&self) -> Vec<u8> {
        let each = if self.version == 2 { 4 } else { 1 };
        let bytes = self
            .bitmap_bytes
            .unwrap_or((self.cells.len() / each) as u64);
        let mut blob = vec![self.version];
        blob.extend(bytes.to_le_bytes());
        blob.extend(self.hashes.to_le_bytes());
        blob.extend(&self.seed);
        blob.extend(&self.cells);
        blob.truncate(self.cut.unwrap_or(blob.len()));
        blob
    }
}

impl StackDraft {
    pub fn new(period: u64, filters: Vec<FilterDraft>) -> Self {
        Self {
            period,
            repeats: 0,
            range_count: None,
            ids: (0, 0),
            ranges: Vec::new(),
            count: None,
            filters,
        }
    }
}

impl Draft {
    pub fn new(options: u64, stacks: Vec<StackDraft>) -> Self {
        Self {
            form: 1,
            options,
            expansion: 2,
            error_rate: 0.1,
            tightening: HALF_OF_OURS,
            capacity: 3,
            seed: Seed::FIXED.as_bytes().to_vec(),
            window: (1_000, 4),
            count: None,
            stacks,
            behind: &[],
        }
    }

    /// Returns a valid one with a window, of three periods.
    pub fn windowed() -> Self {
        let full = FilterDraft::new(1, &[0xa5, 0x01, 0x80], 4, 3, 3);
        let newest = FilterDraft::new(1, &[0x11, 0x22, 0x33, 0x44, 0], 6, 6, 2);
        let one = |items| FilterDraft::new(1, &[0x0f, 0xf0, 0x55], 3, 3, items);
        Self::new(
            1,
            vec![
                StackDraft::new(7, vec![full, newest]),
                StackDraft::new(8, vec![one(1)]),
                StackDraft::new(10, vec![one(3)]),
            ],
        )
    }

    /// Returns a valid one with counters and ids.
    pub fn counting() -> Self {
        let mut older = FilterDraft::new(2, &[0x10, 0xf2, 0x03, 0x40], 4, 3, 2);
        let mut newest = FilterDraft::new(2, &[1, 2, 3, 4, 5, 6, 7, 0xff], 6, 6, 7);
        older.took = Some((5, 39));
        newest.took = Some((40, 90));
        Self {
            form: 2,
            ..Self::new(2, vec![StackDraft::new(0, vec![older, newest])])
        }
    }

    /// Returns a valid one with items in several filters.
    pub fn repeating() -> Self {
        let mut draft = Self::counting();
        draft.form = 3;
        draft.stacks[0].repeats = 6;
        draft
    }

    /// Returns the counting draft as earlier builds wrote it.
    pub fn ranged() -> Self {
        let mut draft = Self::counting();
        draft.form = 1;
        draft.stacks[0].ids = (5, 90);
        draft.stacks[0].ranges = vec![(0, 0), (40, 1)];
        draft
    }

    /// Returns a valid one with counters, of a stack with ids and one without, as earlier builds merged them.
    pub fn merged() -> Self {
        let mut draft = Self::ranged();
        let filters = vec![FilterDraft::new(2, &[0; 4], 3, 3, 0)];
        draft.stacks.push(StackDraft::new(0, filters));
        draft
    }

    /// Returns a valid one of each kind and form.
    pub fn all() -> [Self; 5] {
        [
            Self::windowed(),
            Self::counting(),
            Self::repeating(),
            Self::ranged(),
            Self::merged(),
        ]
    }

    /// Returns one with a window and counters, which is refused, and right in all else.
    pub fn both() -> Self {
        let mut both = Self::merged();
        both.options = 3;
        both.stacks[0].period = 7;
        both.stacks[1].period = 9;
        both
    }

    pub fn fields(&self, cut: bool) -> Vec<Field> {
        let mut fields = vec![
            Field::Uint(self.form),
            Field::Uint(self.options),
            Field::Uint(self.expansion),
            Field::Double(self.error_rate),
            Field::Double(self.tightening),
            Field::Uint(self.capacity),
            Field::Bytes(self.seed.clone()),
        ];
        if self.options & 1 != 0 {
            fields.extend([self.window.0, self.window.1].map(Field::Uint));
        }
        let count = |said: Option<u64>, length: usize| Field::Uint(said.unwrap_or(length as u64));
        fields.push(count(self.count, self.stacks.len()));
        for stack in &self.stacks {
            fields.push(Field::Uint(stack.period));
            if self.form == 3 {
                fields.push(Field::Uint(stack.repeats));
            }
            if self.options & 2 != 0 && self.form < 2 {
                fields.push(count(stack.range_count, stack.ranges.len()));
                if stack.range_count.unwrap_or(stack.ranges.len() as u64) > 0 {
                    fields.extend([stack.ids.0, stack.ids.1].map(Field::Uint));
                }
                for (first, index) in &stack.ranges {
                    fields.extend([*first, *index].map(Field::Uint));
                }
            }
            fields.push(count(stack.count, stack.filters.len()));
            for filter in &stack.filters {
                let mut blob = filter.blob();
                if cut {
                    blob.truncate(45);
                }
                fields.push(Field::Bytes(blob));
                fields.extend([filter.capacity, filter.items].map(Field::Uint));
                if self.form > 1 {
                    let flag = filter.took_flag;
                    let flag = flag.unwrap_or(u64::from(filter.took.is_some()));
                    fields.push(Field::Uint(flag));
                    let ids = filter.took.filter(|_| flag > 0);
                    fields.extend(ids.iter().flat_map(|ids| [ids.0, ids.1].map(Field::Uint)));
                }
            }
        }
        fields
    }

    pub fn bytes(&self, version: u8, cut: bool) -> Vec<u8> {
        let mut bytes = vec![version];
        for field in self.fields(cut) {
            match field {
                Field::Uint(value) => bytes.extend(value.to_le_bytes()),
                Field::Double(value) => bytes.extend(value.to_le_bytes()),
                Field::Bytes(value) => {
                    bytes.extend((value.len() as u64).to_le_bytes());
                    bytes.extend(value);
                }
            }
        }
        bytes.extend(self.behind);
        bytes
    }

    pub fn dump(&self) -> Vec<u8> {
        self.bytes(2, false)
    }

    pub fn header(&self) -> Vec<u8> {
        self.bytes(0x82, true)
    }

    pub fn stream(&self) -> Stream {
        Stream(self.fields(false).into())
    }
}
