//! The form of docs/calculator.html: its fields as a request, and the answer.

use std::num::NonZeroU32;

use serde_json::{Map, Value, json};

use valkeybloom_protocol::bloom::Maker;
use valkeybloom_sketches::bloom::{Growth, Kind, Window};
use valkeybloom_sketches::cms::CellSize;
use valkeybloom_sketches::topk;

use crate::bloom::Bloom;
use crate::cuckoo::Cuckoo;
use crate::limits::Limits;
use crate::picture::Picture;
use crate::sketch::{CountMin, TDigest, TopK};
use crate::{Fault, Request, python, words};

/// Answers the fields of the form, a JSON object of words by the fields' names. The answer is a JSON object: either the
/// `faults` of the fields, or the `rows` for people, the `values` for programs, the `refusal` by a server or null, the
/// line of `python` or null, and the `pictures`.
pub fn answer(fields: &str) -> String {
    let fields = match serde_json::from_str(fields) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let faults = |faults: &[Fault]| {
        let faults = faults.iter();
        let faults = faults.map(|fault| json!({ "field": fault.field, "text": fault.text }));
        json!({ "faults": faults.collect::<Vec<_>>() })
    };
    let mut form = Form {
        fields,
        faults: Vec::new(),
    };
    let request = form.request();
    let limits = form.limits();
    let answer = match (request, limits) {
        (Some(request), Some(limits)) if form.faults.is_empty() => match request.plan(&limits) {
            Err(fault) => faults(&[fault]),
            Ok(planned) => json!({
                "rows": planned.report.rows,
                "values": planned.report.json,
                "refusal": planned.refusal,
                "python": python::line(&planned.report.json),
                "pictures": request.pictures(&limits).iter().map(Picture::to_json).collect::<Vec<_>>(),
            }),
        },
        _ => faults(&form.faults),
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

    /// Reads a field that has to be filled in.
    fn take<T>(
        &mut self,
        field: &'static str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let word = self.word(field);
        let value = match word {
            "" => Err("a value is missing".to_owned()),
            word => read(word),
        };
        value
            .map_err(|text| self.faults.push(Fault::invalid(field, text)))
            .ok()
    }

    /// Reads a field that may be empty: then it has the default.
    fn take_or<T>(
        &mut self,
        field: &'static str,
        default: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        if self.word(field).is_empty() {
            Some(default)
        } else {
            self.take(field, read)
        }
    }

    fn limits(&mut self) -> Option<Limits> {
        let defaults = Limits::default();
        let filter = self.take_or("filter_limit", defaults.filter, words::bytes);
        let object = self.take_or("object_limit", defaults.object, words::bytes);
        let filters = self.take_or("max_filters", defaults.cuckoo_filters, words::items);
        Some(Limits {
            filter: filter?,
            object: object?,
            cuckoo_filters: filters?,
        })
    }

    fn request(&mut self) -> Option<Request> {
        Some(match self.word("structure") {
            "cuckoo" => Request::Cuckoo(self.cuckoo()?),
            "cms" => Request::CountMin(self.count_min()?),
            "topk" => Request::TopK(self.top_k()?),
            "tdigest" => Request::TDigest(TDigest {
                compression: self.take("compression", words::items)?,
            }),
            _ => Request::Bloom(self.bloom()?),
        })
    }

    fn is_fixed(&self) -> bool {
        self.word("growth") == "nonscaling"
    }

    /// Reads the capacity to start with. A filter that does not grow has its whole capacity from the start.
    #[allow(
        clippy::option_option,
        reason = "a fault, or a capacity that may be left out"
    )]
    fn start(&mut self) -> Option<Option<u64>> {
        if self.is_fixed() {
            return Some(None);
        }
        self.take_or("start", None, |word| words::items(word).map(Some))
    }

    fn bloom(&mut self) -> Option<Bloom> {
        let items = self.take("items", words::items);
        let rate = self.take("rate", words::rate);
        let is_fixed = self.is_fixed();
        let start = self.start();
        let growth = if is_fixed {
            Some(Growth::Fixed)
        } else {
            self.take_or("expansion", Growth::from_expansion(2), |word| {
                let factor = word.parse::<NonZeroU32>();
                let factor = factor.map_err(|_| "not a whole number from 1 on".to_owned());
                factor.map(Growth::By)
            })
        };
        let kind = match self.word("forget") {
            "window" => self.window().map(Kind::Windowed),
            "counting" => Some(Kind::Counting),
            _ => Some(Kind::Plain),
        };
        let maker = self.take_or("maker", Maker::Own, words::maker);
        let shards = self.take_or("shards", None, |word| words::shards(word).map(Some));
        Some(Bloom {
            items: items?,
            rate: rate?,
            start: start?,
            growth: growth?,
            kind: kind?,
            maker: maker?,
            shards: shards?,
        })
    }

    fn window(&mut self) -> Option<Window> {
        let ms = self.take("window", words::duration_ms);
        let periods = self.take("periods", words::items);
        let window = Window::new(ms?, periods?);
        if window.is_none() {
            let text = "a window has 1 to 1440 periods";
            self.faults.push(Fault::invalid("periods", text));
        }
        window
    }

    fn cuckoo(&mut self) -> Option<Cuckoo> {
        let defaults = Cuckoo::DEFAULTS;
        let is_fixed = self.is_fixed();
        let items = self.take("items", words::items);
        let start = self.start();
        let size = self.take_or("bucket_size", defaults.bucket_size.into(), words::items);
        let moves = self.take_or(
            "max_iterations",
            defaults.max_iterations.into(),
            words::items,
        );
        let expansion = if is_fixed {
            Some(0)
        } else {
            self.take_or("expansion", defaults.expansion.into(), words::items)
        };
        Some(Cuckoo {
            items: items?,
            start: start?,
            bucket_size: size?,
            max_iterations: moves?,
            expansion: expansion?,
        })
    }

    fn count_min(&mut self) -> Option<CountMin> {
        let error = self.take("error", words::rate);
        let probability = self.take("probability", words::rate);
        let cell_size = self.take_or("cell_size", CellSize::default(), words::cell_size);
        Some(CountMin {
            error: error?,
            probability: probability?,
            cell_size: cell_size?,
        })
    }

    fn top_k(&mut self) -> Option<TopK> {
        let k = self.take("k", words::items);
        let width = TopK::advised_width(k.unwrap_or(1));
        let width = self.take_or("width", width, words::items);
        let depth = self.take_or("depth", topk::Shape::DEFAULT_DEPTH, words::items);
        let decay = self.take_or("decay", topk::Shape::DEFAULT_DECAY, words::number);
        Some(TopK {
            k: k?,
            width: width?,
            depth: depth?,
            decay: decay?,
        })
    }
}
