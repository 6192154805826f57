//! Commands that are nearly right.

use super::super::Random;
use super::{Command, command};
use crate::support::pieces::Pieces;

/// The last two are not text.
pub const KEYS: [&[u8]; 10] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"e",
    b"f",
    b"g",
    b"h",
    b"",
    b"\0\xff\r\n$3",
];
/// Keys of other types.
pub const OTHERS: [&str; 3] = ["string", "list", "stream"];

/// Words between bars, as all tables of one kind of words here.
const INTEGERS: &str = "0|-0|-1|+5|007| 5|5 |5\n||x|1.5|1e3|0x10|1_000|nan|--1|+|-|\u{663}|2|3|1|127|255|65535|\
    65536|100000|1000000|2147483647|2147483648|4294967295|4294967296|9223372036854775806|\
    9223372036854775807|9223372036854775808|-9223372036854775808|-9223372036854775809|\
    18446744073709551615|18446744073709551616|340282366920938463463374607431768211456";

const RATES: &str = "0.9|0.75|0.25|0.0001|1e-9|1E-2|1e-15|0.999999|0.9999999999999999|0.99999999999999999|\
    1e-100|1e-299|1e-308|2.2250738585072014e-308|5e-324|2e-324|1e-400|0|-0|0.0|1|1.0|2|\
    1e400|-0.1|nan|NaN|-nan|inf|-inf|+inf|infinity||x|0,1|.5|5.|+0.1|0x1p-3|1e|0.1.1|0.1 | 0.1|\
    0.1x";

/// Options of BF.INSERT. The third to the eighth are BF.RESERVE's too.
const OPTIONS: [&str; 14] = [
    "CAPACITY",
    "ERROR",
    "EXPANSION",
    "NONSCALING",
    "COUNTING",
    "WINDOW",
    "PERIODS",
    "SCALETO",
    "NOCREATE",
    "TIGHTENING",
    "SEED",
    "VALIDATESCALETO",
    "TTL",
    "AT",
];

/// Options of BF.RESERVE alone.
const OF_RESERVE: [&str; 3] = ["EX", "PX", "NX"];

/// Lengths of periods: valid ones last for years, the others are not lengths.
const PERIODS_MS: &str = "1000000000000|1000000000000|1000000000000|10000000000000|10000000000000|\
    9223372036854775807|0|-1|x|9223372036854775808";

/// Times to live of items.
const TTLS: &str = "1|1000|1000000000000|1000000000000|2000000000000|2000000000001|10000000000000|0|-1|x|\
    9223372036854775807";

/// Times to live of keys: valid ones outlast the test, the others are not times.
const KEY_TTLS: &str = "1000000000|1000000000|1000000000|0|-5|soon|9223372036854775807";

/// Options whose values, when they are missing, are not to be any number: it might be a short time.
const TIMES: [&str; 3] = ["EX", "PX", "WINDOW"];

const FIELDS: &str = "CAPACITY|SIZE|FILTERS|ITEMS|EXPANSION|ERROR|TIGHTENING|MAXSCALEDCAPACITY|ESTIMATEDERROR|\
    ALL|WINDOW|PERIODS|LIVEPERIODS|PERIODITEMS|KIND|FEEDBYTES|FEEDREADERS||SIZES|CAP|Number of filters";

/// Bytes that the server has handed out, to be handed back.
pub struct Library {
    pub dumps: Vec<Vec<u8>>,
    /// Headers, and the bits that follow them.
    pub pieces: Vec<(Vec<u8>, Vec<u8>)>,
    /// The lengths of the bitmaps of each.
    pub lengths: Vec<Vec<usize>>,
    /// The pieces of objects of tables.
    pub tables: Vec<Pieces>,
}

fn is_other(key: &[u8]) -> bool {
    OTHERS.map(str::as_bytes).contains(&key)
}

fn is_time(word: &[u8]) -> bool {
    let mut times = TIMES.iter();
    times.any(|time| word.eq_ignore_ascii_case(time.as_bytes()))
}

pub struct Grammar<'a> {
    pub random: &'a mut Random,
    pub library: &'a Library,
}

impl Grammar<'_> {
    fn key(&mut self) -> Vec<u8> {
        if self.random.one_in(16) {
            self.random.pick(&OTHERS).as_bytes().to_vec()
        } else {
            self.random.pick(&KEYS).to_vec()
        }
    }

    fn item(&mut self) -> Vec<u8> {
        match self.random.below(32) {
            0 => Vec::new(),
            1 => self.word("ITEMS|CAPACITY|\0|item\r\n|NOCREATE"),
            2 => {
                let length = self.random.below(40);
                self.random.bytes(length)
            }
            3 if self.random.one_in(60) => {
                let length = self.random.below(100_000);
                self.random.bytes(length)
            }
            3..10 => self.popular(),
            10..16 => self.random.below(64).to_string().into_bytes(),
            _ => self.random.below(100_000).to_string().into_bytes(),
        }
    }

    /// Returns an item that comes up again and again.
    fn popular(&mut self) -> Vec<u8> {
        self.random.below(8).to_string().into_bytes()
    }

    fn items(&mut self) -> Vec<Vec<u8>> {
        let count = match self.random.below(16) {
            0 => 0,
            1..8 => 1,
            8..15 => self.random.below(8),
            _ if self.random.one_in(8) => 1000,
            _ => 40,
        };
        (0..count).map(|_| self.item()).collect()
    }

    /// Returns one of these words between bars.
    fn word(&mut self, among: &str) -> Vec<u8> {
        let words: Vec<&str> = among.split('|').collect();
        self.random.pick(&words).as_bytes().to_vec()
    }

    /// Returns a name in any letter case, now and then with an error.
    fn name(&mut self, name: &str) -> Vec<u8> {
        let mut word = name.as_bytes().to_vec();
        match self.random.below(16) {
            0..4 => word.make_ascii_lowercase(),
            4..8 => {
                for byte in &mut word {
                    if self.random.one_in(2) {
                        byte.make_ascii_lowercase();
                    }
                }
            }
            8 if self.random.one_in(6) => {
                word.pop();
            }
            9 if self.random.one_in(6) => word.push(self.random.next().to_le_bytes()[0]),
            _ => {}
        }
        word
    }

    fn integer(&mut self) -> Vec<u8> {
        if self.random.one_in(6) {
            self.word(INTEGERS)
        } else {
            (1 + self.random.below(40)).to_string().into_bytes()
        }
    }

    fn expansion(&mut self) -> Vec<u8> {
        match self.random.below(12) {
            0 | 1 => self.word(INTEGERS),
            // The second filter is too large.
            2 => self.word("100000|10000000|4294967295"),
            _ => self.random.below(5).to_string().into_bytes(),
        }
    }

    fn rate(&mut self) -> Vec<u8> {
        if self.random.one_in(4) {
            self.word(RATES)
        } else {
            self.word("0.5|0.1|0.01|0.001|0.000001")
        }
    }

    fn option(&mut self, words: &mut Command, among: &[&str]) {
        let option = *self.random.pick(among);
        words.push(self.name(option));
        // Its value may be missing.
        if self.random.one_in(60) {
            return;
        }
        let value = match option {
            "CAPACITY" | "SCALETO" | "VALIDATESCALETO" => self.integer(),
            "EXPANSION" => self.expansion(),
            "ERROR" | "TIGHTENING" => self.rate(),
            "SEED" => {
                let length = *self.random.pick(&[32, 32, 32, 32, 32, 31, 33, 0]);
                self.random.bytes(length)
            }
            "WINDOW" => self.word(PERIODS_MS),
            "PERIODS" if self.random.one_in(4) => {
                self.word("60000|60001|0|-1|two|9223372036854775807")
            }
            "PERIODS" => self.word("1|2|3"),
            "TTL" => self.word(TTLS),
            "AT" => self.word(INTEGERS),
            "EX" | "PX" => self.word(KEY_TTLS),
            _ => return,
        };
        words.push(value);
    }

    /// Adds the options of a kind, now and then.
    fn kind(&mut self, words: &mut Command) {
        let windowed = self.random.one_in(4);
        // Both are refused, in either order.
        let counting = self.random.one_in(if windowed { 10 } else { 3 });
        let first = self.random.one_in(2);
        if counting && first {
            words.push(self.name("COUNTING"));
        }
        if windowed {
            let window = [
                "WINDOW 1000000000000 PERIODS 2",
                "WINDOW 10000000000000 PERIODS 1",
            ];
            words.extend(self.random.pick(&window).split(' ').map(Into::into));
        }
        if counting && !first {
            words.push(self.name("COUNTING"));
        }
    }

    fn insert(&mut self) -> Command {
        let mut words = vec![self.key()];
        if self.random.one_in(16) {
            // Rates that soon are too small, and sizes that soon are too large.
            let steep = [
                "CAPACITY 1 EXPANSION 1 ERROR 1e-5 TIGHTENING 1e-320",
                "CAPACITY 2 EXPANSION 4000",
            ];
            words.extend(self.random.pick(&steep).split(' ').map(Into::into));
            if self.random.one_in(2) {
                words.extend(["VALIDATESCALETO", "100000"].map(Into::into));
            }
        }
        self.kind(&mut words);
        if self.random.one_in(6) {
            let items = *self.random.pick(&["1", "60", "4000"]);
            words.extend(["SCALETO", items].map(Into::into));
        }
        for _ in 0..self.random.below(4) {
            self.option(&mut words, &OPTIONS);
        }
        if !self.random.one_in(4) {
            words.push(self.name("ITEMS"));
            words.extend(self.items());
        }
        words
    }

    fn reserve(&mut self) -> Command {
        let mut words = vec![self.key(), self.rate(), self.integer()];
        self.kind(&mut words);
        for _ in 0..self.random.below(3) {
            let among = if self.random.one_in(12) {
                OPTIONS.to_vec()
            } else {
                [&OPTIONS[2..8], &OF_RESERVE].concat()
            };
            self.option(&mut words, &among);
        }
        words
    }

    /// Adds the next command, or some that belong together.
    pub fn next(&mut self, commands: &mut Vec<Command>) {
        let key = self.key();
        let (name, mut words) = match self.random.below(50) {
            0..8 => ("BF.ADD", vec![key, self.item()]),
            8..12 => ("BF.MADD", [vec![key], self.items()].concat()),
            12..16 => ("BF.EXISTS", vec![key, self.item()]),
            16..19 => ("BF.MEXISTS", [vec![key], self.items()].concat()),
            19..21 => ("BF.CARD", vec![key]),
            21..24 => ("BF.RESERVE", self.reserve()),
            24..30 => ("BF.INSERT", self.insert()),
            30..33 => {
                let mut words = vec![key];
                if !self.random.one_in(3) {
                    let field = self.word(FIELDS);
                    words.push(self.name(&String::from_utf8_lossy(&field)));
                }
                ("BF.INFO", words)
            }
            33 => ("BF.DEBUG", vec![key]),
            34 => {
                let cursor = if self.random.one_in(3) {
                    self.integer()
                } else {
                    self.random.below(200).to_string().into_bytes()
                };
                ("BF.SCANDUMP", vec![key, cursor])
            }
            35 => ("BF.LOAD", self.load(key)),
            36 => return self.chunks(&key, commands),
            37 => ("COPY", vec![key, self.key()]),
            38..41 => ("BF.DEL", vec![key, self.popular()]),
            41 => ("BF.MDEL", [vec![key], self.items()].concat()),
            42 => ("BF.COUNT", vec![key, self.popular()]),
            43 => ("BF.MISSING", [vec![key], self.items()].concat()),
            46 | 47 => ("BF.READ", self.read(key)),
            44 | 45 => {
                let sources = 1 + self.random.below(2);
                let sources = (0..sources).map(|_| self.key());
                ("BF.MERGE", [vec![key], sources.collect()].concat())
            }
            _ => ("DEL", vec![key]),
        };
        // A word too many, or one too few.
        match self.random.below(100) {
            // A number would be a time to live, which is not in the model.
            0 if name == "BF.LOAD" && words.len() == 2 => words.push(b"soon".to_vec()),
            0 if words.last().is_some_and(|word| is_time(word)) => {}
            0 => words.push(self.item()),
            1 => drop(words.pop()),
            _ => {}
        }
        // Commands that do not work on one object, or on two, are the server's affair there.
        if ["COPY", "DEL"].contains(&name) {
            let due = 1 + usize::from(name == "COPY");
            if words.len() != due
                || words.iter().any(|key| is_other(key))
                || due == 2 && words[0] == words[1]
            {
                return;
            }
        }
        let mut name = name.as_bytes().to_vec();
        if self.random.one_in(8) {
            name.make_ascii_lowercase();
        }
        commands.push([vec![name], words].concat());
    }

    fn read(&mut self, key: Vec<u8>) -> Command {
        let mut words = vec![
            key,
            self.word("$|$|0123456789abcdef-0|0123456789ABCDEF-0|5|$$|"),
        ];
        if self.random.one_in(3) {
            let count = match self.random.below(8) {
                0 => b"0".to_vec(),
                _ => self.integer(),
            };
            words.extend([self.name("MAX_COUNT"), count]);
        }
        words
    }

    fn load(&mut self, key: Vec<u8>) -> Command {
        let mut dump = self.random.pick(&self.library.dumps).clone();
        match self.random.below(12) {
            0 => dump.clear(),
            1 => {
                dump.pop();
            }
            2 => dump.push(0),
            3 => dump[0] = *self.random.pick(&[0, 2, 0x81, 255]),
            _ => {}
        }
        let mut words = vec![key, dump];
        if self.random.one_in(3) {
            words.push(self.word("1000000000|1000000000||x|-1|1.5|+1000000000"));
        }
        words
    }

    /// Adds chunks for a whole object, mostly in order.
    fn chunks(&mut self, key: &[u8], commands: &mut Vec<Command>) {
        if !self.random.one_in(3) && !is_other(key) {
            commands.push(command(&[b"DEL", key]));
        }
        let library = self.library;
        if self.random.one_in(2) {
            for (cursor, piece) in self.random.pick(&library.tables) {
                let (mut cursor, mut piece) = (cursor.to_string().into_bytes(), piece.clone());
                match self.random.below(24) {
                    0 => cursor = self.word(INTEGERS),
                    1 => drop(piece.pop()),
                    2 => piece.push(0),
                    // Mostly not valid, and else another object.
                    3 if !piece.is_empty() => {
                        let at = self.random.below(piece.len());
                        piece[at] ^= 1 << self.random.below(8);
                    }
                    // The rest never comes.
                    4 => return,
                    _ => {}
                }
                commands.push(command(&[b"BF.LOADCHUNK", key, &cursor, &piece]));
            }
            return;
        }
        let which = self.random.below(library.pieces.len());
        let (header, bits) = &library.pieces[which];
        let add = |commands: &mut Vec<Command>, cursor: &[u8], bytes: &[u8]| {
            commands.push(command(&[b"BF.LOADCHUNK", key, cursor, bytes]));
        };
        add(commands, b"1", header);
        let mut start = 0;
        for length in &library.lengths[which] {
            let filter = start + length;
            while start < filter {
                let end = start + 1 + self.random.below(filter - start);
                let cursor = (end + 1).to_string();
                match self.random.below(24) {
                    0 => add(commands, &self.word(INTEGERS), &bits[start..end]),
                    1 => add(commands, cursor.as_bytes(), &bits[start..end - 1]),
                    2 => add(commands, cursor.as_bytes(), b""),
                    // Bits of nothing.
                    3 if self.random.one_in(6) => {
                        add(commands, cursor.as_bytes(), &vec![0xff; end - start]);
                    }
                    // The rest never comes.
                    4 => return,
                    5 if self.random.one_in(2) => {
                        commands.push(command(&[b"BF.LOADCHUNK", key, cursor.as_bytes()]));
                    }
                    _ => {}
                }
                add(commands, cursor.as_bytes(), &bits[start..end]);
                start = end;
            }
        }
    }
}
