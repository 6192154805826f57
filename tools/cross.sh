# shellcheck shell=sh
# For scripts that build what is shipped, which set `arch` and `source`, the folder of the sources, and read this file
# with `.`. Sets `triple` and cargo's variables, so that cargo builds for that architecture, and makes the same bytes in
# any folder.

triple=$arch-unknown-linux-gnu
case $arch in x86_64 | aarch64) ;; *) fail "packages are made for x86_64 and aarch64, not for $arch" ;; esac
if [ "$arch" != "$(uname -m)" ]; then
    name=$arch-linux-gnu
    { command -v "$name-gcc" && [ -e "/usr/$name/include/stdio.h" ]; } >/dev/null ||
        tools/packages.sh "gcc-$(echo "$name" | tr _ -)" "libc6-dev-$(echo "$arch" | sed 's/aarch64/arm64/; s/x86_64/amd64/')-cross"
    ! command -v rustup >/dev/null || rustup --quiet target add "$triple" >&2
    # Cargo reads the linker of a target from a variable in capitals.
    export "CARGO_TARGET_$(echo "$triple" | tr a-z- A-Z_)_LINKER=$name-gcc"
    export "BINDGEN_EXTRA_CLANG_ARGS=--target=$triple -isystem /usr/$name/include"
fi

# Panic messages name source files. Fixed folders keep these names equal on every machine.
tab=$(printf '\037')
CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$source=/valkeybloom"
CARGO_ENCODED_RUSTFLAGS="$CARGO_ENCODED_RUSTFLAGS$tab--remap-path-prefix=$target=/target"
CARGO_ENCODED_RUSTFLAGS="$CARGO_ENCODED_RUSTFLAGS$tab--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
# Assertions in the C code of the program's libraries name its folders.
CFLAGS="-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CARGO_ENCODED_RUSTFLAGS CFLAGS
