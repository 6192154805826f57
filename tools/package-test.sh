#!/bin/sh
# Tests the .deb of this machine's architecture the way a user of Debian meets it: in a clean root of each release named
# below, with Debian's own valkey-server. Needs root, for chroot. A root with the server is made once and kept in a
# tarball; each test unpacks its own.
set -eu
cd "$(dirname "$0")/.."
note() { echo "== $*"; }
fail() { echo "tools/package-test.sh: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || fail "only root can make and enter roots of Debian"
[ -n "$(command -v debootstrap)" ] || tools/packages.sh debootstrap
command -v pkg-config >/dev/null || tools/packages.sh pkgconf
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || tools/packages.sh debian-archive-keyring
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
packages=$target/package
architecture=$(dpkg --print-architecture)
deb=$(find "$packages" -name "valkeybloom_*_$architecture.deb")
[ "$(echo "$deb" | wc -w)" = 1 ] || fail "there should be one .deb for $architecture in $packages"
roots=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom/roots
mkdir -p "$roots"
# The server's user needs access to its folder.
tmp=$(mktemp -d /var/tmp/valkeybloom.XXXXXX)
chmod 755 "$tmp"
root="" server=""
clean() {
    # SIGTERM is not enough: a server saves first, and keeps running if it can't.
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    rm -rf --one-file-system "$tmp"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

# Packages of sid need /proc. It is mounted in the namespace of a single command, so nothing needs unmounting.
enter_root() {
    # shellcheck disable=SC2016  # for the shell that mounts
    LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        exec unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}
in_root() { (enter_root "$@"); }

# Makes a root in a tarball. Its policy-rc.d keeps packages from starting their servers on installation.
make_root() { # tarball, suite, further suite of packages or nothing
    note "making a root of $2${3:+ with $3}"
    root=$tmp/base
    mirror=$(tools/mirror.sh)
    debootstrap --variant=minbase "$2" "$root" "$mirror" >"$tmp/log" 2>&1 ||
        { tail -n 5 "$tmp/log" "$root/debootstrap/debootstrap.log" >&2; fail "no root of $2"; }
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod 755 "$root/usr/sbin/policy-rc.d"
    [ -z "$3" ] || echo "deb $mirror $3 main" >"$root/etc/apt/sources.list.d/more.list"
    # The lists of sid on a mirror that lags behind may have expired. Their signature is still checked.
    { in_root apt-get -o Acquire::Check-Valid-Until=false update &&
        in_root apt-get install -y --no-install-recommends ${3:+-t "$3"} valkey-server valkey-tools &&
        in_root apt-get clean; } >>"$tmp/log" 2>&1 || { grep -B9 "^E:\|rror" "$tmp/log" >&2; fail "no valkey-server in $2"; }
    tar -C "$root" -cf "$1.new" .
    mv "$1.new" "$1"
    rm -rf --one-file-system "$root"
}

# Starts the server the way its unit would, but at a socket, because ports belong to the machine. Every program on the
# way calls exec, so $! is the server's own process id.
start() {
    enter_root setpriv --reuid=valkey --regid=valkey --init-groups valkey-server /etc/valkey/valkey.conf \
        --port 0 --unixsocket /var/lib/valkey/socket --daemonize no --supervised no --logfile "" \
        --pidfile "" >>"$root/log" 2>&1 &
    server=$!
    tries=0
    until [ "$(ask PING 2>/dev/null)" = PONG ]; do
        if ! kill -0 "$server" 2>/dev/null; then
            server=""
            return 1
        fi
        [ $((tries += 1)) -lt 300 ] || fail "the server does not answer: $(tail -n 20 "$root/log")"
        sleep 0.1
    done
}

stop() {
    ask SHUTDOWN SAVE || true
    wait "$server" || fail "the server ended badly: $(tail -n 20 "$root/log")"
    server=""
}

ask() { in_root valkey-cli -s /var/lib/valkey/socket "$@"; }

expect() { # what, words of a command
    expected=$1
    shift
    answer=$(ask "$@" | tr '\n' ' ')
    [ "$answer" = "$expected " ] || fail "$*: $answer, not $expected"
}

# A constant of four MiB once made up most of the module's file.
small_enough() { # file, most bytes
    bytes=$(wc -c <"$1")
    [ "$bytes" -le "$2" ] || fail "$1 has $bytes bytes, more than $2"
}

configuration() { in_root sh -c 'find /etc -type f ! -name ld.so.cache -exec sha256sum {} + | sort'; }

check_data() {
    expect "1 1 0" BF.MEXISTS seen a b c
    expect "1 0" BF.MEXISTS links x y
    expect 2 BF.CARD seen
}

test_in() { # tarball
    root=$tmp/root
    mkdir "$root"
    tar -C "$root" -xf "$1"
    in_root valkey-server --version
    configuration >"$tmp/before"
    cp "$deb" "$root/package.deb"

    in_root dpkg -i /package.deb >"$tmp/installed" 2>&1 || fail "dpkg: $(cat "$tmp/installed")"
    configuration | cmp - "$tmp/before" || fail "the package changed something in /etc"
    small_enough "$root/usr/lib/valkey/modules/valkeybloom.so" 2000000
    small_enough "$root/usr/bin/valkeybloom" 6500000
    in_root valkeybloom size 1000 0.01 >/dev/null || fail "the program does not run"
    start || fail "the server does not start beside the package: $(tail -n 20 "$root/log")"
    ! ask MODULE LIST | grep -qx bf || fail "the module is loaded without a loadmodule line"
    stop
    # The package prints the line to add.
    line=$(grep '^loadmodule ' "$tmp/installed") || fail "the package does not say what to add"
    grep -qxF "$line" "$root/usr/share/doc/valkeybloom/examples/valkeybloom.conf" || fail "the example has another line"
    echo "$line" >>"$root/etc/valkey/valkey.conf"

    start || fail "the server does not start with the module: $(tail -n 20 "$root/log")"
    ask MODULE LIST | grep -qx bf || fail "the module is not loaded"
    expect OK BF.RESERVE seen 0.001 1000
    expect "1 1" BF.MADD seen a b
    expect OK BF.RESERVE links 0.01 1000 COUNTING
    expect "1 1" BF.MADD links x y
    expect 1 BF.DEL links y
    check_data
    stop
    start || fail "the server does not start again: $(tail -n 20 "$root/log")"
    check_data
    stop

    data=$(in_root sha256sum /var/lib/valkey/dump.rdb)
    configuration >"$tmp/before"
    in_root dpkg -r valkeybloom >"$tmp/removed" 2>&1 || fail "dpkg: $(cat "$tmp/removed")"
    grep -qF "$line" "$tmp/removed" || fail "the package does not say what to remove"
    [ ! -e "$root/usr/lib/valkey/modules" ] || fail "the package left its module"
    [ "$data" = "$(in_root sha256sum /var/lib/valkey/dump.rdb)" ] || fail "removal touched the data"
    configuration | cmp - "$tmp/before" || fail "removal changed something in /etc"
    ! start || fail "the server starts with data that it can't load"
    in_root dpkg -i /package.deb >/dev/null 2>&1
    start || fail "the server does not start after another installation: $(tail -n 20 "$root/log")"
    check_data
    stop
    in_root dpkg -P valkeybloom >/dev/null 2>&1
    ! in_root dpkg -s valkeybloom >/dev/null 2>&1 || fail "the package is still there"
    rm -rf --one-file-system "$root"
}

note "checksums"
(cd "$packages" && sha256sum -c SHA256SUMS)
name=$(cd "$packages" && ls valkeybloom-*-"$(uname -m)".tar.gz)
dpkg-deb -x "$deb" "$tmp/deb"
tar -C "$tmp" -xzf "$packages/$name"
cmp "$tmp/deb/usr/lib/valkey/modules/valkeybloom.so" "$tmp/${name%.tar.gz}/valkeybloom.so"
(cd "$tmp/deb" && dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums | md5sum -c --quiet)

note "the C library"
dev=$(find "$packages" -name "libvalkeybloom-dev_*_$architecture.deb")
dpkg-deb -x "$dev" "$tmp/dev"
diff -r "$tmp/dev/usr/lib" "$tmp/${name%.tar.gz}/lib"
small_enough "$tmp/dev/usr/lib/libvalkeybloom_sketches.so" 2000000
export PKG_CONFIG_PATH="$tmp/dev/usr/lib/pkgconfig"
# shellcheck disable=SC2046  # a list of options
cc crates/c/tests/basics.c -o "$tmp/basics" $(pkg-config --cflags --libs valkeybloom-sketches) -lpthread -lm
LD_LIBRARY_PATH="$tmp/dev/usr/lib" "$tmp/basics"

for suite in bookworm:bookworm-backports trixie: sid:; do
    tarball=$roots/${suite%:*}.tar
    # sid moves on.
    [ -n "$(find "$tarball" -mtime -7 2>/dev/null)" ] || make_root "$tarball" "${suite%:*}" "${suite#*:}"
    note "${suite%:*}"
    test_in "$tarball"
done
echo "the package works on all of them"
