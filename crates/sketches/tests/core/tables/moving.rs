//! Defragmentation of objects of tables.

use valkeybloom_sketches::Relocate;

use super::shapes;
use crate::support::{Rng, add_at, object_of};

/// Moves nothing, and counts what it could move. It stops after `stop_after` blocks.
struct Offered {
    stop_after: usize,
    since: usize,
    blobs: usize,
    bytes: usize,
}

impl Relocate for Offered {
    fn should_stop(&mut self) -> bool {
        self.since >= self.stop_after
    }

    fn table<T>(&mut self, table: Vec<T>) -> Vec<T> {
        table
    }

    fn blob(&mut self, blob: Box<[u8]>) -> Box<[u8]> {
        self.since += 1;
        self.blobs += 1;
        self.bytes += blob.len();
        blob
    }
}

/// Wherever it stops, defragmentation offers each shard once, also those of a crowd: the hashes of the last items begin with
/// six zeros.
#[test]
fn defragmentation_in_steps_offers_every_shard() {
    for (number, shape) in (300..).zip(shapes(2_000)) {
        let mut rng = Rng::new(number);
        let mut object = object_of(&shape, rng.seed());
        for item in 0_u32..20_000 {
            // Those that do not grow refuse some.
            let _ = add_at(&mut object, &item.to_le_bytes(), 1 << 40);
        }
        let alike = (20_000_u32..).map(u32::to_le_bytes);
        let alike = alike.filter(|item| object.probe(item).hashes().0 >> 58 == 0);
        let alike: Vec<_> = alike.take(6_000).collect();
        for item in &alike {
            let _ = add_at(&mut object, item, 1 << 40);
        }
        let mut offered = [usize::MAX, 0, 1, 2, 3, 7].map(|stop_after| {
            let mut offered = Offered {
                stop_after,
                since: 0,
                blobs: 0,
                bytes: 0,
            };
            let mut next = Some(0);
            while let Some(begin) = next {
                offered.since = 0;
                next = object.relocate(begin, &mut offered);
            }
            (offered.blobs, offered.bytes)
        });
        assert!(offered[0].0 > 1, "{shape:?} has {offered:?}");
        offered.sort_unstable();
        assert_eq!(offered[0], offered[5], "{shape:?}");
    }
}
