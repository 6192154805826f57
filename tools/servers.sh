#!/bin/sh
# Installs the servers that the tests run on, and programs that check files, into one folder, and prints that folder:
#   valkey-9.1/valkey-server            built with jemalloc from Debian's source package (sid)
#   valkey-8.0/usr/bin/valkey-server    Debian's binary (bookworm-backports), unpacked
#   redis-7.0/usr/bin/redis-server      Debian's binary (bookworm), unpacked
#   trixie/valkey-server                Valkey 8.1 and
#   trixie/redis-server                 Redis 8.0: Debian's binaries (trixie), with the libraries that they need
#   trixie/docker-compose               checks Compose files: likewise
#   kubernetes/bin/kubernetes-validate  checks objects of Kubernetes: PyPI's package, with the schemas of its versions
#   prometheus/usr/bin/promtool         checks metrics and alert rules: Debian's binary (bookworm), unpacked
# and, with the argument `address`,
#   valkey-9.1-address/valkey-server    the first server, but built with AddressSanitizer and libc's malloc
# and, with the argument `musl`,
#   valkey-9.1-musl/valkey-server       the first server, but built with musl and its malloc
#   bullseye/valkey-server              the first server, but built for glibc 2.17, with the libraries of Debian 11, whose
#                                       glibc 2.31 is the oldest that a mirror has
# Existing servers are left alone. A server is made in a temporary folder and then moved, so that an interrupted run
# leaves nothing that looks finished.
set -eu
tools=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${SERVERS_DIR:=$HOME/.cache/valkeybloom-servers}"
servers=$(cd "$SERVERS_DIR" && pwd)
log=$servers/servers.log
tmp=

note() { echo "tools/servers.sh: $*" >&2; }
fail() { note "$*"; exit 1; }

# Runs apt with its own lists, cache and sources, so that the machine's stay untouched and root is not needed. Accepts a
# mirror that is some days behind.
private_apt() {
    apt-get -q -o Dir::State="$tmp/state" -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Cache="$tmp/cache" -o Dir::Etc::SourceList="$tmp/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none \
        -o Acquire::Check-Valid-Until=false \
        "$@" >>"$log" 2>&1
}

apt_says() { grep '^E:' "$log" | tail -n 1; }

open_folder() {
    [ -z "$tmp" ] || return 0
    : >"$log"
    # Removes what killed runs have left, but no younger folder, which may be in use.
    find "$servers" -maxdepth 1 -name 'tmp.*' -mtime +0 -exec rm -rf {} +
    tmp=$(mktemp -d "$servers/tmp.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    trap 'exit 1' HUP INT TERM
}

open_sources() {
    open_folder
    [ ! -e "$tmp/sources.list" ] || return 0
    mirror=$("$tools/mirror.sh")
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -r "$keys" ] || "$tools/packages.sh" debian-archive-keyring
    mkdir -p "$tmp/state/lists/partial" "$tmp/cache/archives/partial"
    {
        echo "deb-src [signed-by=$keys] $mirror sid main"
        echo "deb [signed-by=$keys] $mirror bookworm-backports main"
        echo "deb [signed-by=$keys] $mirror bookworm main"
    } >"$tmp/sources.list"
    private_apt update || fail "cannot read $mirror: $(apt_says)"
}

# Installs the shared libraries that unpacked servers need and this machine lacks. Debian's package of libfoo.so.1 is
# libfoo1; libcrypto is in libssl's.
bring_libraries() { # servers…
    libraries=$(for server; do ldd "$server" 2>/dev/null | awk '/not found/ { print $1 }'; done |
        sed 's/libcrypto/libssl/; s/\.so\.//' | sort -u)
    # shellcheck disable=SC2086  # a list of packages
    [ -z "$libraries" ] || "$tools/packages.sh" $libraries
    for server; do "$server" --version >/dev/null 2>&1 || fail "$server does not run on this machine"; done
}

# Moves the finished server in, unless another run was quicker.
move_in() { # folder, server within it
    [ -x "$tmp/$1/$2" ] || fail "$1 lacks its $2: see $log"
    bring_libraries "$tmp/$1/$2"
    number=$(echo "$1" | sed -n 's/^[a-z]*-\([0-9.]*\).*/\1/p')
    [ -z "$number" ] || "$tmp/$1/$2" --version | grep -q " v=$number\." ||
        fail "the tests need $1, but the mirror has $("$tmp/$1/$2" --version)"
    [ -x "$servers/$1/$2" ] || { rm -rf "${servers:?}/$1" && mv "$tmp/$1" "$servers/$1"; }
}

build_from_source() { # folder, source package, options of make…
    folder=$1 package=$2
    shift 2
    [ -x "$servers/$folder/valkey-server" ] && return
    missing=
    command -v make >/dev/null || missing="$missing make"
    command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
    # shellcheck disable=SC2086  # a list of packages
    [ -z "$missing" ] || "$tools/packages.sh" $missing
    open_sources
    note "building $folder, for a minute or more (log: $log)"
    mkdir "$tmp/build" "$tmp/$folder"
    (cd "$tmp" && private_apt source --download-only "$package") || fail "no source package $package: $(apt_says)"
    tar -xf "$tmp/${package}_"*.orig.tar.[gx]z -C "$tmp/build" --strip-components=1
    make -C "$tmp/build" -j"$(nproc)" BUILD_TLS=no "$@" >>"$log" 2>&1 || fail "$folder does not build: see $log"
    for program in server cli benchmark; do cp "$tmp/build/src/valkey-$program" "$tmp/$folder/"; done
    rm -r "$tmp/build"
    move_in "$folder" valkey-server
}

unpack() { # folder, server within it, packages…
    folder=$1 server=$2
    shift 2
    [ -x "$servers/$folder/$server" ] && return
    open_sources
    note "unpacking $folder"
    mkdir "$tmp/debs"
    (cd "$tmp/debs" && private_apt download "$@") || fail "no packages $*: $(apt_says)"
    for deb in "$tmp/debs"/*.deb; do dpkg -x "$deb" "$tmp/$folder"; done
    rm -r "$tmp/debs"
    move_in "$folder" "$server"
}

# Makes a script that runs a server with the loader and the libraries in its folder only.
run_with_libraries() { # folder, name of the script, server within the folder
    loader=$(cd "$tmp/$1" && find usr lib -name 'ld-linux*.so.*' | head -n 1)
    libc=$(cd "$tmp/$1" && find usr lib -name libc.so.6 | head -n 1)
    cat >"$tmp/$1/$2" <<END
#!/bin/sh
root=\${0%/*}
exec "\$root/$loader" --inhibit-cache --library-path "\$root/${libc%/*}" "\$root/$3" "\$@"
END
    chmod 755 "$tmp/$1/$2"
    "$tmp/$1/$2" --version >/dev/null || fail "$2 of $1 does not run on this machine"
}

# Unpacks Debian's binaries of a newer release, which need a newer libc than this machine may have.
unpack_with_libraries() { # suite, programs…
    suite=$1
    shift
    for server; do [ -x "$servers/$suite/$server" ] || missing=yes; done
    [ -n "${missing-}" ] || return 0
    open_folder
    note "unpacking $* of $suite"
    "$tools/unpack.sh" "$tmp/$suite" "$suite" "$(dpkg --print-architecture)" "$@"
    for server; do run_with_libraries "$suite" "$server" "usr/bin/$server"; done
    move_in "$suite" "$1"
}

# Builds a server for glibc 2.17, and runs it with the libraries of Debian 11.
build_for_oldest() {
    [ ! -x "$servers/bullseye/valkey-server" ] || return 0
    zig=$("$tools/zig.sh")
    build_from_source valkey-9.1-oldest valkey MALLOC=libc DEBUG= OPTIMIZATION=-O2 \
        CC="$zig/python3 -m ziglang cc -target $(uname -m)-linux-gnu.2.17"
    open_folder
    "$tools/unpack.sh" "$tmp/bullseye" bullseye "$(dpkg --print-architecture)" libc6
    mkdir -p "$tmp/bullseye/usr/bin"
    cp "$servers/valkey-9.1-oldest/valkey-server" "$tmp/bullseye/usr/bin"
    run_with_libraries bullseye valkey-server usr/bin/valkey-server
    move_in bullseye valkey-server
}

# Debug information would take a sixth of the time.
build_from_source valkey-9.1 valkey MALLOC=jemalloc DEBUG=
[ "${1-}" != address ] || build_from_source valkey-9.1-address valkey MALLOC=libc SANITIZER=address
if [ "${1-}" = musl ]; then
    "$tools/need.sh" musl-gcc:musl-tools
    build_from_source valkey-9.1-musl valkey MALLOC=libc DEBUG= CC=musl-gcc
    build_for_oldest
fi
unpack valkey-8.0 usr/bin/valkey-server valkey-server valkey-tools
unpack redis-7.0 usr/bin/redis-server redis-server redis-tools
unpack prometheus usr/bin/promtool prometheus
bring_libraries "$servers/valkey-9.1/valkey-server" "$servers/valkey-8.0/usr/bin/valkey-server" \
    "$servers/redis-7.0/usr/bin/redis-server"
unpack_with_libraries trixie docker-compose valkey-server redis-server
"$tools/need.sh" python3
"$tools/environment.sh" "$servers/kubernetes" python3 kubernetes-validate
echo "$servers"
