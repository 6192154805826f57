//! The form of docs/calculator.html: its fields as a request, and the answer.

use std::num::NonZeroU32;

use serde_json::{Map, Value, json};

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_sketches::Fraction;
use valkeybloom_sketches::bloom::{Growth, Kind, Window};
use valkeybloom_sketches::cms::CellSize;
use valkeybloom_sketches::topk;

use crate::bloom::Bloom;
use crate::cuckoo::Cuckoo;
use crate::limits::Limits;
use crate::picture::Picture;
use crate::sketch::{CountMin, TDigest, TopK};
use crate::{Fault, Request, python, words};

/// Plans what the form asks for. `fields` is a JSON object: the words in the form, by the names of their fields. The answer
/// is a JSON object, too. If fields are wrong, it has only their `faults`. Otherwise it has `rows` for people, `values` for
/// programs, `refusal`, the reason why a server can't hold it, or null, `python`, a line of Python, or null, and
/// `pictures`.
pub fn answer(fields: &str) -> String {
    let fields = match serde_json::from_str(fields) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut form = Form {
        fields,
        faults: Vec::new(),
    };
    let request = form.request();
    let limits = form.limits();
    let planned = match &form.faults[..] {
        [] => request.plan(&limits).map_err(|fault| vec![fault]),
        _ => Err(form.faults),
    };
    let answer = match planned {
        Err(faults) => {
            let faults = faults.iter();
            let faults = faults.map(|fault| json!({ "field": fault.field, "text": fault.text }));
            json!({ "faults": faults.collect::<Vec<_>>() })
        }
        Ok(planned) => json!({
            "rows": planned.report.rows,
            "values": planned.report.json,
            "refusal": planned.refusal,
            "python": python::line(&planned.report.json),
            "pictures": request.pictures(&limits).iter().map(Picture::to_json).collect::<Vec<_>>(),
        }),
    };
    answer.to_string()
}

/// The fields, and what is wrong with them so far.
struct Form {
    fields: Map<String, Value>,
    faults: Vec<Fault>,
}

impl Form {
    fn word(&self, field: &str) -> &str {
        let word = self.fields.get(field).and_then(Value::as_str);
        word.unwrap_or_default().trim()
    }

    /// Reads a field that has to be filled in. A faulty field has the value of `stand_in`, which nobody sees.
    fn take<T>(
        &mut self,
        field: &'static str,
        stand_in: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        let value = match self.word(field) {
            "" => Err("a value is missing".to_owned()),
            word => read(word),
        };
        value.unwrap_or_else(|text| {
            self.faults.push(Fault::invalid(field, text));
            stand_in
        })
    }

    /// Reads a field that may be empty: then it has the default.
    fn take_or<T>(
        &mut self,
        field: &'static str,
        default: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        if self.word(field).is_empty() {
            default
        } else {
            self.take(field, default, read)
        }
    }

    fn limits(&mut self) -> Limits {
        let defaults = Limits::default();
        Limits {
            filter: self.take_or("filter_limit", defaults.filter, words::bytes),
            object: self.take_or("object_limit", defaults.object, words::bytes),
            cuckoo_filters: self.take_or("max_filters", defaults.cuckoo_filters, words::items),
        }
    }

    fn request(&mut self) -> Box<dyn Request> {
        match self.word("structure") {
            "cuckoo" => Box::new(self.cuckoo()),
            "cms" => Box::new(self.count_min()),
            "topk" => Box::new(self.top_k()),
            "tdigest" => Box::new(TDigest {
                compression: self.take("compression", 1, words::items),
            }),
            _ => Box::new(self.bloom()),
        }
    }

    fn is_fixed(&self) -> bool {
        self.word("growth") == "nonscaling"
    }

    /// Reads the capacity to start with. A filter that does not grow has its whole capacity from the start.
    fn start(&mut self) -> Option<u64> {
        if self.is_fixed() {
            return None;
        }
        self.take_or("start", None, |word| words::items(word).map(Some))
    }

    fn bloom(&mut self) -> Bloom {
        Bloom {
            items: self.take("items", 1, words::items),
            rate: self.take("rate", Fraction::HALF, words::rate),
            start: self.start(),
            growth: self.growth(),
            kind: match self.word("forget") {
                "window" => self.window(),
                "counting" => Kind::Counting,
                "scaleto" => Kind::ScaledTo,
                _ => Kind::Plain,
            },
            maker: self.take_or("maker", Maker::Own, words::maker),
            shards: self.take_or("shards", None, |word| words::shards(word).map(Some)),
        }
    }

    fn growth(&mut self) -> Growth {
        if self.is_fixed() {
            return Growth::Fixed;
        }
        self.take_or("expansion", Growth::from_expansion(2), |word| {
            let factor = word.parse::<NonZeroU32>();
            let factor = factor.map_err(|_| "not a whole number from 1 on".to_owned());
            factor.map(Growth::By)
        })
    }

    fn window(&mut self) -> Kind {
        let ms = self.take("window", 1, words::duration_ms);
        let periods = self.take("periods", 1, words::items);
        let Some(window) = Window::new(ms, periods) else {
            let text = "a window has 1 to 60000 periods";
            self.faults.push(Fault::invalid("periods", text));
            return Kind::Plain;
        };
        Kind::Windowed(window)
    }

    fn cuckoo(&mut self) -> Cuckoo {
        let defaults = Cuckoo::DEFAULTS;
        let (size, moves) = (defaults.bucket_size.into(), defaults.max_iterations.into());
        Cuckoo {
            items: self.take("items", 1, words::items),
            start: self.start(),
            bucket_size: self.take_or("bucket_size", size, words::items),
            max_iterations: self.take_or("max_iterations", moves, words::items),
            expansion: if self.is_fixed() {
                0
            } else {
                self.take_or("expansion", defaults.expansion.into(), words::items)
            },
        }
    }

    fn count_min(&mut self) -> CountMin {
        CountMin {
            error: self.take("error", Fraction::HALF, words::rate),
            probability: self.take("probability", Fraction::HALF, words::rate),
            cell_size: self.take_or("cell_size", CellSize::default(), words::cell_size),
        }
    }

    fn top_k(&mut self) -> TopK {
        let k = self.take("k", 1, words::items);
        TopK {
            k,
            width: self.take_or("width", TopK::advised_width(k), words::items),
            depth: self.take_or("depth", topk::Shape::DEFAULT_DEPTH, words::items),
            decay: self.take_or("decay", topk::Shape::DEFAULT_DECAY, words::number),
        }
    }
}
