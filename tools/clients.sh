#!/bin/sh
# Runs the test suites of clients against a server with the module: all of their tests of its commands, in RESP2 and
# RESP3. The suites come from the clients' source packages and are installed once into a folder; the file `installed` is
# written last.
set -eu
cd "$(dirname "$0")/.."
note() { echo "tools/clients.sh: $*" >&2; }
fail() { note "$*"; exit 1; }

[ $# = 3 ] || fail "usage: tools/clients.sh server module folder"
server=$1 module=$2
folder=$(mkdir -p "$3" && cd "$3" && pwd)
redis=8.1.0 valkey=6.2.0 rustis=0.27.2
plugins="pytest==9.2.0 pytest-asyncio==1.5.0 pytest-timeout==2.4.0"
wanted="redis-py $redis valkey-py $valkey rustis $rustis $plugins"
python=$folder/venv/bin/python

# A wheel has no tests, so pip downloads source packages as well.
install_python_suites() {
    python3 -c 'import ensurepip, venv' 2>/dev/null || tools/packages.sh python3-venv
    python3 -m venv "$folder/venv"
    # shellcheck disable=SC2086  # a list of packages
    "$python" -m pip install --quiet "redis[jwt]==$redis" "valkey==$valkey" packaging $plugins
    "$python" -m pip download --quiet --no-deps --no-binary redis,valkey --dest "$folder" \
        "redis==$redis" "valkey==$valkey"
    for package in "redis-$redis" "valkey-$valkey"; do tar -C "$folder" -xzf "$folder/$package.tar.gz"; done
}

# Cargo only tests packages of the workspace, so the crate is copied out of a folder of dependencies. It also depends on
# web servers and other clients for its benchmarks and examples, which take minutes to build: they are left out.
install_rust_suite() {
    mkdir -p "$folder/fetch/src"
    : >"$folder/fetch/src/lib.rs"
    printf '%s\n' '[package]' 'name = "fetch"' '[workspace]' '[dependencies]' "rustis = \"=$rustis\"" \
        >"$folder/fetch/Cargo.toml"
    cargo vendor --quiet --manifest-path "$folder/fetch/Cargo.toml" "$folder/fetch/vendor" >/dev/null
    mv "$folder/fetch/vendor/rustis" "$folder/rustis"
    rm -r "$folder/fetch"
    for crate in actix-web axum criterion fred pprof redis; do echo "/^$crate = /d"; done |
        sed -f - "$folder/rustis/Cargo.toml.orig" >"$folder/rustis/Cargo.toml"
    echo '[workspace]' >>"$folder/rustis/Cargo.toml"
    test_rustis --no-run
}

test_rustis() ( # options of cargo test...
    cd "$folder/rustis"
    CARGO_TARGET_DIR=$folder/rustis/target CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0 \
        REDIS_HOST=127.0.0.1 REDIS_PORT=$port cargo test --lib --no-default-features \
        --features tokio-runtime,server-tests "$@"
)

# The crate's own script runs its tests on one thread, too: they share the server.
rustis() {
    test_rustis -- --test-threads=1 tests::bloom_commands:: tests::cuckoo_commands:: \
        tests::count_min_sketch_commands:: tests::top_k_commands:: tests::t_digest_commands::
}

test_python() ( # folder, options of pytest...
    cd "$folder/$1"
    shift
    "$python" -m pytest -q -rs -p no:cacheprovider tests/test_bloom.py tests/test_asyncio/test_bloom.py "$@"
)

redis_py() { # protocol, whether replies are returned as in old releases
    test_python "redis-$redis" --redis-url "redis://127.0.0.1:$port/0" --redis-mod-url "redis://127.0.0.1:$port" \
        --protocol "$1" --legacy-responses "$2"
}

# valkey-py skips these tests, since its own test server has no module. Without its plugin for skipping, pytest runs
# them.
valkey_py() { # protocol
    test_python "valkey-$valkey" -p no:skipping --valkey-url "valkey://127.0.0.1:$port/0" --protocol "$1"
}

# Runs a suite, and adds its tests to the sums. Shows its output only if a test failed or none ran.
passed=0 failed=
suite() { # name, command...
    name=$1
    shift
    result=0
    "$@" >"$tmp/output" 2>&1 || result=$?
    count=$(grep -o '[0-9]* passed' "$tmp/output" | tail -n 1)
    count=${count% passed}
    if [ "$result" != 0 ] || [ "${count:-0}" = 0 ]; then
        cat "$tmp/output"
        failed="$failed, $name"
    fi
    echo "$name: ${count:-0} passed"
    grep '^SKIPPED' "$tmp/output" || true
    passed=$((passed + ${count:-0}))
}

port=0
if [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
    note "installing $wanted into $folder"
    rm -rf "$folder"
    mkdir "$folder"
    install_python_suites
    install_rust_suite
    echo "$wanted" >"$folder/installed"
fi

tmp=$(mktemp -d) running=
clean() {
    [ -z "$running" ] || kill -9 "$running" 2>/dev/null || true
    rm -rf "$tmp"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM
port=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$server" --bind 127.0.0.1 --port "$port" --dir "$tmp" --save "" --loadmodule "$module" >"$tmp/log" 2>&1 &
running=$!
until grep -q 'Ready to accept connections' "$tmp/log"; do
    kill -0 "$running" 2>/dev/null || fail "the server does not start: $(tail -n 20 "$tmp/log")"
    sleep 0.1
done

for protocol in 2 3; do
    suite "redis-py $redis, RESP$protocol" redis_py $protocol false
    suite "redis-py $redis, RESP$protocol, replies as in old releases" redis_py $protocol true
    # valkey-py's suite only runs on Valkey.
    case $("$server" --version) in
        Valkey*) suite "valkey-py $valkey, RESP$protocol" valkey_py $protocol ;;
    esac
done
# rustis speaks RESP3 only.
suite "rustis $rustis, RESP3" rustis
kill -0 "$running" 2>/dev/null || fail "the server ended: $(tail -n 20 "$tmp/log")"
[ -z "$failed" ] || fail "tests failed:${failed#,}"
echo "$passed tests passed"
