#!/bin/sh
# Makes the pages a site in target/site/: README.md and the pages of its table, with search, the calculator and the
# documentation of the crates. It works from the disk and from any server of files. Then checks every link in it.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/site.sh: $*" >&2; exit 1; }
. tools/steps.sh

command -v cargo >/dev/null || fail "missing: cargo. Install Rust with rustup"
browser=${BROWSER:-chromium}
tools/need.sh python3 "$browser:chromium"
target=$(mkdir -p "${CARGO_TARGET_DIR:=target}" && cd "$CARGO_TARGET_DIR" && pwd)
site=$target/site
tmp=$(mktemp -d "$target/site.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
book=$tmp/book

# Prints the pages of README.md's table, in its order.
pages() {
    awk '/^## / { on = $0 == "## Pages" } on && /^\|/' README.md | grep -o '(docs/[^)#]*\.md)' | tr -d '()' |
        awk '!seen[$0]++'
}

chapter() { # path in the book
    echo "- [$(sed -n '1s/^# //p' "$book/$1")]($1)"
}

# Copies pages, and names the files that a site calls otherwise.
copy() { # folder, pages...
    folder=$1
    shift
    mkdir -p "$book/$folder"
    for page; do
        sed 's|](\(\.\./\)\{0,1\}README\.md|](\1index.md|g; s|](\(\.\./\)\{0,1\}LICENSE)|](\1LICENSE.txt)|g' "$page" \
            >"$book/$folder/$(basename "$page")"
    done
}

lay_out() {
    copy . README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
    mv "$book/README.md" "$book/index.md"
    copy docs docs/*.md
    cp LICENSE "$book/LICENSE.txt"
    cp docs/*.html docs/*.png docs/*.svg docs/*.yml "$book/docs"
    mkdir "$book/examples"
    cp -r examples/*.rs examples/compose examples/kubernetes "$book/examples"
    cp crates/c/include/valkeybloom.h "$book"
    {
        printf '# Calculator and libraries\n\nThe [calculator](docs/calculator.html) sizes filters and sketches in the browser.'
        printf '\n\n| crate | what it is |\n|---|---|\n'
        tools/crates.sh | awk -F '\t' '{ path = $1; gsub("-", "_", path) } $1 == "valkeybloom-cli" { path = "valkeybloom" }
            { print "| [`" $1 "`](api/" path "/index.html) | " $2 " |" }'
        printf '\nThe C library has [one header](valkeybloom.h), which [a page](docs/c.md) describes; the Python package has\n'
        printf '[a page](docs/python.md), too.\n'
    } >"$book/libraries.md"
    list=$(pages)
    for page in docs/*.md; do
        echo "$list" | grep -qx "$page" || fail "$page is not in README.md's table of pages"
    done
    {
        printf '# Summary\n\n'
        chapter index.md
        for page in $list libraries.md; do chapter "$page"; done
        printf '\n# The project\n\n'
        for page in ARCHITECTURE CONTRIBUTING SECURITY CHANGELOG; do chapter $page.md; done
    } >"$book/SUMMARY.md"
    cat >"$tmp/book.toml" <<'TOML'
[book]
title = "valkeybloom"
language = "en"
src = "book"
[output.html]
no-section-label = true
preferred-dark-theme = "navy"
# It would need the address of the site.
input-404 = ""
additional-css = ["site.css"]
[output.html.print]
enable = false
[output.html.playground]
runnable = false
TOML
    # The pages have lines of 120 columns in their blocks.
    echo ':root { --content-max-width: 1000px; }' >"$tmp/site.css"
}

# Another run may have left the documentation of other crates.
document() {
    rm -rf "$target/doc"
    # shellcheck disable=SC2046  # a list of options
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps $(tools/crates.sh | sed 's/\t.*//; s/^/-p /')
    cp -r "$target/doc" "$tmp/site/api"
    # Some of its pages link to a list of the crates, which only unstable options make.
    echo '<!doctype html><meta http-equiv="refresh" content="0; url=../libraries.html"><a href="../libraries.html">Crates</a>' \
        >"$tmp/site/api/index.html"
}

# Opens the site from the disk, where a browser refuses to fetch files, and searches for a word.
search() {
    "$browser" --headless=new --no-sandbox --disable-gpu --virtual-time-budget=10000 --dump-dom \
        "file://$tmp/site/index.html?search=cuckoo" 2>/dev/null >"$tmp/found"
    grep -q "[0-9] search results for 'cuckoo'" "$tmp/found" || fail "the search finds nothing"
}

mdbook=$(tools/cargo-tool.sh mdbook)
lay_out
step "chapters" "$mdbook" build "$tmp" --dest-dir "$tmp/site"
step "documentation of the crates" document
step "links" python3 tools/links.py "$tmp/site"
step "search" search
rm -rf "$site"
mv "$tmp/site" "$site"
echo "$site/index.html"
