#!/bin/sh
# Makes docs/calculator.html of crates/calculator: the page with its style and its script, and the WebAssembly in base64.
# The same compiler makes the same bytes in any folder: paths of this machine do not get in, and nothing else varies.
#
#   tools/calculator.sh          writes the page
#   tools/calculator.sh check    checks that the page is what its source makes
#   tools/calculator.sh picture  takes docs/calculator.png of it
#
# Another compiler makes other WebAssembly of the same source, and this machine may not have the target. So the check
# compares bytes only with the compiler that made the page, whose version is in the page. In any case the tests compare
# the rest of the page with its source, and run its WebAssembly: it has to answer like the crate (tests/server/calculator).
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/calculator.sh: $*" >&2; exit 1; }

wanted=wasm32-unknown-unknown
page=docs/calculator.html
folder=crates/calculator/page
compiler=$(rustc --version)
made_by=$(sed -n 's/^<meta name="compiler" content="\(.*\)">$/\1/p' $page 2>/dev/null || true)
if [ "${1-}" = picture ]; then
    browser=${BROWSER:-chromium}
    tools/need.sh "$browser:chromium"
    "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --window-size=1160,930 \
        --blink-settings=preferredColorScheme=1 --virtual-time-budget=3000 --screenshot="$PWD/docs/calculator.png" \
        "file://$PWD/$page#items=1M&start=1000" 2>/dev/null
    echo "docs/calculator.png: $(wc -c <docs/calculator.png) bytes"
    exit
fi

if [ "${1-}" = check ] && [ "$made_by" != "$compiler" ]; then
    echo "tools/calculator.sh: $page was made by $made_by, not by $compiler: its bytes are not compared" >&2
    exit
fi

has_target() { [ -d "$(rustc --print sysroot)/lib/rustlib/$wanted/lib" ]; }
has_target || rustup target add "$wanted" >/dev/null 2>&1 || true
if ! has_target; then
    [ "${1-}" = check ] || fail "missing: the target $wanted. Install with: rustup target add $wanted"
    echo "tools/calculator.sh: no target $wanted: the bytes of $page are not compared" >&2
    exit
fi

target=$(mkdir -p "${CARGO_TARGET_DIR:=target}" && cd "$CARGO_TARGET_DIR" && pwd)
flags=$(tools/rustflags.sh "--remap-path-prefix=$PWD=/valkeybloom")
CARGO_TARGET_DIR=$target CARGO_ENCODED_RUSTFLAGS=$flags cargo build --quiet --locked --profile calculator --target "$wanted" \
    -p valkeybloom-calculator
wasm=$target/$wanted/calculator/valkeybloom_calculator.wasm

tmp=$(mktemp "$target/calculator.XXXXXX")
trap 'rm -f "$tmp"' EXIT
while IFS= read -r line; do
    case $line in
        '<meta name="compiler">') echo "<meta name=\"compiler\" content=\"$compiler\">" ;;
        '<link rel="stylesheet" href="style.css">') echo '<style>' && cat $folder/style.css && echo '</style>' ;;
        '<script src="page.js"></script>')
            printf '<script id="wasm" type="application/wasm">'
            base64 -w 0 "$wasm"
            printf '</script>\n<script>\n'
            cat $folder/page.js
            echo '</script>'
            ;;
        *) printf '%s\n' "$line" ;;
    esac
done <$folder/page.html >"$tmp"

if [ "${1-}" = check ]; then
    cmp -s "$tmp" $page || fail "$page is not what its source makes: ./build.sh calculator"
else
    cp "$tmp" $page
    echo "$page: $(wc -c <$page) bytes, with $(wc -c <"$wasm") bytes of WebAssembly"
fi
