#!/bin/sh
# Tests the image of this machine's architecture in a folder with umoci and runc, which unpack and run images without a
# daemon. Needs root.
#
# tools/image-test.sh folder
# tools/image-test.sh needs     prints the packages that it needs
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/image-test.sh: $*" >&2; exit 1; }
needs="umoci runc"

[ "${1-}" != needs ] || { echo "$needs" && exit; }
[ $# = 1 ] || fail "usage: tools/image-test.sh folder"
[ "$(id -u)" = 0 ] || fail "only root can run the image here"
for program in $needs; do command -v "$program" >/dev/null || tools/packages.sh "$program"; done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tmp=$(mktemp -d /var/tmp/valkeybloom.XXXXXX)
# Names of containers are unique on a machine only within one of these folders.
runc() { command runc --root "$tmp/state" "$@"; }
container=""
clean() {
    [ -z "$container" ] || runc delete --force "$container" >/dev/null 2>&1 || true
    rm -rf --one-file-system "$tmp"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

mkdir "$tmp/oci" "$tmp/data" "$tmp/conf.d"
tar -C "$tmp/oci" -xf "$1/valkeybloom-$version-$(uname -m)-image.tar"
umoci unpack --image "$tmp/oci:$version" "$tmp/bundle" >"$tmp/log" 2>&1 || fail "umoci: $(tail -n 3 "$tmp/log")"
# A new volume has the owner of the image's folder.
chown --reference="$tmp/bundle/rootfs/data" "$tmp/data"
mv "$tmp/bundle/config.json" "$tmp/made.json"

# Writes the container's configuration: what the image says, with these options, the volume, and a root that is read-only.
configure() { # options...
    python3 - "$tmp" "$@" <<'PYTHON'
import json, pathlib, sys

folder, *options = sys.argv[1:]
folder = pathlib.Path(folder)
made = json.loads((folder / "made.json").read_text())
made["root"]["readonly"] = True
made["process"]["terminal"] = False
made["process"]["args"] += options
places = {"/data": folder / "data", "/etc/valkey/conf.d": folder / "conf.d"}
made["mounts"] = [mount for mount in made["mounts"] if mount["destination"] not in places]
made["mounts"] += [
    {"destination": to, "type": "bind", "source": str(source), "options": ["rbind"]} for to, source in places.items()
]
(folder / "bundle" / "config.json").write_text(json.dumps(made))
PYTHON
}

start() { # name, options...
    container=$1
    shift
    configure "$@"
    runc run --bundle "$tmp/bundle" "$container" >"$tmp/log" 2>&1 &
    running=$!
}

run() { runc exec "$container" "$@"; }

# Waits until the health check passes.
await() { # option of runc exec...
    tries=0
    until [ "$(runc exec "$@" "$container" valkey-cli -e ping 2>/dev/null)" = PONG ]; do
        { kill -0 "$running" 2>/dev/null && [ $((tries += 1)) -lt 300 ]; } ||
            fail "the server does not answer: $(tail -n 5 "$tmp/log")"
        sleep 0.1
    done
}

stop() {
    runc kill "$container" TERM
    wait "$running" || fail "the server ended with status $?: $(tail -n 5 "$tmp/log")"
    container=""
}

expect() { # what, command...
    expected=$1
    shift
    answer=$(run "$@" | tr '\n' ' ')
    [ "$answer" = "$expected " ] || fail "$*: $answer, not $expected"
}

start first
await
pid=$(runc state first | sed -n 's/.*"pid": \([0-9]*\),/\1/p')
[ "$(awk '$1 == "Uid:" || $1 == "Gid:" { print $2, $3 }' "/proc/$pid/status" | sort -u)" = "999 999" ] ||
    fail "the server runs as $(grep '^Uid' "/proc/$pid/status")"
expect 1 valkey-cli BF.ADD seen item
expect OK valkey-cli CF.RESERVE links 1000
run valkeybloom list redis://127.0.0.1:6379 | grep -q seen || fail "the program does not list the filter"
! run sh -c true 2>/dev/null || fail "the image has a shell"
stop

echo "maxmemory 100mb" >"$tmp/conf.d/own.conf"
start second --bf.bloom-capacity 5000
await
expect "1 0" valkey-cli BF.MEXISTS seen item other
expect "bf.bloom-capacity 5000" valkey-cli CONFIG GET bf.bloom-capacity
expect "maxmemory 104857600" valkey-cli CONFIG GET maxmemory
stop

start secret --requirepass secret
await --env REDISCLI_AUTH=secret
! run valkey-cli -e ping >/dev/null 2>&1 || fail "the health check passes without the password"
stop

start wrong --no-such-option 1
! wait "$running" || fail "the server starts with a wrong option"
grep -q "'no-such-option" "$tmp/log" || fail "the wrong option is not named: $(cat "$tmp/log")"
container=""
echo "the image works"
