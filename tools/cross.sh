# shellcheck shell=sh
# For scripts that build what is shipped, which set `arch` and `source`, the folder of the sources, and read this file
# with `.`. Sets `triple`, `static` and the variables of cargo and of C compilers, so that `cargo zigbuild` builds for that
# architecture, and makes the same bytes in any folder.

case $arch in x86_64 | aarch64) ;; *) fail "packages are made for x86_64 and aarch64, not for $arch" ;; esac
triple=$arch-unknown-linux-gnu
static=$arch-unknown-linux-musl
glibc=2.17
zig=$(tools/zig.sh)
PATH=$zig:$PATH
export PATH
! command -v rustup >/dev/null || rustup --quiet target add "$triple" "$static" >&2

CARGO_ENCODED_RUSTFLAGS=$(tools/rustflags.sh \
    "--remap-path-prefix=$source=/valkeybloom" "--remap-path-prefix=$target=/target")
# Assertions in the C code of the program's libraries name its folders.
CFLAGS="-ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CARGO_ENCODED_RUSTFLAGS CFLAGS

# Makes a library that was linked for glibc load with musl as well. Its calls are in both, and musl answers for glibc's
# libraries by their names, but not for glibc's loader, which is in every process with glibc anyway.
for_both() { # library
    for loader in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(ld-linux.*\)\]$/\1/p'); do
        patchelf --remove-needed "$loader" "$1"
    done
    newest=$(readelf --version-info "$1" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
    [ "$(printf '%s\n' "$newest" "GLIBC_$glibc" | sort -V | tail -n 1)" = "GLIBC_$glibc" ] ||
        fail "$1 needs $newest, and packages promise $glibc"
    others=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | grep -vE '^lib(c|m|pthread|dl)\.so\.[0-9]$') || true
    [ -z "$others" ] || fail "$1 needs $others, which musl does not have"
}
