//! Measures the memory of objects.

use crate::objects::fill;
use crate::{Goal, Line, run, server};

pub(crate) fn lines(wanted: &dyn Fn(&str) -> bool) -> Vec<Line> {
    let (grown, small) = (
        "memory of 1M items grown from 1000",
        "memory beside the blob",
    );
    let mut lines = Vec::new();
    if !wanted(grown) && !wanted(small) {
        return lines;
    }
    let server = server();
    let mut client = server.client();
    if wanted(grown) {
        run(&mut client, "BF.RESERVE grown 0.01 1000 EXPANSION 2");
        fill(&mut client, "BF.MADD", "grown", 0..1_000_000);
        let size = run(&mut client, "BF.INFO grown SIZE").as_array()[0].as_int();
        let filters = run(&mut client, "BF.INFO grown FILTERS").as_array()[0].as_int();
        let items = run(&mut client, "BF.CARD grown").as_int();
        // The minimum for filters of these capacities, at the rates 0.01 / ((i + 1)(i + 2)).
        let need: f64 = (0..i32::try_from(filters).expect("few filters"))
            .map(|i| {
                let rate = 0.01 / (f64::from(i + 1) * f64::from(i + 2));
                let bits = -rate.ln() / std::f64::consts::LN_2.powi(2);
                1000.0 * 2_f64.powi(i) * bits / 8.0
            })
            .sum();
        #[allow(clippy::cast_precision_loss, reason = "some megabytes")]
        let (size, items) = (size as f64, items as f64);
        lines.push(Line {
            case: grown.to_owned(),
            measured: format!("{size:.0} bytes, {:.1} bits an item", size * 8.0 / items),
            compared_with: format!("the least for these rates: {need:.0} bytes"),
            ratio: size / need,
            goal: Goal::AtMost(1.12),
        });
    }
    if wanted(small) {
        run(&mut client, "BF.RESERVE one 0.01 1000");
        let size = run(&mut client, "BF.INFO one SIZE").as_array()[0].as_int();
        let debug = run(&mut client, "BF.DEBUG one").as_array()[1].text();
        let bitmap = debug
            .strip_prefix("bytes:")
            .and_then(|rest| rest.split(' ').next());
        let bitmap: i64 = bitmap.and_then(|b| b.parse().ok()).expect("a number");
        // The blob consists of a header of 45 bytes and the bitmap.
        let beside = i32::try_from(size - 45 - bitmap).expect("little");
        lines.push(Line {
            case: small.to_owned(),
            measured: format!("{beside} bytes"),
            compared_with: "200 bytes".to_owned(),
            ratio: f64::from(beside) / 200.0,
            goal: Goal::AtMost(1.0),
        });
    }
    lines
}
