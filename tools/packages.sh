#!/bin/sh
# Installs the Debian packages named as arguments. Without permission, prints in one line what is missing.
set -eu

if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "missing: $*. Install with: sudo apt-get install $*" >&2
    exit 1
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 \
        install -y --no-install-recommends "$@" >>"$log" 2>&1
}
echo "installing $*" >&2
# A fresh machine has no package lists yet, and an old one has stale lists: an update fixes both.
if ! install "$@"; then
    apt-get update >>"$log" 2>&1 || true
    install "$@" || {
        echo "apt-get could not install $*: $(grep '^E:' "$log" | tail -n 1)" >&2
        exit 1
    }
fi
