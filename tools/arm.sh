#!/bin/sh
# Tests the module on ARM64, emulated by qemu: the core's tests, then the packaged module in Debian's arm64 server.
# With filters, only the server's tests whose names match. On an ARM64 machine, run ./build.sh test instead.
set -eu
cd "$(dirname "$0")/.."
note() { echo "== $*"; }
fail() { echo "tools/arm.sh: $*" >&2; exit 1; }

[ "$(uname -m)" = x86_64 ] || fail "this emulates ARM64 on x86-64. On ARM64 run ./build.sh test"

command -v aarch64-linux-gnu-gcc >/dev/null || tools/packages.sh gcc-aarch64-linux-gnu libc6-dev-arm64-cross
arm=$(tools/module.sh aarch64)
host=$(tools/module.sh x86_64)
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
command -v qemu-aarch64-static >/dev/null || tools/packages.sh qemu-user-static
tmp=$(mktemp -d "$target/arm.XXXXXX")
server=""
clean() {
    # SIGTERM is not enough: a server saves first, and keeps running if it can't.
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    rm -rf "$tmp"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

# Runs the core's tests. Emulated arithmetic on doubles is tens of times slower, so this skips two tests that take one to
# twenty minutes each: a search for sizes, compared with another search by powers of the C library, and tens of thousands
# of mutated inputs (`refused::changed` has fewer). All other tests together take four to eight minutes.
core_tests() {
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
    CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_TARGET_DIR=$target/emulated \
        cargo test --release --locked -p valkeybloom-sketches --target aarch64-unknown-linux-gnu --lib --test core -- \
        --skip sizes_for_a_rate_are_the_least_that_keep_it --skip decode_bears_what_was_found_and_what_is_near
}

# Unpacks Debian's server for arm64 and its dependencies. It comes from sid, whose Valkey 9.1 writes the host's format.
bring_root() {
    root=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom/arm64
    [ ! -x "$root/usr/bin/valkey-server" ] || return 0
    note "unpacking an arm64 server"
    tools/unpack.sh "$tmp/root" sid arm64 valkey-server
    rm -rf "$root"
    mkdir -p "$(dirname "$root")"
    mv "$tmp/root" "$root"
}

# Starts a server at a socket, with its data in the folder $tmp/NAME.
start() { # name, server, module, setting...
    socket=$tmp/$1/socket folder=$tmp/$1 program=$2 loaded=$3
    shift 3
    mkdir -p "$folder"
    "$program" --port 0 --unixsocket "$socket" --dir "$folder" --save "" --enable-debug-command yes \
        --loadmodule "$loaded" >>"$folder/log" 2>&1 &
    server=$!
    tries=0
    until [ "$(ask PING 2>/dev/null)" = PONG ]; do
        if [ $((tries += 1)) -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then
            fail "$program does not start: $(tail -n 20 "$folder/log")"
        fi
        sleep 0.1
    done
}

stop() {
    ask SHUTDOWN NOSAVE || true
    wait "$server" || fail "the server ended badly: $(tail -n 20 "$folder/log")"
    server=""
}

ask() { "$servers/valkey-9.1/valkey-cli" -s "$socket" "$@"; }

# Prints commands for sketches. Most items of the Top-K collide, and its large increments need logarithms and powers.
fill_sketches() { # prefix
    echo "CMS.INITBYPROB $1-cms 0.003 0.001"
    echo "TOPK.RESERVE $1-topk 10 8 4 0.9"
    echo "TOPK.RESERVE $1-slow 5 3 2 0.9999"
    echo "TDIGEST.CREATE $1-tdigest COMPRESSION 20"
    for batch in 1 2 3 4 5 6 7 8 9; do
        echo "CMS.INCRBY $1-cms $(seq -s ' ' $((batch * 70)) $((batch * 70 + 99)))"
        echo "TOPK.ADD $1-topk $(seq -s ' ' $((batch * 7)) $((batch * 7 + 99)))"
        for item in a b c d e f; do echo "TOPK.INCRBY $1-slow $item $((batch * 11000 - 1000))"; done
        echo "TDIGEST.ADD $1-tdigest $(seq -s ' ' $((batch * 7)).1 0.37 $((batch * 7 + 99)).9)"
    done
    echo "TDIGEST.MERGE $1-tdigest 2 $1-tdigest $1-tdigest"
}

# Makes objects of every kind, also with few items. With a public seed, equal commands make equal bits.
fill() { # prefix
    ask CONFIG SET bf.bloom-use-random-seed no >/dev/null
    {
        for rate in 0.5 0.1 0.01 0.001 0.000001 0.000000000001; do
            for capacity in 1 10 100 1000 10000 100000; do echo "BF.RESERVE $1-$rate-$capacity $rate $capacity"; done
        done
        echo "BF.RESERVE $1-stack 0.01 1 EXPANSION 1"
        echo "BF.RESERVE $1-steep 0.001 10 EXPANSION 4"
        echo "BF.INSERT $1-ratio CAPACITY 10 TIGHTENING 0.3 ITEMS a"
        echo "BF.RESERVE $1-counting 0.01 100 COUNTING"
        echo "BF.RESERVE $1-window 0.01 100 WINDOW 86400000 PERIODS 3"
        for key in 0.01-100 0.5-1 0.001-1000 stack steep ratio counting window; do
            for batch in 1 2 3 4 5 6 7 8 9; do
                echo "BF.MADD $1-$key $(seq -s ' ' $((batch * 70)) $((batch * 70 + 100)))"
            done
        done
        echo "BF.MDEL $1-counting 100 101 102"
        fill_sketches "$1"
    } | ask >"$tmp/replies"
    ! grep -E '^(ERR|OOM|WRONG)' "$tmp/replies" || fail "commands failed"
}

answers() { # prefix
    {
        for key in 0.01-100 0.5-1 0.001-1000 stack steep ratio counting window; do
            ask BF.MEXISTS "$1-$key" $(seq 1 2000)
            ask BF.CARD "$1-$key"
        done
        ask CMS.QUERY "$1-cms" $(seq 1 2000)
        for key in topk slow; do ask TOPK.LIST "$1-$key" WITHCOUNT; done
        ask TDIGEST.QUANTILE "$1-tdigest" $(seq 0 0.001 1)
        ask TDIGEST.CDF "$1-tdigest" $(seq 0 0.5 200)
    } | sha256sum
}

same() { # what, one, other
    [ "$2" = "$3" ] || fail "$1: $2 and $3"
    echo "$1: $2"
}

# Takes a file from the host to ARM64, adds to it, and brings it back. Windows contain the time, so if both machines ran
# the same commands, only the windows' answers are compared.
there_and_back() {
    native=$servers/valkey-9.1/valkey-server
    start host "$native" "$host"
    fill x
    ask SAVE >/dev/null
    digest=$(ask DEBUG DIGEST) answered=$(answers x)
    bits=$(ask --raw KEYS 'x-*' | grep -v window | sort | while read -r key; do ask DEBUG DIGEST-VALUE "$key"; done)
    stop

    mkdir -p "$tmp/there"
    cp "$tmp/host/dump.rdb" "$tmp/there"
    start there "$emulated" "$arm"
    same "digest of what x86-64 wrote, on ARM64" "$digest" "$(ask DEBUG DIGEST)"
    same "its answers" "$answered" "$(answers x)"
    fill y
    same "answers of what ARM64 made" "$answered" "$(answers y)"
    for key in $(ask --raw KEYS 'y-*' | grep -v window | sort); do ask DEBUG DIGEST-VALUE "$key"; done >"$tmp/made"
    same "its digests, together" "$(echo "$bits" | sha256sum)" "$(sha256sum <"$tmp/made")"
    ask SAVE >/dev/null
    digest=$(ask DEBUG DIGEST)
    stop

    mkdir -p "$tmp/back"
    cp "$tmp/there/dump.rdb" "$tmp/back"
    start back "$native" "$host"
    same "digest of what ARM64 wrote, on x86-64" "$digest" "$(ask DEBUG DIGEST)"
    same "its answers" "$answered" "$(answers y)"
    stop
}

servers=$(tools/servers.sh)
bring_root
emulated=$tmp/valkey-server
printf '#!/bin/sh\nexec qemu-aarch64-static -L "%s" "%s/usr/bin/valkey-server" "$@"\n' "$root" "$root" >"$emulated"
chmod 755 "$emulated"
note "$("$emulated" --version)"
if [ $# = 0 ]; then
    note "the core's tests"
    core_tests
    note "a file there and back"
    there_and_back
    set -- replies:: recorded:: foreign::
fi
note "the server's tests: $*"
VALKEY_SERVER=$emulated VALKEYBLOOM_SO=$arm SERVERS_DIR=$servers RUST_TEST_THREADS=4 \
    cargo test --locked --workspace --test server -- "$@"
