#!/bin/sh
# Makes the packages of a folder a repository for apt and one for dnf: writes Packages, Packages.gz and Release beside the
# .deb files, and repodata/ beside the .rpm files. All times in them are that of the commit or $SOURCE_DATE_EPOCH, so two
# runs with the same programs give the same bytes. docs/releasing.md has the commands that sign them.
#
# tools/repositories.sh folder
set -eu
umask 022
cd "$(dirname "$0")/.."
fail() { echo "tools/repositories.sh: $*" >&2; exit 1; }

[ $# = 1 ] || fail "usage: tools/repositories.sh folder"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)}"
[ -n "$SOURCE_DATE_EPOCH" ] || fail "this is not a git checkout: set SOURCE_DATE_EPOCH to the time of the release"
tools/need.sh apt-ftparchive:apt-utils createrepo_c:createrepo-c
cd "$1"

rm -rf Packages Packages.gz Release InRelease Release.gpg repodata
date=$(LC_ALL=C date -u -d "@$SOURCE_DATE_EPOCH" '+%a, %d %b %Y %H:%M:%S UTC')
archive() { apt-ftparchive -o APT::FTPArchive::MD5=false -o APT::FTPArchive::SHA1=false "$@"; }
archive packages . >Packages
gzip -9nk Packages
archive -o APT::FTPArchive::Release::Origin=valkeybloom -o APT::FTPArchive::Release::Label=valkeybloom \
    -o APT::FTPArchive::Release::Architectures="amd64 arm64" -o APT::FTPArchive::Release::Date="$date" \
    release . >Release.new
mv Release.new Release

# The metadata has the times of the files.
touch -c -d "@$SOURCE_DATE_EPOCH" -- *.rpm
# Red Hat Enterprise Linux 7 and 8 can't read zstd, the default of newer versions of createrepo_c.
createrepo_c --quiet --no-database --simple-md-filenames --general-compress-type=gz --workers=1 \
    --revision="$SOURCE_DATE_EPOCH" --set-timestamp-to-revision .
