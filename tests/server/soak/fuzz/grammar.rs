//! Commands that are nearly right.

use std::collections::HashMap;

use super::super::dump_of;
use super::{Command, command};
use crate::harness::int;
use crate::support::Rng;
use crate::support::pieces::{Pieces, pieces, split};
use crate::support::protocols::with_fixed_seed;

/// Alternatives between bars, each with its weight before `*`. `<rule>` is a rule, and `<rule>9` less than nine times that
/// rule; `#9` is a number below nine, `!9` nine random bytes, and `''` an empty word. All other words stand for themselves,
/// with bytes escaped by `%`; those in upper case are misspelt now and then.
///
/// Periods and times to live are over at once or after years, so that replies don't depend on the clock. Only those of
/// `keyspace` are short.
const RULES: &str = "
command = 8* BF.ADD <key> <item> | 4* BF.MADD <key> <items> | 4* BF.EXISTS <key> <item> | 3* BF.MEXISTS <key> <items>
    | 2* BF.CARD <key> | 3* BF.RESERVE <key> <rate> <integer> <kind> <reserve>3 | 6* BF.INSERT <key> <insert>
    | 3* BF.INFO <key> <field> | BF.DEBUG <key> | BF.SCANDUMP <key> <cursor> | BF.LOAD <key> <dump> <load>
    | COPY <key> <name> | 3* BF.DEL <key> #8 | BF.MDEL <key> <items> | BF.COUNT <key> #8 | BF.MISSING <key> <items>
    | 2* BF.MERGE <key> <key> <key>2 | 2* BF.READ <key> <from> <most> | 3* DEL <name>

key = 15* <name> | <other>
name = a | b | c | d | e | f | g | h | '' | %00%FF%0D%0A$3
other = string | list | stream
item = 60* '' | 12* ITEMS | 12* CAPACITY | 12* NOCREATE | 12* %00 | 12* item%0D%0A | 30* !3 | 30* !39 | !20000 | 480* #8
    | 360* #64 | 900* #100000
items = 8* | 56* <item> | 56* <item>8 | 7* <item>40 | <item>1000

integer = 5* #40 | <number>
number = 0|-0|-1|+5|007|%205|5%20|5%0A|''|x|1.5|1e3|0x10|1_000|nan|--1|+|-|%D9%A3|2|3|1|127|255|65535|65536|100000|1000000
    |2147483647|2147483648|4294967295|4294967296|9223372036854775806|9223372036854775807|9223372036854775808
    |-9223372036854775808|-9223372036854775809|18446744073709551615|18446744073709551616
    |340282366920938463463374607431768211456
expansion = 9* #5 | 2* <number> | <steep>
steep = 100000 | 10000000 | 4294967295
rate = 3* <usual> | <real>
usual = 0.5 | 0.1 | 0.01 | 0.001 | 0.000001
real = 0.9|0.75|0.25|0.0001|1e-9|1E-2|1e-15|0.999999|0.9999999999999999|0.99999999999999999|1e-100|1e-299|1e-308
    |2.2250738585072014e-308|5e-324|2e-324|1e-400|0|-0|0.0|1|1.0|2|1e400|-0.1|nan|NaN|-nan|inf|-inf|+inf|infinity|''|x
    |0,1|.5|5.|+0.1|0x1p-3|1e|0.1.1|0.1%20|%200.1|0.1x

insert = <small> <kind> <scaling> <option>4 <listed>
small = 30* | CAPACITY 1 EXPANSION 1 ERROR 1e-17 TIGHTENING 1e-320 <reach> | CAPACITY 2 EXPANSION 4000 <reach>
reach = | VALIDATESCALETO 100000
scaling = 15* | SCALETO 1 | SCALETO 60 | SCALETO 4000
listed = | 3* ITEMS <items>
kind = 20* | 9* COUNTING | 9* <window> | COUNTING <window> | <window> COUNTING
window = WINDOW 1000000000000 PERIODS 2 | WINDOW 10000000000000 PERIODS 1
option = CAPACITY <integer> | ERROR <rate> | NOCREATE | TIGHTENING <rate> | SEED <seed> | VALIDATESCALETO <integer>
    | TTL <ttl> | AT <number> | 6* <growth>
growth = EXPANSION <expansion> | NONSCALING | COUNTING | WINDOW <period> | PERIODS <periods> | SCALETO <integer>
reserve = <option> | 12* <growth> | 2* EX <end> | 2* PX <end> | 2* NX
seed = 5* !32 | !31 | !33 | ''
ttl = 1|1000|1000000000000|1000000000000|2000000000000|2000000000001|10000000000000|0|-1|x|9223372036854775807
period = 3* 1000000000000 | 2* 10000000000000 | 9223372036854775807 | 0 | -1 | x | 9223372036854775808
periods = 6* 1 | 6* 2 | 6* 3 | 60000 | 60001 | 0 | -1 | two | 9223372036854775807
end = 3* 1000000000 | 0 | -5 | soon | 9223372036854775807

field = 10* | CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION | ERROR | TIGHTENING | MAXSCALEDCAPACITY | ESTIMATEDERROR | ALL
    | WINDOW | PERIODS | LIVEPERIODS | PERIODITEMS | KIND | FEEDBYTES | FEEDREADERS | '' | SIZES | CAP | Number%20of%20filters
cursor = 2* #200 | <integer>
from = 2* %24 | 0123456789abcdef-0 | 0123456789ABCDEF-0 | 5 | %24%24 | ''
most = 2* | MAX_COUNT <integer>
load = 12* | 2* 1000000000 | '' | x | -1 | 1.5 | +1000000000

keyspace = 2* COPY <key> <name> | 4* COPY <key> <name> REPLACE | COPY <key> <name> DB 1 REPLACE | 3* RENAME <key> <name>
    | MOVE <key> 1 | 2* UNLINK <key> | 3* PEXPIRE <key> <end> | 2* PEXPIRE <key> <brief> | PERSIST <key> | SWAPDB 0 1
    | 2* BF.INSERT <key> TTL <brief> ITEMS <items> | 2* BF.RESERVE <key> 0.02 25 PX <brief>
    | 3* BF.INSERT <key> CAPACITY 30 WINDOW <brief> PERIODS 3 ITEMS <items> | SET <key> string
    | CONFIG SET bf.bloom-saturate-nonscaling <switch> bf.bloom-capacity <usually> bf.bloom-new-filters <maker>
brief = 1 | 5 | 100
switch = yes | no
usually = 10 | 40 | 300
maker = own | valkey-bloom | redisbloom
";

/// Objects that are handed back by BF.LOAD and BF.LOADCHUNK. The target's limits do not admit the last one.
pub const CREATIONS: [&str; 10] = [
    "BF.INSERT a CAPACITY 20 ERROR 0.01 ITEMS 1 2 3 4 5 6 7",
    "BF.INSERT a CAPACITY 2 EXPANSION 1 ITEMS 1 2 3 4 5 6 7 8 9",
    "BF.INSERT a CAPACITY 5 ERROR 0.001 NONSCALING ITEMS 1 2 3 4 5",
    "BF.INSERT a CAPACITY 3 TIGHTENING 0.9 EXPANSION 3 ITEMS 10 11 12 13 14 15 16 17",
    "BF.INSERT a CAPACITY 50",
    "BF.INSERT a CAPACITY 3 COUNTING ITEMS 1 2 3 4 5 6 7 1 2",
    "BF.INSERT a SCALETO 4 EXPANSION 1 ITEMS 1 2 3 4 5",
    "BF.INSERT a CAPACITY 5 WINDOW 1000000000000 PERIODS 2 TTL 2000000000000 ITEMS 1 2 3 4 5 6 7",
    "BF.INSERT a CAPACITY 5 NONSCALING WINDOW 10000000000000 PERIODS 3 ITEMS 1 2 3",
    "BF.INSERT a CAPACITY 20000",
];

/// An alternative of a rule, with its weight.
type Alternative = (usize, Vec<&'static str>);

pub struct Grammar {
    rules: HashMap<&'static str, Vec<Alternative>>,
    /// What BF.LOAD takes, and what BF.LOADCHUNK takes.
    dumps: Vec<Vec<u8>>,
    pieces: Vec<Pieces>,
}

impl Grammar {
    pub fn new() -> Self {
        let mut rules: HashMap<_, Vec<Alternative>> = HashMap::new();
        let mut rule = "";
        for line in RULES.lines().filter(|line| !line.is_empty()) {
            let alternatives = match line.split_once(" = ") {
                Some((name, alternatives)) => {
                    rule = name;
                    alternatives
                }
                None => line.trim().strip_prefix('|').expect("a line goes on"),
            };
            let alternatives = alternatives.split('|').map(|text| {
                let weighed = text.split_once('*');
                let weighed = weighed.and_then(|(n, text)| Some((n.trim().parse().ok()?, text)));
                let (weight, text) = weighed.unwrap_or((1, text));
                (weight, text.split_whitespace().collect())
            });
            rules.entry(rule).or_default().extend(alternatives);
        }
        let server = with_fixed_seed();
        let mut client = server.client();
        let pieces = CREATIONS.map(|line| {
            client.run(line);
            let pieces = pieces(&mut client, "a");
            client.expect("DEL a", int(1));
            pieces
        });
        Self {
            rules,
            dumps: pieces.iter().map(|pieces| dump_of(pieces)).collect(),
            pieces: pieces.into(),
        }
    }

    /// Adds the next command, or some that belong together.
    pub fn next(&self, random: &mut Rng, commands: &mut Vec<Command>) {
        if random.one_in(50) {
            return self.chunks(random, commands);
        }
        let mut words = self.words(random, "command");
        // A word too many, or one too few. One too many that is a number could be a short time to live.
        match random.below(100) {
            0 => words.push(b"soon".to_vec()),
            1 => drop(words.pop()),
            2 if words.len() > 3 => drop(words.remove(2 + random.below(words.len() - 2))),
            _ => {}
        }
        commands.push(words);
    }

    fn expand(&self, random: &mut Rng, rule: &str, words: &mut Command) {
        if rule == "dump" {
            return words.push(self.dump(random));
        }
        let alternatives = &self.rules[rule];
        let mut place = random.below(alternatives.iter().map(|(weight, _)| weight).sum());
        let chosen = alternatives.iter().find(|(weight, _)| {
            let is_here = place < *weight;
            place = place.wrapping_sub(*weight);
            is_here
        });
        for symbol in &chosen.expect("it is below the sum").1 {
            let (kind, rest) = symbol.split_at(1);
            let number = |text: &str| text.parse().expect("a number");
            match kind {
                "<" => {
                    let (rule, end) = rest.split_once('>').expect("a rule");
                    let times = match end {
                        "" => 1,
                        end => random.below(number(end)),
                    };
                    (0..times).for_each(|_| self.expand(random, rule, words));
                }
                "#" => words.push(random.below(number(rest)).to_string().into_bytes()),
                "!" => words.push(random.bytes(number(rest))),
                _ => words.push(spelt(random, symbol, words.is_empty())),
            }
        }
    }

    /// Returns what a rule makes.
    pub fn words(&self, random: &mut Rng, rule: &str) -> Command {
        let mut words = Command::new();
        self.expand(random, rule, &mut words);
        words
    }

    /// Returns what a rule of one word makes.
    pub fn word(&self, random: &mut Rng, rule: &str) -> Vec<u8> {
        self.words(random, rule).swap_remove(0)
    }

    fn dump(&self, random: &mut Rng) -> Vec<u8> {
        let mut dump = random.pick(&self.dumps).clone();
        match random.below(12) {
            0 => dump.clear(),
            1 => drop(dump.pop()),
            2 => dump.push(0),
            3 => dump[0] = *random.pick(&[0, 2, 0x81, 255]),
            _ => {}
        }
        dump
    }

    /// Adds chunks for a whole object, mostly in order.
    fn chunks(&self, random: &mut Rng, commands: &mut Vec<Command>) {
        let key = self.word(random, "name");
        if !random.one_in(3) {
            commands.push(command(&[b"DEL", &key]));
        }
        let pieces = random.pick(&self.pieces);
        let longest = pieces.iter().map(|(_, piece)| piece.len()).max();
        let most = 1 + random.below(longest.expect("a header"));
        for (cursor, piece) in split(pieces, most.max(8)) {
            let cursor = cursor.to_string().into_bytes();
            let mut add = |words: &[&[u8]]| {
                commands.push([command(&[b"BF.LOADCHUNK", &key]), command(words)].concat());
            };
            match random.below(40) {
                0 => add(&[&self.word(random, "number"), &piece]),
                1 => add(&[&cursor, &piece[1..]]),
                2 => add(&[&cursor, b""]),
                3 => add(&[&cursor]),
                4 => add(&[&cursor, &[&piece[..], b"\0"].concat()]),
                // Mostly not valid, and else another object.
                5 => {
                    let mut other = piece.clone();
                    other[random.below(piece.len())] ^= 1 << random.below(8);
                    add(&[&cursor, &other]);
                }
                // Bits of nothing.
                6 => add(&[&cursor, &vec![0xff; piece.len()]]),
                // The rest never comes.
                7 | 8 => return,
                _ => {}
            }
            add(&[&cursor, &piece]);
        }
    }
}

/// Returns a word that stands for itself. If it is a name, it has any letter case, and now and then an error.
fn spelt(random: &mut Rng, symbol: &str, is_command: bool) -> Vec<u8> {
    let mut parts = symbol.trim_matches('\'').split('%');
    let mut word: Vec<u8> = parts.next().expect("one part").into();
    for part in parts {
        word.push(u8::from_str_radix(&part[..2], 16).expect("a byte"));
        word.extend(part[2..].bytes());
    }
    let is_of_name = |byte: &u8| byte.is_ascii_uppercase() || b"._".contains(byte);
    if word.is_empty() || !word.iter().all(is_of_name) {
        return word;
    }
    match random.below(48) {
        0..12 => word.make_ascii_lowercase(),
        12..24 => {
            for byte in word.iter_mut().filter(|_| random.one_in(2)) {
                byte.make_ascii_lowercase();
            }
        }
        24 if !is_command => drop(word.pop()),
        25 if !is_command => word.extend(random.bytes(1)),
        _ => {}
    }
    word
}
