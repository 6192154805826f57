#!/bin/sh
# Tests the packages of this machine's architecture the way users meet them. Apt installs the .deb from a signed repository
# in a clean root of each release of Debian named below, and Debian's own valkey-server loads the module. Dnf installs the
# .rpm files, also from a signed repository, in a root of Debian. Needs root, for chroot. A root with the server is made
# once and kept in a tarball; each test unpacks its own. The packages are in target/package/, or in the folder $PACKAGES.
set -eu
cd "$(dirname "$0")/.."
. tools/steps.sh
note() { echo "== $*"; }
fail() { echo "tools/package-test.sh: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || fail "only root can make and enter roots of Debian"
tools/need.sh debootstrap pkg-config:pkgconf dnf rpm rpmlint gpg apt-ftparchive:apt-utils createrepo_c:createrepo-c
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || tools/packages.sh debian-archive-keyring
export LC_ALL=C
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
packages=${PACKAGES:-$target/package}
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
    DEBIAN_FRONTEND=noninteractive \
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

test_library() { # its folder
    # shellcheck disable=SC2046  # a list of options
    cc crates/c/tests/basics.c -o "$tmp/basics" \
        $(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --cflags --libs valkeybloom-sketches) -lpthread -lm
    LD_LIBRARY_PATH=$1 "$tmp/basics"
}

configuration() { in_root sh -c 'find /etc -type f ! -name ld.so.cache -exec sha256sum {} + | sort'; }

check_data() {
    expect "1 1 0" BF.MEXISTS seen a b c
    expect "1 0" BF.MEXISTS links x y
    expect 2 BF.CARD seen
}

use_module() {
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
}

# Makes a repository of all packages, and signs it with the commands that docs/releasing.md gives.
make_repository() {
    repository=$tmp/repository
    mkdir "$repository" "$tmp/copy"
    mkdir -m 700 "$tmp/keys"
    cp "$packages"/*.deb "$packages"/*.rpm "$repository"
    tools/repositories.sh "$repository"
    # The metadata depends neither on the order of the files nor on their times.
    find "$repository" -maxdepth 1 -type f | sort -r | while read -r file; do cp "$file" "$tmp/copy"; done
    tools/repositories.sh "$tmp/copy"
    diff -r "$repository" "$tmp/copy" || fail "the metadata of a repository differs the second time"

    export GNUPGHOME="$tmp/keys" KEY="a key of the test"
    gpg --batch --quiet --passphrase '' --quick-generate-key "$KEY" default default never 2>"$tmp/log" ||
        fail "gpg: $(cat "$tmp/log")"
    sed -n '/^gpg /p' docs/releasing.md >"$tmp/sign"
    (cd "$repository" && sh -eu "$tmp/sign")
    gpgconf --kill gpg-agent
}

# Runs apt-get in the root with only the packages of the repository.
apt() {
    in_root apt-get -q -o Dir::Etc::SourceList=/etc/apt/sources.list.d/valkeybloom.list -o Dir::Etc::SourceParts=- \
        -o APT::Get::List-Cleanup=0 "$@"
}

test_in() { # tarball
    root=$tmp/root
    mkdir "$root"
    tar -C "$root" -xf "$1"
    in_root valkey-server --version
    cp -r "$repository" "$root/repository"
    mkdir -p "$root/etc/apt/keyrings"
    cp "$repository/valkeybloom.asc" "$root/etc/apt/keyrings"
    sed -n 's|ADDRESS|file:///repository|; /^deb \[/p' docs/releasing.md >"$root/etc/apt/sources.list.d/valkeybloom.list"
    configuration >"$tmp/before"
    cp "$deb" "$root/package.deb"

    apt update >"$tmp/log" 2>&1 || fail "apt-get update: $(cat "$tmp/log")"
    apt install -y valkeybloom >"$tmp/installed" 2>&1 || fail "apt-get install: $(cat "$tmp/installed")"
    configuration | cmp - "$tmp/before" || fail "the package changed something in /etc"
    small_enough "$root/usr/lib/valkey/modules/valkeybloom.so" 2000000
    small_enough "$root/usr/bin/valkeybloom" 7000000
    small_enough "$root/usr/bin/valkeybloom-http" 5000000
    in_root valkeybloom size 1000 0.01 >/dev/null || fail "the program does not run"
    in_root valkeybloom-http --version >/dev/null || fail "the HTTP service does not run"
    [ ! -e "$root/etc/systemd/system/multi-user.target.wants/valkeybloom-http.service" ] ||
        fail "the package enables the HTTP service"
    start || fail "the server does not start beside the package: $(tail -n 20 "$root/log")"
    ! ask MODULE LIST | grep -qx bf || fail "the module is loaded without a loadmodule line"
    stop
    # The package prints the line to add.
    line=$(grep '^loadmodule ' "$tmp/installed") || fail "the package does not say what to add"
    grep -qxF "$line" "$root/usr/share/doc/valkeybloom/examples/valkeybloom.conf" || fail "the example has another line"
    echo "$line" >>"$root/etc/valkey/valkey.conf"

    use_module
    # What an operator who uses the HTTP service has done; a systemctl that writes down what is called stands in for a
    # running systemd. It is in /usr/bin, because apt looks in no local folder.
    wanted=$root/etc/systemd/system/multi-user.target.wants
    mkdir -p "$wanted" "$root/run/systemd/system"
    configuration >"$tmp/before"
    ln -s /usr/lib/systemd/system/valkeybloom-http.service "$wanted"
    printf '#!/bin/sh\necho "$*" >>/called\n[ "$2" != disable ] || rm "/etc/systemd/system/multi-user.target.wants/$3"\n' \
        >"$root/usr/bin/systemctl"
    chmod 755 "$root/usr/bin/systemctl"
    in_root dpkg -i /package.deb >"$tmp/upgraded" 2>&1 || fail "dpkg -i: $(cat "$tmp/upgraded")"
    grep -qx "try-restart valkeybloom-http.service" "$root/called" || fail "an upgrade leaves the old HTTP service running"
    : >"$root/called"
    apt remove -y valkeybloom >"$tmp/removed" 2>&1 || fail "apt-get remove: $(cat "$tmp/removed")"
    grep -qF "$line" "$tmp/removed" || fail "the package does not say what to remove"
    for call in "--quiet disable" stop; do
        grep -qx -e "$call valkeybloom-http.service" "$root/called" || fail "removal leaves the HTTP service running"
    done
    [ ! -L "$wanted/valkeybloom-http.service" ] || fail "removal leaves the HTTP service enabled"
    rm -r "$root/usr/bin/systemctl" "$root/run/systemd/system"
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
    ran "$deb" "installed by apt, in the server of Debian $(basename "$1" .tar)"
    rm -rf --one-file-system "$root"
}

# Runs dnf with only the packages of the repository, and with the lines for users that docs/releasing.md has.
dnf() {
    command dnf -q -y --config="$tmp/dnf.conf" --setopt=reposdir=/dev/null --installroot="$root" --releasever=1 "$@" \
        >"$tmp/log" 2>&1
}

# Lists the files of the root, apart from the records of dnf, rpm and the server.
listing() {
    (cd "$root" && find . \( -name '*dnf*' -o -name hawkey.log -o -name .rpmdb -o -path ./var/lib/rpm \
        -o -path ./var/lib/valkey \) -prune -o -print | sort)
}

# Installs a package that provides what the root's own glibc does up to 2.17, and that has the folder which a distribution's
# package `filesystem` would have.
stand_in_for_glibc() {
    provided=$(find "$root/usr/lib" -name 'lib[cm].so.6' -o -name libdl.so.2 -o -name libpthread.so.0 -o -name 'ld-linux*' |
        "$(rpm --eval '%_rpmconfigdir')/elfdeps" --provides |
        awk -F 'GLIBC_2[.]' '!/GLIBC_/ || ($2 != "" && $2 + 0 <= 17)' | sort -u)
    echo "$provided" | grep -qF 'libc.so.6(GLIBC_2.17)' || fail "the root has no glibc"
    cat >"$tmp/glibc.spec" <<END
Name: glibc
Version: 2.17
Release: 1
Summary: A stub of glibc 2.17
License: BSD-3-Clause
$(echo "$provided" | sed 's/^/Provides: /')
%description
%install
mkdir -p %{buildroot}/usr/share/licenses
%files
%dir /usr/share/licenses
END
    { rpmbuild -bb --define "_topdir $tmp/rpmbuild" "$tmp/glibc.spec" &&
        rpm --root "$root" -i "$tmp/rpmbuild"/RPMS/*/glibc-*.rpm; } >"$tmp/log" 2>&1 || fail "rpm: $(cat "$tmp/log")"
}

# Compares the installed files with those of the .deb, which are in the folders of Debian.
compare_with_deb() {
    # Debian's policy requires a changelog of its own form, and its checker has a file.
    (cd "$tmp/deb" && find usr ! -type d ! -name changelog.gz ! -path '*/lintian/*') >"$tmp/files"
    (cd "$tmp/dev" && find usr ! -type d ! -name changelog.gz) >>"$tmp/files"
    while read -r file; do
        installed=$(echo "$file" | sed 's|^usr/lib/\([lpv]\)|usr/lib64/\1|; s|/vendor-completions/|/site-functions/|
            s|/libvalkeybloom-dev/|/valkeybloom-devel/|; s|/doc/\(.*\)/copyright$|/licenses/\1/LICENSE|')
        echo "/$installed" >>"$tmp/expected"
        from=$tmp/deb/$file
        [ -e "$from" ] || from=$tmp/dev/$file
        # The example for the configuration names the module.
        if [ "${file##*.}" = conf ]; then sed 's|/lib/|/lib64/|' "$from"; else cat "$from"; fi | cmp - "$root/$installed"
    done <"$tmp/files"
    rpm --root "$root" -ql valkeybloom valkeybloom-devel | while read -r file; do
        [ -d "$root$file" ] || echo "$file"
    done | sort >"$tmp/found"
    sort "$tmp/expected" | diff - "$tmp/found" || fail "the .rpm and the .deb have other files"
}

test_rpms() { # tarball
    rpms=$(find "$packages" -name "valkeybloom*-1.$(uname -m).rpm")
    [ "$(echo "$rpms" | wc -w)" = 2 ] || fail "there should be two .rpm files for $(uname -m) in $packages"
    # shellcheck disable=SC2086  # a list of files
    {
        rpmlint -c tools/rpmlint.toml $rpms >"$tmp/log" || true
        rpm -qp --requires $rpms >"$tmp/requires"
        scripts=$(rpm -qp --scripts --triggers --filetriggers $rpms)
    }
    grep -q " 0 errors, 0 warnings" "$tmp/log" || fail "rpmlint: $(cat "$tmp/log")"
    [ -z "$scripts" ] || fail "the .rpm files have scripts: $scripts"
    # Dnf checks the versions of glibc, and the loader, which only x86-64 requires by name.
    sed '/^ld-linux-/d; s/(GLIBC_[0-9.]*)/()/' "$tmp/requires" | sort -u >"$tmp/found"
    diff - "$tmp/found" <<END || fail "the .rpm files have other requirements"
libc.so.6()(64bit)
libdl.so.2()(64bit)
libpthread.so.0()(64bit)
rpmlib(CompressedFileNames) <= 3.0.4-1
rpmlib(FileDigests) <= 4.6.0-1
rpmlib(PayloadFilesHavePrefix) <= 4.0-1
rpmlib(PayloadIsXz) <= 5.2-1
END
    root=$tmp/root
    mkdir "$root"
    tar -C "$root" -xf "$1"
    awk '/^```/ { on = $0 == "```ini"; next } on' docs/releasing.md | sed "s|ADDRESS|file://$repository|" >"$tmp/dnf.conf"
    : >"$root/log"
    ! dnf install valkeybloom || fail "dnf does not look at requirements"
    grep -q "nothing provides libc.so.6" "$tmp/log" || fail "dnf: $(cat "$tmp/log")"
    stand_in_for_glibc
    listing >"$tmp/before"

    dnf install valkeybloom valkeybloom-devel || fail "dnf install: $(cat "$tmp/log")"
    rpm --root "$root" -V valkeybloom valkeybloom-devel || fail "rpm -V finds something else than in the package"
    compare_with_deb
    test_library "$root/usr/lib64"
    in_root valkeybloom size 1000 0.01 >/dev/null || fail "the program does not run"
    line=$(rpm --root "$root" -qi valkeybloom | grep '^loadmodule ') || fail "the package does not say what to add"
    echo "$line" >>"$root/etc/valkey/valkey.conf"
    use_module
    dnf remove valkeybloom valkeybloom-devel || fail "dnf remove: $(cat "$tmp/log")"
    listing | diff "$tmp/before" - || fail "removal leaves something behind"
    [ "$data" = "$(in_root sha256sum /var/lib/valkey/dump.rdb)" ] || fail "removal touched the data"
    for package in $rpms; do ran "$package" "installed by dnf, in a root of Debian with its server"; done
    rm -rf --one-file-system "$root"
}

note "checksums"
(cd "$packages" && sha256sum -c SHA256SUMS)
name=$(cd "$packages" && ls valkeybloom-*-"$(uname -m)".tar.gz)
dpkg-deb -x "$deb" "$tmp/deb"
tar -C "$tmp" -xzf "$packages/$name"
cmp "$tmp/deb/usr/lib/valkey/modules/valkeybloom.so" "$tmp/${name%.tar.gz}/valkeybloom.so"
ran "$name" "unpacked: the same module as in the .deb"

note "the unit of the HTTP service"
tools/need.sh systemd-analyze:systemd
unit=valkeybloom-http.service
sed "s|=/usr/bin/|=$tmp/deb/usr/bin/|" "$tmp/deb/usr/lib/systemd/system/$unit" >"$tmp/$unit"
systemd-analyze verify "$tmp/$unit" >"$tmp/verified" 2>&1 && [ ! -s "$tmp/verified" ] || fail "$(cat "$tmp/verified")"
(cd "$tmp/deb" && dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums | md5sum -c --quiet)

note "the C library"
dev=$(find "$packages" -name "libvalkeybloom-dev_*_$architecture.deb")
dpkg-deb -x "$dev" "$tmp/dev"
diff -r "$tmp/dev/usr/lib" "$tmp/${name%.tar.gz}/lib"
small_enough "$tmp/dev/usr/lib/libvalkeybloom_sketches.so" 2000000
test_library "$tmp/dev/usr/lib"
ran "$dev" "unpacked, with a program in C"

note "a repository"
make_repository

for suite in bookworm:bookworm-backports trixie: sid:; do
    tarball=$roots/${suite%:*}.tar
    # sid moves on.
    [ -n "$(find "$tarball" -mtime -7 2>/dev/null)" ] || make_root "$tarball" "${suite%:*}" "${suite#*:}"
    note "${suite%:*}"
    test_in "$tarball"
done
note "the .rpm files"
test_rpms "$roots/trixie.tar"
echo "the packages work on all of them"
