#!/bin/sh
# Tests the images in a folder with skopeo, which chooses an architecture, and with umoci and runc, which unpack and run
# images without a daemon. Runs the server's image of this machine's architecture in containers, and that of another one
# emulated by qemu. Needs root.
#
# tools/image-test.sh folder
# tools/image-test.sh needs     prints the packages that it needs
set -eu
cd "$(dirname "$0")/.."
. tools/steps.sh
fail() { echo "tools/image-test.sh: $*" >&2; exit 1; }
needs="skopeo umoci runc"

[ "${1-}" != needs ] || { echo "$needs" && exit; }
[ $# = 1 ] || fail "usage: tools/image-test.sh folder"
[ "$(id -u)" = 0 ] || fail "only root can run the image here"
# shellcheck disable=SC2086  # a list of programs
tools/need.sh $needs
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tmp=$(mktemp -d /var/tmp/valkeybloom.XXXXXX)
# Names of containers are unique on a machine only within one of these folders.
runc() { command runc --root "$tmp/state" "$@"; }
container="" emulated=""
clean() {
    [ -z "$emulated" ] || kill -9 "$emulated" 2>/dev/null || true
    [ -z "$container" ] || runc delete --force "$container" >/dev/null 2>&1 || true
    rm -rf --one-file-system "$tmp"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

# Unpacks the image of one architecture, as an engine would choose it.
unpack() { # kind of image, Debian's name of the architecture
    skopeo --insecure-policy --override-arch "$2" copy -q \
        "oci-archive:$folder/valkeybloom-$version-$1.tar:$version" "oci:$tmp/oci:$1-$2" ||
        fail "there is no $1 for $2"
    umoci unpack --image "$tmp/oci:$1-$2" "$tmp/$1-$2" >"$tmp/log" 2>&1 || fail "umoci: $(tail -n 3 "$tmp/log")"
}

# Docker that does not keep images in containerd reads this older form.
read_as_docker() { # kind of image, name, Debian's name of the architecture
    skopeo --insecure-policy copy -q \
        "docker-archive:$folder/valkeybloom-$version-$1.tar:docker.io/library/$2:$version-$3" "dir:$tmp/docker" ||
        fail "Docker could not load the $1 for $3"
    rm -r "$tmp/docker"
}

# Tests the module's image: its file is that of the server's image, and nothing else is there but the licence.
test_module() { # Debian's name of the architecture
    unpack module-image "$1"
    [ "$(cd "$tmp/module-image-$1/rootfs" && find . -type f | sort | tr '\n' ' ')" = "./LICENSE ./valkeybloom.so " ] ||
        fail "the module's image holds $(find "$tmp/module-image-$1/rootfs")"
    cmp "$tmp/module-image-$1/rootfs/valkeybloom.so" "$tmp/image-$1/rootfs/usr/lib/valkey/modules/valkeybloom.so"
    ran "valkeybloom-$version-module-image.tar" "$1: its module in the server's image, which has the same"
    read_as_docker image valkeybloom "$1"
    read_as_docker module-image valkeybloom-module "$1"
}

# Waits until the running server answers.
await() { # command that pings...
    tries=0
    until [ "$("$@" 2>/dev/null)" = PONG ]; do
        { kill -0 "$running" 2>/dev/null && [ $((tries += 1)) -lt 300 ]; } ||
            fail "the server does not answer: $(tail -n 5 "$tmp/log")"
        sleep 0.1
    done
}

# Runs the server of an image for another architecture. Without a container: qemu is the program that runs. The server
# can't test qemu for a bug of ARM's kernels.
test_emulated() { # Debian's name of the architecture, the kernel's
    unpack image "$1"
    tools/need.sh "qemu-$2-static:qemu-user-static"
    root=$tmp/image-$1/rootfs
    cp "$(command -v "qemu-$2-static")" "$root/qemu"
    # Commands of a variable are not in a shell of their own, so $! is the server.
    emulate="env -i $(command -v chroot) $root /qemu"
    $emulate /usr/bin/valkey-server /etc/valkey/valkey.conf --port 0 --unixsocket /data/socket \
        --save "" --ignore-warnings ARM64-COW-BUG >"$tmp/log" 2>&1 &
    running=$! emulated=$!
    ask() { $emulate /usr/bin/valkey-cli -e -s /data/socket "$@"; }
    await ask PING
    [ "$(ask BF.ADD seen item)" = 1 ] || fail "the emulated server has no module"
    $emulate /usr/bin/valkeybloom size 1000 0.01 >/dev/null || fail "the emulated program does not run"
    ask SHUTDOWN NOSAVE || true
    wait "$running" || fail "the emulated server ended badly: $(tail -n 5 "$tmp/log")"
    emulated=""
}

mkdir "$tmp/data" "$tmp/conf.d"
folder=$1
own=$(dpkg --print-architecture)
unpack image "$own"
mv "$tmp/image-$own" "$tmp/bundle"
ln -s bundle "$tmp/image-$own"
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
await run valkey-cli -e ping
pid=$(runc state first | sed -n 's/.*"pid": \([0-9]*\),/\1/p')
[ "$(awk '$1 == "Uid:" || $1 == "Gid:" { print $2, $3 }' "/proc/$pid/status" | sort -u)" = "999 999" ] ||
    fail "the server runs as $(grep '^Uid' "/proc/$pid/status")"
expect 1 valkey-cli BF.ADD seen item
expect OK valkey-cli CF.RESERVE links 1000
run valkeybloom list redis://127.0.0.1:6379 | grep -q seen || fail "the program does not list the filter"
! run sh -c true 2>/dev/null || fail "the image has a shell"
run cp /usr/lib/valkey/modules/valkeybloom.so /data/copied.so || fail "cp does not run"
cmp "$tmp/data/copied.so" "$tmp/bundle/rootfs/usr/lib/valkey/modules/valkeybloom.so"
stop

echo "maxmemory 100mb" >"$tmp/conf.d/own.conf"
start second --bf.bloom-capacity 5000
await run valkey-cli -e ping
expect "1 0" valkey-cli BF.MEXISTS seen item other
expect "bf.bloom-capacity 5000" valkey-cli CONFIG GET bf.bloom-capacity
expect "maxmemory 104857600" valkey-cli CONFIG GET maxmemory
stop

start secret --requirepass secret
await runc exec --env REDISCLI_AUTH=secret secret valkey-cli -e ping
! run valkey-cli -e ping >/dev/null 2>&1 || fail "the health check passes without the password"
stop

start wrong --no-such-option 1
! wait "$running" || fail "the server starts with a wrong option"
grep -q "'no-such-option" "$tmp/log" || fail "the wrong option is not named: $(cat "$tmp/log")"
container=""
ran "valkeybloom-$version-image.tar" "$own: in containers of runc"
test_module "$own"

for kernel in x86_64:amd64 aarch64:arm64; do
    [ -e "$folder/valkeybloom-$version-${kernel%:*}-image.cdx.json" ] && [ "${kernel#*:}" != "$own" ] || continue
    test_emulated "${kernel#*:}" "${kernel%:*}"
    ran "valkeybloom-$version-image.tar" "${kernel#*:}: its server and program, emulated by qemu"
    test_module "${kernel#*:}"
done
echo "the images work"
