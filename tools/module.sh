#!/bin/sh
# Builds the module for packages, for x86_64 or aarch64, and prints its path: one file for glibc 2.17 and newer and for
# musl. With the second argument `checked`, builds it with debug assertions; with `tool` or `service`, builds the program
# `valkeybloom` or `valkeybloom-http` instead, which is static, and with `library` the C library. The same sources and
# compiler make the same bytes in any folder.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/module.sh: $*" >&2; exit 1; }

arch=${1:-$(uname -m)} source=$PWD
target=$(mkdir -p "${CARGO_TARGET_DIR:=target}" && cd "$CARGO_TARGET_DIR" && pwd)
. tools/cross.sh
for=$triple.$glibc profile=release
case ${2-} in
    tool) folder=tool built=valkeybloom what="-p valkeybloom-cli" for=$static ;;
    service) folder=tool built=valkeybloom-http what="-p valkeybloom-http" for=$static ;;
    library) folder=library built=libvalkeybloom_sketches.so what="-p valkeybloom-c" ;;
    checked)
        folder=packaged built=libvalkeybloom.so profile=test
        what="--lib --config profile.test.package.valkeybloom.opt-level=2"
        ;;
    *) folder=packaged built=libvalkeybloom.so what=--lib ;;
esac
# shellcheck disable=SC2086  # a list of options
CARGO_TARGET_DIR=$target/$folder cargo zigbuild --profile $profile --locked $what --target "$for" >&2
built=$target/$folder/${for%".$glibc"}/$(echo "$profile" | sed s/test/debug/)/$built
case $built in
    *.so) for_both "$built" ;;
    *) ! readelf -l "$built" | grep -q INTERP || fail "$built is not static" ;;
esac
echo "$built"
