//! The items of JSON lines: a field of each.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use memchr::memchr;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
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
        let mut from = Deserializer::from_slice(line);
        let value = Path(&self.0).deserialize(&mut from)?;
        from.end()?;
        // Strings that are skipped are not checked.
        str::from_utf8(line).map_err(Error::custom)?;
        let text = match value.map(RawValue::get) {
            None | Some("null") => return Ok(None),
            Some(text) => text,
        };
        match text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
        {
            Some(plain) if memchr(b'\\', plain.as_bytes()).is_none() => Ok(Some(plain.into())),
            Some(_) => Ok(Some(serde_json::from_str::<String>(text)?.into())),
            None => Ok(Some(text.into())),
        }
    }
}

/// Reads the value at a path below a value, and skips all others. Only the objects on the path are read by recursion.
struct Path<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for Path<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return Deserialize::deserialize(from).map(Some);
        }
        from.deserialize_any(self)
    }
}

/// Visits a value that has the path below it if it is an object.
impl<'de> Visitor<'de> for Path<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        let (name, rest) = self.0.split_first().expect("the path has a name");
        while let Some(is_it) = map.next_key_seed(Name(name))? {
            if is_it {
                found = map.next_value_seed(Path(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Compares the name of a field, whose escapes are resolved.
struct Name<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = bool;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<bool, D::Error> {
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
        ] {
            find("a", line).expect_err(&String::from_utf8_lossy(line));
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
