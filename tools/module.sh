#!/bin/sh
# Builds the module for packages, for x86_64 or aarch64, and prints its path. With the second argument `tool`, builds
# the program `valkeybloom` instead, and with `library` the C library. The same sources and compiler make the same bytes
# in any folder.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/module.sh: $*" >&2; exit 1; }

arch=${1:-$(uname -m)} source=$PWD
target=$(mkdir -p "${CARGO_TARGET_DIR:=target}" && cd "$CARGO_TARGET_DIR" && pwd)
. tools/cross.sh
case ${2-} in
    tool) folder=tool built=valkeybloom what="-p valkeybloom-cli" ;;
    library) folder=library built=libvalkeybloom_sketches.so what="-p valkeybloom-c" ;;
    *) folder=packaged built=libvalkeybloom.so what=--lib ;;
esac
# shellcheck disable=SC2086  # a list of options
CARGO_TARGET_DIR=$target/$folder cargo build --release --locked $what --target "$triple" >&2
built=$target/$folder/$triple/release/$built

# readelf reads the files of every architecture.
newest=$(readelf --version-info "$built" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -n 1)" = GLIBC_2.34 ] ||
    fail "$built needs $newest, and packages promise 2.34"
echo "$built"
