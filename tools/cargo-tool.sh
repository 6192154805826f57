#!/bin/sh
# Builds a program of crates.io, once on this machine, and prints its path. It is built without optimization, which takes
# a fraction of the time, because it runs for seconds.
set -eu
cd "$(dirname "$0")/.."
. tools/steps.sh

case ${1-} in
    cargo-cyclonedx) version=0.5.9 ;;
    cargo-deny) version=0.20.2 ;;
    cargo-semver-checks) version=0.51.0 ;;
    mdbook) version=0.5.4 && set -- mdbook --no-default-features --features search ;;
    *) echo "usage: tools/cargo-tool.sh cargo-cyclonedx, cargo-deny, cargo-semver-checks or mdbook" >&2 && exit 1 ;;
esac
name=$1
shift
folder=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom/tools/$name-$version
[ -x "$folder/bin/$name" ] ||
    step "$name, which is built once on this machine" \
        env -u CARGO_TARGET_DIR cargo install --locked --debug --root "$folder" --version "$version" "$@" "$name" >&2
echo "$folder/bin/$name"
