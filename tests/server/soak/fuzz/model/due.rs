//! Which errors are due, and which are possible, before a command does anything.

use super::super::answers::FIELDS;
use super::super::errors::{
    BAD_CURSOR, BAD_DATA, BAD_DUMP, BAD_TTL, BUSY, DEGRADED, Errors, INVALID_FIELD, KINDS, LOADING,
    LONG_TTL, NEWER, NO_COUNTERS, NO_WINDOW, NOT_FOUND, OVER, RATES, SEEDS, TOO_FINE, TOO_LARGE,
    WRONGTYPE,
};
use super::super::object::{Fit, Object, Reach};
use super::super::parse::{self, Options};
use super::{Model, Value};

impl Model {
    /// Adds the errors of creating an object if the key is empty.
    pub fn creation_errors(&self, key: &[u8], options: &Options, errors: &mut Errors) {
        let mut reported = Errors::default();
        if !options.are_read() {
            return;
        }
        let (shape, capacity) = options.shape();
        let fit = shape.fit(0, capacity);
        match fit {
            Fit::Yes => {}
            Fit::No(why) => reported.due(why),
            Fit::Unsaid => {
                reported.possible(OVER);
                reported.possible(DEGRADED);
            }
        }
        if let Some(least) = options.validate {
            let first_fits = matches!(fit, Fit::Yes);
            match Object::new(shape, capacity, None).reach(least) {
                Reach::Far if first_fits => {}
                Reach::Until(_, OVER) if first_fits => reported.due(TOO_LARGE),
                Reach::Until(_, DEGRADED) if first_fits => reported.due(TOO_FINE),
                _ => {
                    reported.possible(TOO_LARGE);
                    reported.possible(TOO_FINE);
                }
            }
        }
        let settled = self.keys.contains_key(key) || options.no_create;
        if !settled {
            errors.due.extend(reported.due);
            errors.possible.extend(reported.possible);
        } else if options.validate.is_some() || !errors.due.is_empty() {
            // The contract does not specify whether it is checked if nothing is created.
            errors.possible.extend(reported.due);
            errors.possible.extend(reported.possible);
        }
    }

    /// Adds the errors of options that only objects of some kinds have.
    pub fn option_errors(&self, key: &[u8], options: &Options, errors: &mut Errors) {
        let shape = match self.keys.get(key) {
            Some(Value::Object(object)) => object.shape.clone(),
            None if !options.no_create => options.shape().0,
            _ => return,
        };
        if options.id().is_some() && !shape.counting {
            errors.due(NO_COUNTERS);
        }
        match (options.ttl_ms(), shape.window) {
            (Some(_), None) => errors.due(NO_WINDOW),
            (Some(ttl_ms), Some(window))
                if i128::from(ttl_ms)
                    > i128::from(window.period_ms) * i128::from(window.periods) =>
            {
                errors.due(LONG_TTL);
            }
            _ => {}
        }
    }

    pub fn requires_counters(&self, key: &[u8], errors: &mut Errors) {
        if let Some(Value::Object(object)) = self.keys.get(key)
            && !object.shape.counting
        {
            errors.due(NO_COUNTERS);
        }
    }

    pub fn merge_errors(&self, keys: &[Vec<u8>], errors: &mut Errors) {
        let alone = keys[1..].iter().all(|source| *source == keys[0]);
        for (index, key) in keys.iter().enumerate() {
            match self.keys.get(key) {
                Some(Value::Other) => errors.due(WRONGTYPE),
                Some(Value::Half(_)) => errors.due(LOADING),
                None if index > 0 && key != &keys[0] || alone => errors.due(NOT_FOUND),
                _ => {}
            }
        }
        let objects = self.merged(keys);
        let Some((first, others)) = objects.split_first() else {
            return;
        };
        for other in others {
            if first.seed != other.seed {
                errors.due(SEEDS);
            }
            let kind = |object: &Object| (object.shape.window, object.shape.counting);
            if kind(first) != kind(other) {
                errors.due(KINDS);
            }
        }
        let asked: f64 = objects.iter().map(|object| object.shape.error_rate).sum();
        if alone {
            return;
        }
        let alike = |other: &&Object| {
            let shapes = (&first.shape, &other.shape);
            !other.merged
                && shapes.0.tightening.to_bits() == shapes.1.tightening.to_bits()
                && (shapes.0.expansion == 0) == (shapes.1.expansion == 0)
        };
        let ratio = first.shape.tightening;
        // Rates add up where filters are stacked, and no others.
        if asked > 0.4 || !(0.2..0.95).contains(&ratio) || !objects.iter().all(alike) {
            // Their filters may need more than the requested rate.
            errors.possible(RATES);
        }
    }

    pub fn info_errors(&self, words: &[Vec<u8>], errors: &mut Errors) {
        let value = self.keys.get(&words[1]);
        if value.is_none() {
            errors.due(NOT_FOUND);
        }
        let Some(field) = words.get(2) else {
            return;
        };
        match FIELDS
            .iter()
            .find(|(name, _)| field.eq_ignore_ascii_case(name.as_bytes()))
        {
            None => errors.due(INVALID_FIELD),
            Some(("TIGHTENING" | "MAXSCALEDCAPACITY", _)) => {
                if let Some(Value::Object(object)) = value
                    && object.shape.expansion == 0
                {
                    errors.due(INVALID_FIELD);
                }
            }
            Some(("WINDOW" | "PERIODS" | "LIVEPERIODS" | "PERIODITEMS", _)) => {
                if let Some(Value::Object(object)) = value
                    && object.shape.window.is_none()
                {
                    errors.due(INVALID_FIELD);
                }
            }
            Some(_) => {}
        }
    }

    pub fn load_errors(&self, words: &[Vec<u8>], errors: &mut Errors) {
        if self.keys.contains_key(&words[1]) {
            errors.due(BUSY);
        }
        let dump = &words[2];
        if !self.dumps.contains_key(dump) {
            match dump.first() {
                None | Some(1) => errors.due(BAD_DUMP),
                // Another number of that kind follows it.
                Some(2) => errors.due.extend([BAD_DUMP, NEWER]),
                Some(_) => errors.due(NEWER),
            }
        }
        if let Some(ttl) = words.get(3) {
            let (value, unsure) = parse::integer(ttl);
            match value {
                // A time in the past, or beyond any clock.
                Some(0) => errors.possible(BAD_TTL),
                Some(ttl) if (1..1 << 50).contains(&ttl) => {}
                _ => errors.due(BAD_TTL),
            }
            if unsure {
                errors.possible(BAD_TTL);
            }
        }
    }

    pub fn chunk_errors(&self, words: &[Vec<u8>], errors: &mut Errors) {
        let (value, data) = (self.keys.get(&words[1]), &words[3]);
        let Some(cursor) = parse::cursor(&words[2], errors) else {
            errors.due(BAD_CURSOR);
            return;
        };
        if cursor == 1 {
            if value.is_some() {
                errors.due(BUSY);
            }
            if !self.headers.contains_key(data) {
                errors.due(BAD_DATA);
            }
            return;
        }
        let fits = match value {
            Some(Value::Half(half)) => {
                let length = data.len() as u64;
                let next = half.come as u64 + length + 1;
                length > 0 && length <= half.room() && u64::try_from(cursor) == Ok(next)
            }
            _ => false,
        };
        if !fits {
            errors.due(BAD_DATA);
        }
    }
}
