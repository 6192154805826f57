#!/bin/sh
# Makes the npm package in target/npm/: a WebAssembly and the JavaScript around it, the same bytes in any folder. What
# the tests and the bundling need is installed once, by the versions of crates/javascript/tests/package-lock.json.
#
#   tools/js.sh target                  brings the compiler's target, or fails
#   tools/js.sh build                   makes the package
#   tools/js.sh test server module      makes it, and tests it in Node, and in Chromium
#   tools/js.sh bench server module     measures it beside other packages
#   tools/js.sh release folder          makes it, and puts it into a folder
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/js.sh: $*" >&2; exit 1; }

[ $# -ge 1 ] || fail "usage: tools/js.sh target, build, test server module [file...], bench server module or release folder"
action=$1
shift
target=$(mkdir -p "${CARGO_TARGET_DIR:=target}" && cd "$CARGO_TARGET_DIR" && pwd)
npm=$target/npm
source=crates/javascript
wasm=wasm32-unknown-unknown

bring_target() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$wasm/lib" ] || rustup --quiet target add "$wasm" >&2 ||
        fail "missing: the target $wasm. Install with: rustup target add $wasm"
}

# The Node.js of Debian 12 is 18. Npm has newer ones.
bring_node() {
    is_new() { node -e 'process.exit(Number(parseInt(process.versions.node) < 20))'; }
    is_new || {
        PATH=$npm/node/node_modules/node/bin:$PATH
        is_new || npm install --silent --no-audit --no-fund --prefix "$npm/node" node@22
        hash -r
        is_new || fail "missing: Node.js 20 or newer"
    }
}

bring() {
    tools/need.sh node:nodejs npm
    [ "$action" != test ] || tools/need.sh "${BROWSER:-chromium}:chromium"
    bring_node
    bring_target
    mkdir -p "$npm/work"
    cmp -s $source/tests/package-lock.json "$npm/work/installed" || {
        cp $source/tests/package.json $source/tests/package-lock.json "$npm/work"
        npm ci --silent --no-audit --no-fund --prefix "$npm/work"
        cp $source/tests/package-lock.json "$npm/work/installed"
    }
}

# A lower threshold of inlining makes the WebAssembly a sixth smaller, and no slower. The stack pointer is exported so that
# a call that was aborted leaves its stack as it was.
build() {
    bring
    flags=$(tools/rustflags.sh "--remap-path-prefix=$PWD=/valkeybloom" -Cllvm-args=-inline-threshold=20 \
        -Clink-arg=--export=__stack_pointer)
    CARGO_TARGET_DIR=$target CARGO_ENCODED_RUSTFLAGS=$flags cargo build --quiet --locked --profile javascript --target "$wasm" \
        -p valkeybloom-javascript
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    package=$npm/work/node_modules/valkeybloom
    rm -rf "$package" "$npm"/valkeybloom-*.tgz
    mkdir -p "$package"
    cp "$target/$wasm/javascript/valkeybloom_javascript.wasm" "$package/valkeybloom.wasm"
    sed "s/@version@/$version/" $source/package/package.json >"$package/package.json"
    cp $source/package/index.d.ts $source/README.md LICENSE "$package"
    cp $source/package/index.d.ts "$package/index.d.cts"
    bundle() { # entry, format, file, options...
        entry=$source/package/$1 format=$2 file=$package/$3
        shift 3
        "$npm/work/node_modules/.bin/esbuild" "$entry" --bundle --log-level=warning --format="$format" --target=es2022 \
            --loader:.wasm=binary --alias:valkeybloom.wasm="$package/valkeybloom.wasm" \
            --outfile="$file" "$@"
        # The path of the WebAssembly depends on the folder.
        sed -i '/^\/\/ .*valkeybloom\.wasm$/d' "$file"
    }
    printf "module.exports = Buffer.from('%s', 'base64');\n" "$(base64 -w 0 "$package/valkeybloom.wasm")" >"$package/bytes.cjs"
    bundle node.js cjs node.cjs --external:node:* --external:./bytes.cjs
    bundle web.js esm web.js
    bundle worker.js esm worker.js --external:./valkeybloom.wasm
    # Programs that import the package and those that require it share its classes.
    names=$(node -p "Object.keys(require('$package/node.cjs')).join(', ')")
    printf "import package_ from './node.cjs';\n\nexport const { %s } = package_;\n" "$names" >"$package/node.js"
    (cd "$package" && npm pack --silent --pack-destination "$npm") >/dev/null
    echo "$npm/valkeybloom-$version.tgz: $(wc -c <"$npm/valkeybloom-$version.tgz") bytes, with" \
        "$(wc -c <"$package/valkeybloom.wasm") bytes of WebAssembly, $(gzip -9c "$package/valkeybloom.wasm" | wc -c) compressed"
}

case $action in
    target) bring_target ;;
    build) build ;;
    test | bench)
        [ $# -ge 2 ] || fail "name a server and a module"
        export VALKEY_SERVER="$1" VALKEYBLOOM_SO="$2" REPOSITORY="$PWD"
        shift 2
        build
        # The checks of the workspace leave out what is compiled for WebAssembly alone.
        [ "$action" = bench ] || cargo clippy --quiet --locked --target "$wasm" -p valkeybloom-javascript \
            -p valkeybloom-calculator -- -D warnings
        rm -rf "$npm/work/tests"
        cp -r $source/tests "$npm/work/tests"
        cp benches/javascript.js "$npm/work"
        cd "$npm/work"
        [ "$action" = test ] || exec node javascript.js
        [ $# -gt 0 ] || set -- tests/*.test.js
        node --expose-gc --test "$@"
        ;;
    release)
        [ $# = 1 ] || fail "name a folder"
        build
        cp "$npm"/valkeybloom-*.tgz "$1"
        ;;
    *) fail "no action is called $action" ;;
esac
