#!/bin/sh
# Tests the C library: from C plainly, with AddressSanitizer, linked statically and in valgrind, and by the examples of
# docs/c.md in C, Go, Ruby and PHP, which fetch a filter from a server. tools/clients.sh runs the one for Node.
#
# tools/c.sh install library folder   puts the library that was built, its header and a file for pkg-config into a folder
# tools/c.sh library folder           builds the library, and does the same
# tools/c.sh test server module folder
# tools/c.sh vectors folder           builds the library, and checks the golden vectors with it
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/c.sh: $*" >&2; exit 1; }

# What is beside the shared library is the static one. It has the debug information of Rust's own library, which makes it
# ten times as large.
install_library() { # shared library, folder
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
    mkdir -p "$2/lib/pkgconfig" "$2/include"
    cp "$1" "$2/lib/libvalkeybloom_sketches.so.${version%%.*}"
    ln -sf "libvalkeybloom_sketches.so.${version%%.*}" "$2/lib/libvalkeybloom_sketches.so"
    "${STRIP:-strip}" -D --strip-debug -o "$2/lib/libvalkeybloom_sketches.a" "${1%.so}.a"
    sed "s/@version@/$version/" crates/c/valkeybloom-sketches.pc.in >"$2/lib/pkgconfig/valkeybloom-sketches.pc"
    cp crates/c/include/valkeybloom.h "$2/include"
}

build_library() { # folder
    cargo build --release --locked -p valkeybloom-c
    install_library "${CARGO_TARGET_DIR:-target}/release/libvalkeybloom_sketches.so" "$1"
}

bring() {
    tools/need.sh pkg-config:pkgconf valgrind ruby php:php-cli
    command -v go >/dev/null || PATH=$(tools/go.sh "${folder%/*}/go"):$PATH
}

run_programs() { # words before the program...
    "$@" "$folder/basics"
    "$@" "$folder/vectors" tests/vectors
}

compile() { # options, libraries...
    options=$1
    shift
    for program in basics vectors; do
        # shellcheck disable=SC2086  # lists of options
        cc -std=c11 -Wall -Wextra -Werror -g $options $(pkg-config --cflags valkeybloom-sketches) \
            "crates/c/tests/$program.c" -o "$folder/$program" "$@" -lpthread -lm
    done
}

test_in_c() {
    # A header for C++ as well.
    ! command -v c++ >/dev/null ||
        c++ -std=c++98 -pedantic-errors -fsyntax-only -Wall -Wextra -Werror -x c++ "$root/include/valkeybloom.h"
    # shellcheck disable=SC2046  # a list of options
    compile -O2 "$root/lib/libvalkeybloom_sketches.a" -lgcc_s -lm -lpthread -ldl
    run_programs
    # shellcheck disable=SC2046  # a list of options
    compile "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all" $(pkg-config --libs valkeybloom-sketches)
    ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=1 run_programs
    # shellcheck disable=SC2046  # a list of options
    compile -O1 $(pkg-config --libs valkeybloom-sketches)
    run_programs
    run_programs valgrind --quiet --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite,possible
}

# Prints a block of docs/c.md in a language.
block() { # language, number of the block
    awk -v fence="\`\`\`$1" -v wanted="$2" \
        '$0 == fence { on = ++count == wanted; next } $0 == "```" { on = 0 } on' docs/c.md
}

# Sends commands over a socket, and prints the first bytes of each reply.
send() { # commands on its input
    python3 -c '
import socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    replies = server.makefile("rb")
    for command in sys.stdin:
        server.sendall(command.encode())
        reply = replies.readline().decode().strip()
        count = int(reply[1:]) if reply[0] == "*" else 0
        print(reply, *(replies.readline().decode().strip() for _ in range(count)))
' "$socket"
}

# The filter has grown, so it travels in several chunks.
fill() {
    {
        echo "BF.RESERVE seen 0.0001 100"
        echo "BF.MADD seen $(seq -s ' ' -f 'item%.0f' 5000)"
    } | send >"$folder/replies"
    [ "$(sed -n 1p "$folder/replies")" = "+OK" ] || fail "the server refuses BF.RESERVE"
    [ "$(sed -n 2p "$folder/replies" | tr ' ' '\n' | grep -c ':[01]$')" = 5000 ] || fail "the server refuses items"
}

expect() { # name, command...
    name=$1
    shift
    "$@" >"$folder/found"
    cmp "$folder/expected" "$folder/found" || { cat "$folder/found" >&2; fail "the example in $name found that"; }
    echo "the example in $name: all is well"
}

test_examples() { # server, module
    socket=$(mktemp -d)/server
    mkdir -p "$folder/go"
    # The second block in C belongs into the first one.
    block c 2 >"$folder/batch.c"
    block c 1 | sed "/printf(\"%d/r $folder/batch.c" >"$folder/example.c"
    grep -q contains_many "$folder/example.c" || fail "the examples in C don't fit together"
    block go 1 >"$folder/go/main.go"
    block ruby 1 >"$folder/example.rb"
    block php 1 >"$folder/example.php"
    cc -Wall -Wextra -Werror "$folder/example.c" -o "$folder/example" $(pkg-config --cflags --libs valkeybloom-sketches)
    [ "$("$folder/example")" = "1 0" ] || fail "the example in C printed something else"
    export GOCACHE="${folder%/*}/go/cache" GOPATH="$folder/go-path" GOFLAGS=-mod=mod GO111MODULE=on
    printf 'module example\n\ngo 1.19\n' >"$folder/go/go.mod"
    # Go does not see that a header outside of its folder has changed.
    printf 'package main\n\n// %s\n' "$(sha256sum <"$root/include/valkeybloom.h")" >"$folder/go/header.go"
    [ -z "$(gofmt -l "$folder/go/main.go")" ] || fail "gofmt would change the example in Go"
    (cd "$folder/go" && go vet . && go build -o "$folder/example-go" .)

    "$1" --port 0 --unixsocket "$socket" --save '' --loadmodule "$2" >"$folder/server.log" &
    server=$!
    trap 'kill "$server" 2>/dev/null || true; rm -rf "$(dirname "$socket")"' EXIT
    until [ -S "$socket" ]; do
        kill -0 "$server" 2>/dev/null || { cat "$folder/server.log" >&2; fail "the server ended"; }
        sleep 0.1
    done
    fill
    printf '%s\n' "item1: true" "item5000: true" "nothing: false" >"$folder/expected"
    expect Go "$folder/example-go" "$socket" seen item1 item5000 nothing
    expect Ruby ruby -w "$folder/example.rb" "$socket" seen item1 item5000 nothing
    expect PHP php "$folder/example.php" "unix://$socket" seen item1 item5000 nothing
}

case ${1-} in
    install) install_library "$2" "$3" ;;
    library) build_library "$2" ;;
    test)
        mkdir -p "$4"
        folder=$(cd "$4" && pwd) root=$folder/root
        bring
        build_library "$root"
        export PKG_CONFIG_PATH="$root/lib/pkgconfig" LD_LIBRARY_PATH="$root/lib"
        test_in_c
        test_examples "$2" "$3"
        ;;
    vectors)
        build_library "$2"
        cc -std=c11 -O2 -I"$2/include" crates/c/tests/vectors.c -o "$2/vectors" \
            "$2/lib/libvalkeybloom_sketches.a" -lgcc_s -lpthread -ldl -lm
        "$2/vectors" tests/vectors
        ;;
    *) fail "usage: tools/c.sh install library folder, library folder, test server module folder, or vectors folder" ;;
esac
