#!/bin/sh
# Unpacks Debian packages and their dependencies into a new folder; packages after -- come without theirs. The programs
# run on any Linux of that architecture, with the libraries in the folder. Its var/lib/dpkg/status.d describes the
# packages, where scanners of images without dpkg look for them. apt uses its own lists, cache and sources, so that the
# machine's stay untouched and root is not needed. A mirror may be some days behind. Releases get their security updates
# if the machine does.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
fail() { echo "tools/unpack.sh: $*" >&2; exit 1; }

[ $# -ge 4 ] || fail "usage: tools/unpack.sh folder suite architecture package... [-- package...]"
folder=$1 suite=$2 architecture=$3
shift 3
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keys" ] || "$tools/packages.sh" debian-archive-keyring
mirror=$("$tools/mirror.sh")
security=$("$tools/mirror.sh" security)
mkdir "$folder"
tmp=$(cd "$folder" && pwd)/apt
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$tmp/lists/partial" "$tmp/archives/partial"
: >"$tmp/status"
options="[arch=$architecture signed-by=$keys]"
echo "deb $options $mirror $suite main" >"$tmp/sources.list"
[ -z "$security" ] || [ "$suite" = sid ] ||
    echo "deb $options $security $suite-security main" >>"$tmp/sources.list"
apt() {
    apt-get -q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" \
        -o APT::Sandbox::User=root -o Dir::State="$tmp" -o Dir::State::status="$tmp/status" -o Dir::Cache="$tmp" \
        -o Dir::Etc::SourceList="$tmp/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false "$@" >>"$tmp/log" 2>&1 ||
        { tail -n 5 "$tmp/log" >&2 && fail "apt-get $*"; }
}
apt update
whole=
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    whole="$whole $1"
    shift
done
# shellcheck disable=SC2086  # a list of packages
[ -z "$whole" ] || apt install -y --no-install-recommends --download-only $whole
[ $# = 0 ] || (shift && cd "$tmp/archives" && apt download "$@")
status=$folder/var/lib/dpkg/status.d
# The link comes from base-files, which no package depends on, so it is made here.
mkdir -p "$folder/usr/lib" "$status"
ln -s usr/lib "$folder/lib"
for deb in "$tmp/archives"/*.deb; do
    dpkg -x "$deb" "$folder"
    package=$(dpkg-deb -f "$deb" Package)
    dpkg-deb -f "$deb" >"$status/$package"
    # A package without files has no list of them.
    dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums >"$status/$package.md5sums" 2>/dev/null || true
done
