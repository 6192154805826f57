#!/bin/sh
# Builds the module for packages, for x86_64 or aarch64, and prints its path. With the second argument `tool`, builds
# the program `valkeybloom` instead, and with `library` the C library. The same sources and compiler make the same bytes
# in any folder.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/module.sh: $*" >&2; exit 1; }

arch=${1:-$(uname -m)}
target=$(mkdir -p "${CARGO_TARGET_DIR:=target}" && cd "$CARGO_TARGET_DIR" && pwd)
triple=$arch-unknown-linux-gnu
case $arch in x86_64 | aarch64) ;; *) fail "packages are made for x86_64 and aarch64, not for $arch" ;; esac
objdump=objdump
if [ "$arch" != "$(uname -m)" ]; then
    name=$arch-linux-gnu
    objdump=$name-objdump
    { command -v "$name-gcc" && [ -e "/usr/$name/include/stdio.h" ]; } >/dev/null ||
        tools/packages.sh "gcc-$(echo "$name" | tr _ -)" "libc6-dev-$(echo "$arch" | sed 's/aarch64/arm64/; s/x86_64/amd64/')-cross"
    ! command -v rustup >/dev/null || rustup --quiet target add "$triple" >&2
    # Cargo reads the linker of a target from a variable in capitals.
    export "CARGO_TARGET_$(echo "$triple" | tr a-z- A-Z_)_LINKER=$name-gcc"
    export "BINDGEN_EXTRA_CLANG_ARGS=--target=$triple -isystem /usr/$name/include"
fi

# Panic messages name source files. Fixed folders keep these names equal on every machine.
tab=$(printf '\037')
flags="--remap-path-prefix=$PWD=/valkeybloom"
flags="$flags$tab--remap-path-prefix=$target=/target"
flags="$flags$tab--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
# Assertions in the C code of the program's libraries name its folders.
cflags="-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo"
case ${2-} in
    tool) folder=tool built=valkeybloom what="-p valkeybloom-cli" ;;
    library) folder=library built=libvalkeybloom_sketches.so what="-p valkeybloom-c" ;;
    *) folder=packaged built=libvalkeybloom.so what=--lib ;;
esac
# shellcheck disable=SC2086  # a list of options
CARGO_TARGET_DIR=$target/$folder CARGO_ENCODED_RUSTFLAGS=$flags CFLAGS=$cflags \
    cargo build --quiet --release --locked $what --target "$triple" >&2
built=$target/$folder/$triple/release/$built

newest=$("$objdump" -T "$built" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
[ "$(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -n 1)" = GLIBC_2.34 ] ||
    fail "$built needs $newest, and packages promise 2.34"
echo "$built"
