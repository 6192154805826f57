//! The items of JSON lines: a field of each.

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

    /// Returns a block with the fields of the lines of a block, which it keeps. Blank lines are no records.
    ///
    /// # Errors
    /// A line is not JSON, or lacks the field, and that is not permitted.
    pub fn of_lines(&self, lines: Block, missing: OnFault, bad: OnFault) -> Result<Block> {
        lines.with_fields(|block, line| match self.find(line) {
            Ok(Some(item)) => {
                block.push(item.as_bytes());
                Ok(())
            }
            Err(_) if line.trim_ascii().is_empty() => block.push_itemless(OnFault::Drop, ""),
            Ok(None) => block.push_itemless(missing, format_args!("it has no field {self}")),
            Err(error) => {
                let error = error.to_string().replace(" at line 1 column ", ", column ");
                block.push_itemless(bad, format_args!("it is not JSON: {error}"))
            }
        })
    }

    /// Returns the item of a line: a string without its quotes and escapes, anything else as it is written. `None` if there is
    /// no such field, or it is null. Only the item and the names of objects on the path are converted: JSON has numbers and
    /// strings that Rust's types lack.
    fn find<'l>(&self, line: &'l [u8]) -> Result<Option<Cow<'l, str>>, Error> {
        let mut text = str::from_utf8(line).map_err(Error::custom)?;
        for (level, name) in self.0.iter().enumerate() {
            let value = value_of(name, text);
            match value.map_err(|error| if level == 0 { error } else { half(error) })? {
                Some(value) => text = value,
                None => return Ok(None),
            }
        }
        let Some(string) = text.strip_prefix('"') else {
            return Ok((text != "null").then_some(text.into()));
        };
        let string = string.strip_suffix('"').unwrap_or(string);
        if memchr(b'\\', string.as_bytes()).is_none() {
            return Ok(Some(string.into()));
        }
        let item: String = serde_json::from_str(text).map_err(half)?;
        Ok(Some(item.into()))
    }
}

/// Returns the fault of a string within a line that is JSON: nothing else can be wrong. It has no column, because that of the
/// error is within a part of the line.
fn half(_: Error) -> Error {
    Error::custom("a string has half of a surrogate pair")
}

/// Returns the value of a field of a value, the last one if there are several. `None` if there is none, or the value is no
/// object. What is skipped takes no recursion.
fn value_of<'l>(name: &str, text: &'l str) -> Result<Option<&'l str>, Error> {
    let mut from = Deserializer::from_str(text);
    let value = if text.trim_start().starts_with('{') {
        from.deserialize_map(ValueOf(name))?
    } else {
        from.deserialize_ignored_any(IgnoredAny)?;
        None
    };
    from.end()?;
    Ok(value.map(RawValue::get))
}

/// Visits an object that may have a field of this name.
struct ValueOf<'n>(&'n str);

impl<'l> Visitor<'l> for ValueOf<'_> {
    type Value = Option<&'l RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut value = None;
        while let Some(is_it) = map.next_key_seed(Name(self.0))? {
            if is_it {
                value = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(value)
    }
}

/// Compares the name of a field, whose escapes are resolved.
struct Name<'n>(&'n str);

impl<'l> DeserializeSeed<'l> for Name<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'l>>(self, from: D) -> Result<bool, D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
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
