#!/bin/sh
# Prints a value of CARGO_ENCODED_RUSTFLAGS: the given flags, and some that give the folders of this machine fixed names.
# Panic messages name source files, and every machine should make the same bytes. The compiler calls the standard
# library's folder by its commit, unless the component rust-src is installed.
#
#   tools/rustflags.sh flag...
set -eu

sysroot=$(rustc --print sysroot)
commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
for folder in "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$sysroot=/rust" "$sysroot/lib/rustlib/src/rust=/rustc/$commit"; do
    set -- "$@" "--remap-path-prefix=$folder"
done
IFS=$(printf '\037')
printf '%s' "$*"
