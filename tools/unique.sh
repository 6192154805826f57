#!/bin/sh
# Measures `valkeybloom unique` beside other programs. Installs DuckDB and polars.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/unique.sh: $*" >&2; exit 1; }

[ $# = 1 ] || fail "usage: tools/unique.sh program"
venv=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom/python-unique
tools/environment.sh "$venv" "$(command -v python3)" duckdb polars
folder=$(mktemp -d "${TMPDIR:-/tmp}/unique.XXXXXX")
trap 'rm -rf "$folder"' EXIT
"$venv/bin/python" benches/unique.py "$1" "$folder"
