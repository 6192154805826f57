//! Every link leads somewhere.

use std::collections::HashSet;

use super::{page, pages, root};

/// The anchors of a page, as its readers' programs make them of headings.
fn anchors(text: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        if fenced || !line.starts_with('#') {
            continue;
        }
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        assert!(anchors.insert(anchor), "two headings alike: {line}");
    }
    anchors
}

#[test]
fn links_lead_somewhere() {
    let mut all = pages();
    let others = ["ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "SECURITY"];
    all.extend(others.map(|name| page(&format!("{name}.md"))));
    for from in &all {
        let links = from.text.split("](").skip(1);
        for link in links.map(|rest| rest.split(')').next().expect("split gives one part")) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let folder = root()
                .join(&from.path)
                .parent()
                .expect("a folder")
                .to_owned();
            let target = if file.is_empty() {
                root().join(&from.path)
            } else {
                folder.join(file)
            };
            assert!(target.exists(), "{}: {link}", from.path);
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).expect("a text");
                assert!(anchors(&text).contains(anchor), "{}: {link}", from.path);
            }
        }
    }
}

#[test]
fn the_readme_leads_to_every_page() {
    let readme = page("README.md").text;
    assert!(readme.lines().count() <= 200, "the README is short");
    for page in pages() {
        let link = format!("]({})", page.path);
        assert!(page.path == "README.md" || readme.contains(&link), "{link}");
    }
}
