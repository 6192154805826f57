#!/bin/sh
# Unpacks Go and the packages that tests import into a folder, once, and prints the folder of Go's programs. The file
# `unpacked` in it is written last. Go comes from Debian trixie, because bookworm's is too old for go-redis. Only forky has
# go-redis itself; most of that package's dependencies are for parts that no test imports.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)

[ $# = 1 ] || { echo "usage: tools/go.sh folder" >&2; exit 1; }
folder=$(mkdir -p "$1" && cd "$1" && pwd)
if [ ! -e "$folder/unpacked" ]; then
    echo "tools/go.sh: unpacking Go and go-redis into $folder" >&2
    rm -rf "$folder/trixie" "$folder/forky"
    architecture=$(dpkg --print-architecture)
    "$tools/unpack.sh" "$folder/trixie" trixie "$architecture" golang-go golang-github-cespare-xxhash-dev \
        golang-github-dgryski-go-rendezvous-dev golang-github-onsi-ginkgo-v2-dev golang-gomega-dev
    "$tools/unpack.sh" "$folder/forky" forky "$architecture" -- golang-github-redis-go-redis-dev
    : >"$folder/unpacked"
fi
echo "$folder/trixie/usr/bin"
