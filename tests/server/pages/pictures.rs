//! The pictures show what the pages say.

use super::{page, root};

#[path = "../../../benches/pictures/chart.rs"]
mod chart;
#[path = "../../../benches/pictures/drawn.rs"]
mod drawn;
#[path = "../../../benches/pictures/terminal.rs"]
mod terminal;

#[test]
fn pictures_are_drawn_from_the_pages() {
    for (name, svg) in drawn::all(&root()) {
        let file = page(&format!("docs/{name}")).text;
        assert!(
            file == svg,
            "docs/{name} is out of date: ./build.sh bench pictures"
        );
    }
}
