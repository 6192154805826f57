//! The golden vectors of tests/vectors, which docs/vectors.md describes: what each family answers and stores.
//!
//! `VECTORS=write cargo test -p valkeybloom-bindings --test vectors` writes the replies and the bytes into the files, for
//! new cases. What it changes in old ones is a change of the product.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};
use valkeybloom_bindings::{
    Bloom, Chunked, CountMin, Cuckoo, Error, Family, Loader, TDigest, TopK, decode, name_of,
    parse_moment,
};
use valkeybloom_sketches::{Hasher, Seed};

fn path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors");
    folder.join(format!("{name}.json"))
}

fn read(name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(path(name)).unwrap()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.map(byte).collect()
}

/// Returns the bytes of an item: text, or `{"hex": digits}`.
fn item(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        other => unhex(other["hex"].as_str().unwrap()),
    }
}

fn of_item(bytes: &[u8]) -> Value {
    match str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": hex(bytes) }),
    }
}

fn items(step: &Value) -> Vec<Vec<u8>> {
    step.as_array().unwrap().iter().map(item).collect()
}

/// Returns the items of a step with their numbers, which are pairs in the file.
fn pairs(step: &Value) -> Vec<(Vec<u8>, i64)> {
    let pairs = step.as_array().unwrap().iter();
    pairs
        .map(|pair| (item(&pair[0]), pair[1].as_i64().unwrap()))
        .collect()
}

fn doubles(step: &Value) -> Vec<f64> {
    let numbers = step.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap()).collect()
}

/// JSON has no infinite numbers and no NaN, so these are texts.
fn of_double(number: f64) -> Value {
    if number.is_finite() {
        json!(number)
    } else {
        json!(number.to_string().to_lowercase())
    }
}

/// Returns one reply for each item, up to the first refusal, which is the last reply.
fn each<I, T: Into<Value>>(
    items: impl IntoIterator<Item = I>,
    mut call: impl FnMut(I) -> Result<T, Error>,
) -> Value {
    let mut replies = Vec::new();
    for item in items {
        match call(item) {
            Ok(reply) => replies.push(reply.into()),
            Err(error) => {
                replies.push(json!({ "error": error.text() }));
                break;
            }
        }
    }
    Value::Array(replies)
}

/// Returns the words of `names` that a case gives, for the command that creates its object.
fn words(create: &Value, names: &[(&str, &str)]) -> Vec<String> {
    let given = names.iter().filter(|(name, _)| create.get(name).is_some());
    given
        .flat_map(|(name, word)| [(*word).to_owned(), create[name].to_string()])
        .filter(|word| !word.is_empty())
        .collect()
}

fn slices(words: &[String]) -> Vec<&[u8]> {
    words.iter().map(String::as_bytes).collect()
}

/// An object of a family under test.
trait Tested: Family {
    fn create(create: &Value) -> Self;
    /// Carries a step out, and returns its reply.
    fn step(&mut self, name: &str, argument: &Value, step: &Value) -> Value;
    /// Writes its chunks, and those that it is loaded from again.
    fn chunks(&self) -> Option<Value> {
        None
    }
}

fn chunks_of<F: Chunked>(object: &F) -> Value {
    let (mut cursor, mut chunks, mut loader) = (0, Vec::new(), Loader::<F>::default());
    loop {
        let (next, chunk) = object.chunk(cursor).unwrap();
        if next == 0 {
            break;
        }
        loader.load(next, &chunk).unwrap();
        chunks.push(json!([next, hex(&chunk)]));
        cursor = next;
    }
    assert!(loader.end().unwrap().equals(object).unwrap());
    Value::Array(chunks)
}

impl Tested for Bloom {
    fn create(create: &Value) -> Self {
        // An object that another program made.
        if let Some(dump) = create["dump"].as_str() {
            return Self::from_bytes(&unhex(dump)).unwrap();
        }
        let mut words = words(create, &[("error_rate", ""), ("capacity", "")]);
        match create["expansion"].as_u64().unwrap() {
            0 => words.push("NONSCALING".to_owned()),
            more => words.extend(["EXPANSION".to_owned(), more.to_string()]),
        }
        if create["counting"] == true {
            words.push("COUNTING".to_owned());
        }
        let names = [
            ("window_ms", "WINDOW"),
            ("periods", "PERIODS"),
            ("scale_to", "SCALETO"),
        ];
        words.extend(self::words(create, &names));
        let seed = unhex(create["seed"].as_str().unwrap());
        Self::reserve(&slices(&words), Some(&seed)).unwrap()
    }

    fn step(&mut self, name: &str, argument: &Value, step: &Value) -> Value {
        let at_ms = step["at_ms"].as_u64();
        let options = words(step, &[("at_ms", "AT"), ("ttl_ms", "TTL")]);
        let moment = parse_moment(&slices(&options)).unwrap();
        match name {
            "add" => each(items(argument), |item| self.add(&item, &moment)),
            "contains" => each(items(argument), |item| Ok(self.contains(&item, at_ms))),
            "remove" => each(items(argument), |item| self.remove(&item)),
            "count" => each(items(argument), |item| self.count(&item)),
            "cardinality" => json!(self.items(at_ms)),
            other => panic!("{other} is not a step"),
        }
    }

    fn chunks(&self) -> Option<Value> {
        Some(chunks_of(self))
    }
}

impl Tested for Cuckoo {
    fn create(create: &Value) -> Self {
        let names = [
            ("capacity", ""),
            ("bucket_size", "BUCKETSIZE"),
            ("max_iterations", "MAXITERATIONS"),
            ("expansion", "EXPANSION"),
        ];
        Self::reserve(&slices(&words(create, &names))).unwrap()
    }

    fn step(&mut self, name: &str, argument: &Value, _: &Value) -> Value {
        match name {
            "add" => each(items(argument), |item| self.add(&item, false)),
            "add_new" => each(items(argument), |item| self.add(&item, true)),
            "contains" => each(items(argument), |item| Ok(self.contains(&item))),
            "remove" => each(items(argument), |item| Ok(self.remove(&item))),
            "count" => each(items(argument), |item| Ok(self.count(&item))),
            other => panic!("{other} is not a step"),
        }
    }

    fn chunks(&self) -> Option<Value> {
        // A filter without items has no chunks.
        (self.items() > 0).then(|| chunks_of(self))
    }
}

impl Tested for CountMin {
    fn create(create: &Value) -> Self {
        let names = [
            ("width", ""),
            ("depth", ""),
            ("error_rate", ""),
            ("probability", ""),
        ];
        let words = words(create, &names);
        let made = match create.get("width") {
            Some(_) => Self::by_size(&slices(&words)),
            None => Self::by_rates(&slices(&words)),
        };
        made.unwrap()
    }

    fn step(&mut self, name: &str, argument: &Value, _: &Value) -> Value {
        match name {
            "increment" => each(pairs(argument), |(item, by)| self.add(&item, by)),
            "query" => each(items(argument), |item| Ok(self.estimate(&item))),
            other => panic!("{other} is not a step"),
        }
    }
}

impl Tested for TopK {
    fn create(create: &Value) -> Self {
        let names = [("k", ""), ("width", ""), ("depth", ""), ("decay", "")];
        Self::reserve(&slices(&words(create, &names))).unwrap()
    }

    fn step(&mut self, name: &str, argument: &Value, _: &Value) -> Value {
        let left = |left: Option<_>| left.map_or(Value::Null, |left: Box<[u8]>| of_item(&left));
        match name {
            "add" => each(items(argument), |item| self.add(&item, 1).map(left)),
            "increment" => each(pairs(argument), |(item, by)| self.add(&item, by).map(left)),
            "contains" => each(items(argument), |item| Ok(self.contains(&item))),
            "list" => self
                .ranking()
                .unwrap()
                .map(|(item, count)| json!([of_item(item), count]))
                .collect(),
            other => panic!("{other} is not a step"),
        }
    }
}

impl Tested for TDigest {
    fn create(create: &Value) -> Self {
        Self::create(create["compression"].to_string().as_bytes()).unwrap()
    }

    fn step(&mut self, name: &str, argument: &Value, _: &Value) -> Value {
        let mut numbers = argument
            .as_array()
            .map_or_else(Vec::new, |_| doubles(argument));
        let ranks = argument.as_array().into_iter().flatten();
        let ranks = ranks.map(|rank| rank.as_u64().unwrap());
        match name {
            "add" => {
                self.add(&numbers).unwrap();
                Value::Null
            }
            "quantile" => {
                self.quantiles(&mut numbers).unwrap();
                numbers.into_iter().map(of_double).collect()
            }
            "cdf" => each(numbers, |value| {
                Ok(of_double(self.compressed()?.cdf(value)))
            }),
            "rank" => each(numbers, |value| Ok(self.compressed()?.rank(value))),
            "reverse_rank" => each(numbers, |value| Ok(self.compressed()?.reverse_rank(value))),
            "by_rank" => each(ranks, |rank| {
                Ok(of_double(self.compressed()?.by_rank(rank)))
            }),
            "by_reverse_rank" => each(ranks, |rank| {
                Ok(of_double(self.compressed()?.by_reverse_rank(rank)))
            }),
            "trimmed_mean" => of_double(self.trimmed_mean(numbers[0], numbers[1]).unwrap()),
            "min" => of_double(self.min()),
            "max" => of_double(self.max()),
            other => panic!("{other} is not a step"),
        }
    }
}

/// Replays the cases of a family, and returns them with the replies and bytes that they have.
fn replay<F: Tested>(file: &Value) -> Value {
    let mut cases = file["cases"].clone();
    for case in cases.as_array_mut().unwrap() {
        let mut object = F::create(&case["create"]);
        for step in case["steps"].as_array_mut().unwrap() {
            let names = ["at_ms", "ttl_ms", "reply"];
            let fields = step.as_object().unwrap();
            let name = fields
                .keys()
                .find(|name| !names.contains(&name.as_str()))
                .unwrap()
                .clone();
            let reply = object.step(&name, &step[&name].clone(), step);
            // Adding values replies nothing.
            if !reply.is_null() {
                step["reply"] = reply;
            }
        }
        let sketch = object.by_ref().to_dump().unwrap();
        let found = decode(&sketch).unwrap();
        assert_eq!(name_of(&found), F::NAME);
        let again = F::from_bytes(&sketch).unwrap();
        assert!(again.equals(&object).unwrap(), "{}", case["name"]);
        case["dump"] = json!(hex(&sketch));
        let bytes = object.to_bytes().unwrap();
        if bytes != sketch {
            assert!(F::from_bytes(&bytes).unwrap().equals(&object).unwrap());
            case["load"] = json!(hex(&bytes));
        }
        if let Some(chunks) = object.chunks() {
            case["chunks"] = chunks;
        }
    }
    cases
}

/// Writes a file with one step in a line, so that a change of it can be read.
fn write(family: &Value, cases: &Value) -> String {
    let mut text = format!("{{\"family\": {family}, \"cases\": [\n");
    let cases: Vec<String> = cases
        .as_array()
        .unwrap()
        .iter()
        .map(|case| {
            let mut lines = vec![format!(
                " {{\"name\": {}, \"create\": {},",
                case["name"], case["create"]
            )];
            let steps: Vec<String> = case["steps"]
                .as_array()
                .unwrap()
                .iter()
                .map(|step| format!("   {step}"))
                .collect();
            lines.push(format!("  \"steps\": [\n{}],", steps.join(",\n")));
            for name in ["load", "chunks"] {
                lines.extend(
                    case.get(name)
                        .map(|value| format!("  \"{name}\": {value},")),
                );
            }
            lines.push(format!("  \"dump\": {}}}", case["dump"]));
            lines.join("\n")
        })
        .collect();
    text += &cases.join(",\n");
    text + "\n]}\n"
}

fn check<F: Tested>(name: &str) {
    let file = read(name);
    let cases = replay::<F>(&file);
    if env::var_os("VECTORS").is_some_and(|what| what == "write") {
        fs::write(path(name), write(&file["family"], &cases)).unwrap();
    }
    let expected = read(name);
    for (case, expected) in cases
        .as_array()
        .unwrap()
        .iter()
        .zip(expected["cases"].as_array().unwrap())
    {
        let steps = [case, expected].map(|case| case["steps"].as_array().unwrap());
        for (step, expected) in steps[0].iter().zip(steps[1]) {
            assert_eq!(step, expected, "{}", case["name"]);
        }
        assert_eq!(case, expected);
    }
}

#[test]
fn replies_and_bytes() {
    check::<Bloom>("bloom");
    check::<Cuckoo>("cuckoo");
    check::<CountMin>("count-min");
    check::<TopK>("top-k");
    check::<TDigest>("t-digest");
}

/// The hashes were computed by another program, from the published descriptions. They set the bits of the first case.
#[test]
fn hashes_and_bits() {
    let (hashes, bloom) = (read("hash"), read("bloom"));
    let seed = unhex(hashes["seed"].as_str().unwrap());
    let sip = Hasher::Sip(Seed::new(seed.try_into().unwrap()));
    let case = &bloom["cases"][0];
    // The bitmap is at the end of the payload, after 13 bytes of the blob's header and 32 of the seed.
    let payload = unhex(case["load"].as_str().unwrap());
    let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().unwrap());
    let blob = 38;
    let bits = 8 * number(blob + 1);
    let count = u32::from_le_bytes(payload[blob + 9..blob + 13].try_into().unwrap());
    let bitmap = &payload[blob + 45..];
    let positions = |a: u64, b: u64, bits: u64, count: u64| {
        (0..count).map(move |i| match i {
            0 => a % bits,
            1 => b % bits,
            _ => a.wrapping_add(i.wrapping_mul(b)) % 0xffff_ffff_ffff_ffc5 % bits,
        })
    };
    for row in hashes["items"].as_array().unwrap() {
        let item = item(&row["item"]);
        for (hasher, name) in [(sip, "sip"), (Hasher::Murmur64, "murmur")] {
            let (a, b) = hasher.probe(&item).hashes();
            assert_eq!(row[name], json!([format!("{a:016x}"), format!("{b:016x}")]));
        }
        let (a, b) = sip.probe(&item).hashes();
        let (of_row, k) = (
            hashes["bits"].as_u64().unwrap(),
            hashes["hashes"].as_u64().unwrap(),
        );
        assert_eq!(
            row["positions"],
            json!(positions(a, b, of_row, k).collect::<Vec<_>>())
        );
        let is_set = |at: u64| bitmap[usize::try_from(at / 8).unwrap()] >> (at % 8) & 1 == 1;
        // All items but the first are in the filter of the first case.
        if row["item"] != "item" {
            assert!(positions(a, b, bits, count.into()).all(is_set));
        }
    }
}
