#!/bin/sh
# Makes the packages of a folder a repository for apt and one for dnf: writes Packages, Packages.gz and Release beside the
# .deb files, and repodata/ beside the .rpm files. $SOURCE_DATE_EPOCH is the time of all of them, so two runs with the same
# programs give the same bytes. docs/releasing.md has the commands that sign them.
#
# tools/repositories.sh folder
set -eu
umask 022
tools=$(cd "$(dirname "$0")" && pwd)
fail() { echo "tools/repositories.sh: $*" >&2; exit 1; }

[ $# = 1 ] || fail "usage: tools/repositories.sh folder"
[ -n "${SOURCE_DATE_EPOCH-}" ] || fail "set SOURCE_DATE_EPOCH to the time of the release"
command -v apt-ftparchive >/dev/null || "$tools/packages.sh" apt-utils
command -v createrepo_c >/dev/null || "$tools/packages.sh" createrepo-c
cd "$1"

rm -rf Packages Packages.gz Release InRelease Release.gpg repodata
date=$(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S UTC')
archive() { apt-ftparchive -o APT::FTPArchive::MD5=false -o APT::FTPArchive::SHA1=false "$@"; }
archive packages . >Packages
gzip -9nk Packages
archive -o APT::FTPArchive::Release::Origin=valkeybloom -o APT::FTPArchive::Release::Label=valkeybloom \
    -o APT::FTPArchive::Release::Architectures="amd64 arm64" -o APT::FTPArchive::Release::Date="$date" release . >Release.new
mv Release.new Release

# The metadata has the times of the files.
touch -c -d "@$SOURCE_DATE_EPOCH" -- *.rpm
# Only gzip is read by all releases, and newer versions of createrepo_c prefer zstd.
createrepo_c --quiet --no-database --simple-md-filenames --general-compress-type=gz --workers=1 \
    --revision="$SOURCE_DATE_EPOCH" --set-timestamp-to-revision .
