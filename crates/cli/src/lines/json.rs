//! The items of JSON lines: a field of each.
//!
//! Each name of a field's path is looked up in the value before it, as text: the line, then an object in it, and so on. The
//! first lookup reads the whole line, so it also finds what is not JSON.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use memchr::memchr;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Error};

use super::block::{Block, OnFault};
use crate::failure::Result;

/// The path of a field: the names of the objects around it, and its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field(Vec<String>);

impl FromStr for Field {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        if word.split('.').any(str::is_empty) {
            return Err("not the name of a field, like text or user.id");
        }
        Ok(Self(word.split('.').map(str::to_owned).collect()))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

impl Field {
    /// Returns the names on the path.
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// Returns a block with the items of the lines of a block, which it keeps. Blank lines are no records.
    ///
    /// # Errors
    /// A line is not JSON, or lacks the field, and that is not permitted.
    pub fn of_lines(&self, lines: Block, missing: OnFault, bad: OnFault) -> Result<Block> {
        lines.with_fields(|block, line| match self.find(line) {
            Ok(Some(item)) => {
                block.push(item.as_bytes());
                Ok(())
            }
            Ok(None) => block.push_itemless(missing, format_args!("it has no field {self}")),
            Err(_) if line.trim_ascii().is_empty() => block.push_itemless(OnFault::Drop, ""),
            Err(error) => {
                let error = error.to_string().replace(" at line 1 column ", ", column ");
                block.push_itemless(bad, format_args!("it is not JSON: {error}"))
            }
        })
    }

    /// Returns the item of a line; `None` if there is no such field, or it is null.
    ///
    /// # Errors
    /// The line is not JSON, or a string that must be converted has half of a surrogate pair.
    fn find<'l>(&self, line: &'l [u8]) -> Result<Option<Cow<'l, str>>, Error> {
        let mut value = str::from_utf8(line).map_err(Error::custom)?;
        for (depth, name) in self.0.iter().enumerate() {
            let found = value_of(name, value);
            // The first lookup has read the whole line, so only the conversion of a name can fail in another one.
            let found = found.map_err(|error| if depth == 0 { error } else { lone_surrogate() });
            match found? {
                Some(inner) => value = inner,
                None => return Ok(None),
            }
        }
        item(value)
    }
}

/// Returns the value of a field of an object, the last one if there are several. `None` if there is no such field, or no
/// object. Reads all of the text, and converts only the names of the object, because JSON has numbers and
/// strings that Rust's types lack. Nested values take no stack.
fn value_of<'t>(name: &str, text: &'t str) -> Result<Option<&'t str>, Error> {
    let mut json = Deserializer::from_str(text);
    let value = if text.trim_start().starts_with('{') {
        json.deserialize_map(LastField { name })?
    } else {
        json.deserialize_ignored_any(IgnoredAny)?;
        None
    };
    json.end()?;
    Ok(value.map(RawValue::get))
}

/// Returns the item that a value is: a string without its quotes and escapes, none if it is null, anything else as it is
/// written.
fn item(value: &str) -> Result<Option<Cow<'_, str>>, Error> {
    let Some(string) = value.strip_prefix('"') else {
        return Ok((value != "null").then_some(value.into()));
    };
    let string = string.strip_suffix('"').unwrap_or(string);
    if memchr(b'\\', string.as_bytes()).is_none() {
        return Ok(Some(string.into()));
    }
    let string: String = serde_json::from_str(value).map_err(|_| lone_surrogate())?;
    Ok(Some(string.into()))
}

/// Returns the error of a string that can't be converted, although it is JSON. It has no column: that of the library's error
/// is within a part of the line.
fn lone_surrogate() -> Error {
    Error::custom("a string has half of a surrogate pair")
}

/// Visits an object for the value of the last field of this name.
struct LastField<'n> {
    name: &'n str,
}

impl<'t> Visitor<'t> for LastField<'_> {
    type Value = Option<&'t RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut value = None;
        while let Some(is_named) = object.next_key_seed(IsName(self.name))? {
            if is_named {
                value = Some(object.next_value()?);
            } else {
                object.next_value::<IgnoredAny>()?;
            }
        }
        Ok(value)
    }
}

/// Compares the name of a field with this one. The escapes of a name are resolved before.
struct IsName<'n>(&'n str);

impl<'t> DeserializeSeed<'t> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'t>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn find(field: &str, line: &[u8]) -> Result<Option<String>, String> {
        let field: Field = field.parse().expect("a field");
        let found = field.find(line).map_err(|error| error.to_string())?;
        Ok(found.map(Cow::into_owned))
    }

    #[test]
    fn a_field_is_found_at_its_path_and_without_its_escapes() {
        for (line, field, item) in [
            (r#"{"a":"x"}"#, "a", Some("x")),
            (r#" { "b" : [{"a":1}] , "a" : "x" } "#, "a", Some("x")),
            (
                r#"{"a":"\u0041\n\"\ud83d\ude00"}"#,
                "a",
                Some("A\n\"\u{1f600}"),
            ),
            (r#"{"\u0061":"x"}"#, "a", Some("x")),
            (r#"{"a":1.50}"#, "a", Some("1.50")),
            (r#"{"a":true}"#, "a", Some("true")),
            (r#"{"a":{"b":[1, 2]}}"#, "a.b", Some("[1, 2]")),
            (r#"{"a":{"b":"x","c":1},"b":"y"}"#, "a.b", Some("x")),
            (r#"{"a":"x","a":"y"}"#, "a", Some("y")),
            (r#"{"a":""}"#, "a", Some("")),
            (r#"{"a":null}"#, "a", None),
            (r#"{"b":"a"}"#, "a", None),
            (r#"{"a":"b"}"#, "a.b", None),
            (r#"{"a":[{"b":1}]}"#, "a.b", None),
            (r#"[{"a":1}]"#, "a", None),
            ("1", "a", None),
            // Numbers and strings that can't be converted, where they don't have to be.
            (r#"{"a":1e400}"#, "a", Some("1e400")),
            (r#"{"a":1e400}"#, "a.b", None),
            ("1e400", "a", None),
            (r#"{"a":"\ud800"}"#, "a.b", None),
            (r#"{"b":"\ud800","a":"x"}"#, "a", Some("x")),
            (r#"{"a":"\ud800","a":"x"}"#, "a", Some("x")),
            (r#"{"a":{"b":"\ud800"},"a":{"b":"x"}}"#, "a.b", Some("x")),
            (r#"{"b":{"\ud800":1},"a":"x"}"#, "a", Some("x")),
            // White space, and escapes in names on the path.
            ("{ \"a\"\t: \r{\"b\" :\"x\"} }", "a.b", Some("x")),
            (r#"{"\u0061":{"\"b":"x"}}"#, "a.\"b", Some("x")),
            (r#"{"\u0061":{"b":1e400}}"#, "a.b.c", None),
            (r#"{"\b":"x"}"#, r"\b", None),
        ] {
            let item = item.map(str::to_owned);
            assert_eq!(find(field, line.as_bytes()), Ok(item), "{line}");
        }
        for word in ["", ".", "a.", ".a", "a..b"] {
            word.parse::<Field>().expect_err(word);
        }
    }

    /// Returns the value of a field in the parsed line; null if there is no such field.
    fn value_in(field: &str, line: &str) -> Result<Value, Error> {
        let mut value: Value = serde_json::from_str(line)?;
        for name in field.split('.') {
            value = value.get_mut(name).map_or(Value::Null, Value::take);
        }
        Ok(value)
    }

    /// Returns whether the item of a field is this value.
    fn is_value(item: Option<&str>, value: &Value) -> bool {
        match (item, value) {
            (None, Value::Null) => true,
            (Some(item), Value::String(string)) => item == string,
            (Some(item), value) => serde_json::from_str::<Value>(item).is_ok_and(|it| it == *value),
            (None, _) => false,
        }
    }

    /// In lines that are cut off anywhere, and in those with another byte anywhere.
    #[test]
    fn a_field_is_found_as_in_the_parsed_line() {
        let mut found = [0; 3];
        for line in [
            r#"{"a":"x","b":{"a":[1,{"a":2}],"c":"\n\"\u00e9"},"c":null}"#,
            r#"{"b":{"a":true,"\u0061":-1.5},"a":{"a":{"a":""}}}"#,
            r#" { "a" : { "b" : { "a" : "x" , "a" : "y" } } , "a" : 12 } "#,
            r#"[{"a":"b"},"a",false]"#,
        ] {
            let cut = (0..=line.len()).map(|end| line[..end].to_owned());
            let others = r#"{}[]":,\ abu01-.n"#.chars().map(String::from);
            let edited = others.flat_map(|other| {
                let places = 0..line.len();
                places.map(move |at| [&line[..at], &other, &line[at + 1..]].concat())
            });
            for line in cut.chain(edited) {
                for field in ["a", "b", "a.a", "a.b", "b.a", "b.c", "a.b.a", "a.a.a"] {
                    match (find(field, line.as_bytes()), value_in(field, &line)) {
                        (Ok(item), Ok(value)) => {
                            assert!(is_value(item.as_deref(), &value), "{field}: {line}");
                            found[usize::from(item.is_some())] += 1;
                        }
                        (Err(_), Err(_)) => found[2] += 1,
                        (item, value) => panic!("{field}: {line}: {item:?}, {value:?}"),
                    }
                }
            }
        }
        assert!(found.iter().all(|count| *count > 1000), "{found:?}");
    }

    #[test]
    fn a_line_that_is_not_json_is_noticed_wherever_it_breaks() {
        for line in [
            &b""[..],
            br#"{"a":1"#,
            br#"{"a":1} x"#,
            br#"{"a":1}{"a":1}"#,
            br#"{"b":nul,"a":1}"#,
            br#"{"a":1,"b":"\x"}"#,
            br#"{"a":"\ud800"}"#,
            br#"{"a":01}"#,
            b"{\"a\":1,\"b\":\"\xff\"}",
            b"{\"a\":\"\xff\"}",
            b"{\"a\":\"a\tb\"}",
            b"{\"a\tb\":1,\"a\":1}",
            b"{\"a\"::1}",
            b"{\"a\" \"b\"}",
            b"{a:1}",
        ] {
            find("a", line).expect_err(&String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_fault_is_at_its_column_of_the_line() {
        for (line, fault) in [
            (r#"{"b":{"a":01}}"#, "invalid number at line 1 column 12"),
            (
                r#"{"b":{"a":"\ud800"}}"#,
                "a string has half of a surrogate pair",
            ),
            (
                r#"{"b":{"\ud800":1,"a":"x"}}"#,
                "a string has half of a surrogate pair",
            ),
        ] {
            assert_eq!(find("b.a", line.as_bytes()), Err(fault.to_owned()));
        }
    }

    #[test]
    fn levels_take_no_stack() {
        let (open, close) = ("[".repeat(1_000_000), "]".repeat(1_000_000));
        let line = format!(r#"{{"b":{open}{close},"a":1}}"#);
        assert_eq!(find("a", line.as_bytes()), Ok(Some("1".to_owned())));
        let line = format!(r#"{{"a":{open}{close}}}"#);
        assert_eq!(find("a", line.as_bytes()), Ok(Some(open.clone() + &close)));
        find("a", format!(r#"{{"a":{open}"#).as_bytes()).expect_err("it does not end");
    }
}
