//! A server that saves without a fork writes an object on one thread while another one reads it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use valkeybloom_sketches::bloom::{Object, Shape, Time, chunks, dump};

use crate::draft::drafts;
use crate::support::{
    ROOMY, Rng, Stream, begin_partial, counting, fields_of, header_of, object_of, params, windowed,
};

/// Returns objects of every kind, most of them with several filters.
fn objects() -> Vec<Object> {
    let mut rng = Rng::new(12);
    let params = params(50, 0.01, 2);
    let shapes = [
        Shape::plain(params),
        windowed(params, 1000, 4),
        counting(params),
    ];
    let filled = shapes.iter().map(|shape| {
        let mut object = object_of(shape, rng.seed());
        for number in 0..1000_u64 {
            let time = Time {
                now_ms: number * 3,
                ttl_ms: None,
            };
            let added = object.add(&number.to_le_bytes(), time, || ROOMY);
            assert!(added.is_ok());
        }
        object
    });
    let foreign = drafts().into_iter().map(|draft| draft.read().unwrap());
    filled.chain(foreign).collect()
}

/// Saves again and again on a thread while this one reads: each time the same has to be written.
fn save_beside(save: impl Fn() -> Stream + Sync, read: impl Fn()) {
    let (first, done) = (save(), AtomicBool::new(false));
    thread::scope(|scope| {
        let saver = scope.spawn(|| {
            let unchanged = (0..100).all(|_| save() == first);
            done.store(true, Relaxed);
            unchanged
        });
        while !done.load(Relaxed) {
            read();
        }
        assert!(saver.join().unwrap(), "something else than at first");
    });
}

#[test]
fn objects_are_saved_beside_readers() {
    let items: Vec<_> = (0..2000_u64).map(u64::to_le_bytes).collect();
    for object in &objects() {
        let claimed = || {
            let (mut claimed, items) = (Vec::new(), items.iter().map(<[u8; 8]>::as_slice));
            object.contains_each(items, || 3000, |found| claimed.push(found));
            claimed
        };
        let (answers, dump) = (claimed(), dump::encode(object));
        save_beside(
            || fields_of(object),
            || {
                assert!(claimed() == answers);
                assert!(dump::encode(object) == dump);
                assert!(object.try_clone().is_some());
            },
        );
    }
}

#[test]
fn partly_loaded_objects_are_saved_beside_readers() {
    let object = &objects()[0];
    let mut partial = begin_partial(&header_of(object)).unwrap();
    let (cursor, chunk) = chunks::piece(object, 1).unwrap();
    assert!(partial.load(cursor, &chunk).unwrap().is_none());
    save_beside(
        || {
            let mut stream = Stream::default();
            partial.write_rdb(&mut stream);
            stream
        },
        || {
            let copy = partial.try_clone().unwrap();
            assert!(copy.pieces().eq(partial.pieces()));
        },
    );
}
