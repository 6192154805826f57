#!/bin/sh
# Prints the Debian mirror that this machine uses, in whatever format its apt sources are. Other machines must set
# DEBIAN_MIRROR. With the argument `security`, prints the mirror of Debian's security updates, or nothing if this machine
# has none and DEBIAN_SECURITY_MIRROR is not set.
set -eu
fail() { echo "tools/mirror.sh: $*" >&2; exit 1; }

# shellcheck disable=SC2016  # the field is apt's, not the shell's
mirror() { apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' "Label: $1" 2>/dev/null | head -n 1; }
if [ "${1-}" = security ]; then
    if [ -n "${DEBIAN_MIRROR-}${DEBIAN_SECURITY_MIRROR-}" ]; then
        echo "${DEBIAN_SECURITY_MIRROR-}"
    else
        mirror Debian-Security
    fi
    exit
fi
[ -z "${DEBIAN_MIRROR-}" ] || { echo "$DEBIAN_MIRROR" && exit; }
command -v apt-get >/dev/null || fail "no apt-get here: servers come from Debian's packages"
found=$(mirror Debian)
# An image without package lists can't look up the origin of its sources.
if [ -z "$found" ] && [ "$(id -u)" = 0 ]; then
    apt-get update >/dev/null 2>&1 || true
    found=$(mirror Debian)
fi
[ -n "$found" ] || fail "no Debian mirror among this machine's apt sources: name one in DEBIAN_MIRROR" \
    "(or there are no lists yet; as root: apt-get update)"
echo "$found"
