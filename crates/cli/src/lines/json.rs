//! The items of JSON lines: a field of each.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
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
    /// no such field, or it is null.
    fn find<'l>(&self, line: &'l [u8]) -> Result<Option<Cow<'l, str>>, Error> {
        let line = str::from_utf8(line).map_err(Error::custom)?;
        find_in(line, &self.0)
    }
}

/// Returns the item at a path of a value; without a path, the value is the item.
fn find_in<'l>(text: &'l str, path: &[String]) -> Result<Option<Cow<'l, str>>, Error> {
    let mut from = Deserializer::from_str(text);
    let before = 0;
    let found = Search { text, path, before }.deserialize(&mut from)?;
    from.end()?;
    Ok(found)
}

/// The search for the item at a path of a value. Only objects on the path are read by recursion, and only the item is
/// converted: JSON has numbers and strings that Rust's types lack.
struct Search<'p, 'l> {
    /// The text that the value is part of.
    text: &'l str,
    path: &'p [String],
    /// The position in the text after the name of the value.
    before: usize,
}

impl Search<'_, '_> {
    /// Returns the first byte of the value. After the name, only white space and a colon are before it.
    fn first_byte(&self) -> Option<u8> {
        let mut rest = self.text.as_bytes()[self.before..].iter().copied();
        rest.find(|byte| !b": \t\r\n".contains(byte))
    }
}

impl<'l> DeserializeSeed<'l> for Search<'_, 'l> {
    type Value = Option<Cow<'l, str>>;

    fn deserialize<D: serde::Deserializer<'l>>(self, from: D) -> Result<Self::Value, D::Error> {
        match (self.path, self.first_byte()) {
            ([], Some(b'"')) => from.deserialize_str(self),
            ([], _) => {
                let text = <&RawValue>::deserialize(from)?.get();
                Ok((text != "null").then_some(text.into()))
            }
            (_, Some(b'{')) => from.deserialize_map(self),
            _ => IgnoredAny::deserialize(from).map(|_| None),
        }
    }
}

impl<'l> Visitor<'l> for Search<'_, 'l> {
    type Value = Option<Cow<'l, str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_borrowed_str<E>(self, text: &'l str) -> Result<Self::Value, E> {
        Ok(Some(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.to_owned().into()))
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Self { text, path, .. } = self;
        let (name, path) = path.split_first().expect("a path into the object");
        let mut found = None;
        while let Some(key) = map.next_key_seed(Name { text, name })? {
            match key {
                Key::Another => {
                    map.next_value::<IgnoredAny>()?;
                }
                Key::Before(before) => {
                    found = map.next_value_seed(Search { text, path, before })?;
                }
                Key::Escaped => {
                    let value = map.next_value::<&RawValue>()?.get();
                    // The value is JSON, so nothing else can be wrong.
                    let fault = |_| A::Error::custom("a string with half of a surrogate pair");
                    found = find_in(value, path).map_err(fault)?;
                }
            }
        }
        Ok(found)
    }
}

/// Compares the name of a field, whose escapes are resolved.
struct Name<'n, 'l> {
    text: &'l str,
    name: &'n str,
}

/// What the name of a field is.
enum Key {
    Another,
    /// The wanted one, which ends at this position of the text.
    Before(usize),
    /// The wanted one, written with escapes. It is a copy, so its place is unknown.
    Escaped,
}

impl<'l> DeserializeSeed<'l> for Name<'_, 'l> {
    type Value = Key;

    fn deserialize<D: serde::Deserializer<'l>>(self, from: D) -> Result<Key, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'l> Visitor<'l> for Name<'_, 'l> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_borrowed_str<E>(self, name: &'l str) -> Result<Key, E> {
        if name != self.name {
            return Ok(Key::Another);
        }
        let start = name.as_ptr().addr() - self.text.as_ptr().addr();
        Ok(Key::Before(start + name.len() + 1))
    }

    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        Ok(if name == self.name {
            Key::Escaped
        } else {
            Key::Another
        })
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
                "unexpected end of hex escape at line 1 column 18",
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
