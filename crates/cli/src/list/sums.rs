//! The sums of a listing.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::held::row::Row;
use crate::report::{counted, grouped};

/// The sums of a listing, type by type.
#[derive(Default)]
pub struct Sums {
    types: BTreeMap<String, Sum>,
}

#[derive(Default)]
struct Sum {
    keys: u64,
    bytes: u64,
}

impl Sums {
    pub fn add(&mut self, row: &Row) {
        let sum = self.types.entry(row.kind.clone()).or_default();
        sum.keys += 1;
        sum.bytes += row.bytes.unwrap_or(0);
    }

    /// Returns the sum of all types.
    fn all(&self) -> Sum {
        let types = self.types.values();
        types.fold(Sum::default(), |all, of| Sum {
            keys: all.keys + of.keys,
            bytes: all.bytes + of.bytes,
        })
    }

    /// Returns the keys and bytes of all types, and the keys of each.
    pub fn line(&self) -> String {
        let Sum { keys, bytes } = self.all();
        let sums = format!("{}, {} bytes", counted(keys, "key"), grouped(bytes));
        let types = self.types.iter();
        let types = types.map(|(kind, of)| format!("{} {kind}", grouped(of.keys)));
        match types.collect::<Vec<_>>().join(", ") {
            types if types.is_empty() => sums,
            types => format!("{sums}: {types}"),
        }
    }

    /// Returns the fields of JSON: the keys and bytes of each type, and the bytes of all.
    pub fn json(&self) -> Map<String, Value> {
        let types = self.types.iter();
        let types = types.map(|(kind, of)| {
            let sum = json!({ "keys": of.keys, "bytes": of.bytes });
            (kind.clone(), sum)
        });
        let mut fields = Map::new();
        fields.insert("types".to_owned(), Value::Object(types.collect()));
        fields.insert("bytes".to_owned(), self.all().bytes.into());
        fields
    }
}
