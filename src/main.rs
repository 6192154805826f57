use std::time::Instant;
use valkeybloom::bloom::*;
fn main() {
    for (name, fb, ob) in [
        ("object none", 64u64 << 20, u64::MAX),
        ("object 1TiB", 64 << 20, 1 << 40),
        ("object 2^62", 64 << 20, 1u64 << 62),
    ] {
        let mut all = vec![];
        for cap in [1u64, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000] {
            for p in [0.5, 0.01, 1e-6] {
                for r in [0.5, 0.9, 0.999] {
                    let params = Params {
                        capacity: cap,
                        error_rate: Fraction::new(p).unwrap(),
                        tightening: Fraction::new(r).unwrap(),
                        growth: Growth::from_expansion(1),
                    };
                    let l = Limits::Within {
                        filter_bytes: fb,
                        object_bytes: ob,
                        saturate: false,
                    };
                    let mut best = u128::MAX;
                    for _ in 0..5 {
                        let t = Instant::now();
                        std::hint::black_box(params.reach(l));
                        best = best.min(t.elapsed().as_micros());
                    }
                    all.push((best, cap, p, r));
                }
            }
        }
        all.sort_by(|a, b| b.partial_cmp(a).unwrap());
        println!("{name}: worst {:?}", &all[..4]);
    }
}
