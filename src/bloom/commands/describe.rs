//! BF.INFO and BF.DEBUG.

use valkeybloom_protocol::bloom::redisbloom::error as redisbloom;
use valkeybloom_protocol::bloom::{InfoField, InfoFields, InfoRequest, kind_name};
use valkeybloom_protocol::error::Error;
use valkeybloom_protocol::numerals::{double_text, six_digits};
use valkeybloom_sketches::bloom::{Dialect, Filter, Growth, Object, Part, Shape};

use crate::bloom::keys::{self, Reader};
use crate::bloom::settings;
use crate::bloom::value::memory_bytes;
use crate::feeds::FeedSlot;
use crate::ffi::{Call, Done, Reply, server};
use crate::request::key;
use crate::settings::error_for;

/// `BF.INFO key [field | ALL]`
pub fn info(Call { ctx, keys, args }: Call) -> Done {
    let unknown = error_for(ctx, Error::UNKNOWN_FIELD, redisbloom::UNKNOWN_FIELD);
    let request = InfoRequest::parse(&args, unknown);
    if request == Err(Error::Arity) {
        return Err(Error::Arity);
    }
    // RedisBloom looks for the key before it parses.
    let reader = Reader::open(keys, key(&args));
    let (object, feed) = reader.fed()?;
    let shape = object.shape();
    let value_of = |field| field_value(object, feed, &shape, field);
    let fields = match request? {
        InfoRequest::Plain => settings::info_fields(),
        InfoRequest::All => InfoFields::All,
        InfoRequest::One(field) => {
            let value = value_of(field).ok_or(unknown)?;
            return Ok(if ctx.is_resp3() {
                Reply::Table(vec![(field.title(), value)])
            } else {
                Reply::List(vec![value])
            });
        }
    };
    let rows = fields.fields();
    let rows = rows.filter_map(|field| Some((field.title(), value_of(field)?)));
    Ok(Reply::Table(rows.collect()))
}

/// Returns the value of a field, or `None` if the object does not have the field.
fn field_value(object: &Object, feed: &FeedSlot, shape: &Shape, field: InfoField) -> Option<Reply> {
    let (params, window) = (shape.params, shape.window());
    let scaling = params.growth != Growth::Fixed;
    let now = server::now_ms;
    Some(match field {
        InfoField::Capacity => Reply::Count(object.capacity()),
        InfoField::Size => Reply::Count(reported_bytes(object)),
        InfoField::Filters => Reply::Count(object.filter_count()),
        InfoField::Items => Reply::Count(object.items(now)),
        InfoField::Expansion if !scaling => Reply::Null,
        InfoField::Expansion => Reply::Count(u64::from(params.growth.expansion())),
        InfoField::Error => Reply::Rate(params.error_rate.get()),
        InfoField::Tightening if scaling => Reply::Rate(params.tightening.ratio().get()),
        InfoField::MaxScaledCapacity if scaling => Reply::Count(object.reach(keys::limits())),
        InfoField::Tightening | InfoField::MaxScaledCapacity => return None,
        InfoField::EstimatedError => Reply::Rate(object.estimated_rate(now)),
        InfoField::Window => Reply::Count(window?.period_ms()),
        InfoField::Periods => Reply::Count(window?.periods()),
        InfoField::LivePeriods => Reply::Count(object.live_periods(now)?),
        InfoField::PeriodItems => Reply::Count(object.period_items(now)?),
        InfoField::FeedBytes => Reply::Count(feed.share()?.bytes),
        InfoField::FeedReaders => Reply::Count(feed.share()?.readers),
        InfoField::Kind => Reply::Word(kind_name(shape.kind)),
    })
}

/// Returns the size of an object: the bytes of its value, or what `RedisBloom` reports for an object of its kind, which
/// counts 32 bytes for the object and 64 for each filter besides the bits.
fn reported_bytes(object: &Object) -> u64 {
    if Dialect::of(object) != Dialect::RedisBloom {
        return memory_bytes(object);
    }
    let filters = object.filters();
    let filters = filters.map(|(filter, _)| 64 + filter.geometry().cell_bytes);
    32 + filters.sum::<u64>()
}

/// `BF.DEBUG key`
pub fn debug(Call { ctx, keys, args }: Call) -> Done {
    let reader = Reader::open(keys, key(&args));
    let object = reader.existing()?;
    // Reply line by line, because there may be a thousand filters.
    ctx.reply_array(1 + object.filters().count() + object.parts_in_use().count());
    ctx.reply_bytes(format!("size:{}", object.items(server::now_ms)).as_bytes());
    let rate_text = match Dialect::of(object) {
        Dialect::RedisBloom => six_digits,
        _ => double_text,
    };
    for (filter, rate) in object.filters() {
        let line = filter_line(filter, object.hasher().bits(), &rate_text(rate));
        ctx.reply_bytes(line.as_bytes());
    }
    for part in object.parts_in_use() {
        ctx.reply_bytes(part_line(part).as_bytes());
    }
    Ok(Reply::Sent)
}

fn filter_line(filter: &Filter, hash_bits: u32, rate: &str) -> String {
    let size = filter.geometry();
    format!(
        "bytes:{} bits:{} hashes:{} hashwidth:{hash_bits} capacity:{} size:{} ratio:{rate}",
        size.cell_bytes,
        size.positions,
        size.hashes,
        filter.capacity(),
        filter.items()
    )
}

fn part_line(part: &Part) -> String {
    let (step, table) = (part.step, &part.table);
    format!(
        "bytes:{} fingerprint:{} shards:{} capacity:{} size:{} ratio:{}",
        table.memory_bytes(),
        step.bits,
        table.shards(),
        step.most,
        table.fingerprints(),
        double_text(step.rate_at(step.most))
    )
}
