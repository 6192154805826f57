#!/bin/sh
# Makes the packages of one architecture in target/package/, or in the folder $PACKAGES: a .deb and an .rpm, one of each
# for C programmers, a .tar.gz of the same files, SBOMs, and SHA256SUMS of all files there. Two runs on the same commit
# with the same compiler and the same rpmbuild give the same bytes.
set -eu
umask 022
cd "$(dirname "$0")/.."
fail() { echo "tools/package.sh: $*" >&2; exit 1; }
. tools/steps.sh

arch=${1:-$(uname -m)}
case $arch in
    x86_64) debian=amd64 ;;
    aarch64) debian=arm64 ;;
    *) fail "packages are made for x86_64 and aarch64, not for $arch" ;;
esac
tools/need.sh dpkg-deb:dpkg rpmbuild:rpm
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)}"
[ -n "$SOURCE_DATE_EPOCH" ] || fail "this is not a git checkout: set SOURCE_DATE_EPOCH to the time of the release"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
license=$(sed -n 's/^license = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=valkeybloom-$version-$arch
# Whoever publishes a release names an address that is read.
maintainer=${MAINTAINER:-The valkeybloom project <valkeybloom@invalid>}
module=$(step "the module for $arch" tools/module.sh "$arch")
tool=$(step "the program for $arch" tools/module.sh "$arch" tool)
service=$(step "the HTTP service for $arch" tools/module.sh "$arch" service)
library=$(step "the C library for $arch" tools/module.sh "$arch" library)
[ "$arch" = "$(uname -m)" ] || {
    export STRIP="$arch-linux-gnu-strip"
    tools/need.sh "$STRIP:binutils-$(echo "$arch" | tr _ -)-linux-gnu"
}
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
packages=$(mkdir -p "${PACKAGES:=$target/package}" && cd "$PACKAGES" && pwd)
tmp=$(mktemp -d "$target/package.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# Writes SBOMs of the module, the programs and the C library. cargo-cyclonedx writes into the folder of
# each manifest, and names that folder in the SBOM, so it works on a copy and the name is replaced.
sboms() { # folder
    cyclonedx=$(tools/cargo-tool.sh cargo-cyclonedx)
    mkdir "$tmp/workspace" "$1"
    cp -r Cargo.toml Cargo.lock src crates benches tests examples "$tmp/workspace"
    "$cyclonedx" cyclonedx -qq --manifest-path "$tmp/workspace/Cargo.toml" --format json \
        --spec-version 1.5 --describe crate --no-build-deps --target "$arch-unknown-linux-gnu"
    for part in valkeybloom:. valkeybloom-program:crates/cli valkeybloom-http:crates/http valkeybloom-library:crates/c; do
        sed 's|path+file://[^"#]*#|path+file:///valkeybloom#|g' "$tmp/workspace/${part#*:}/"*.cdx.json \
            >"$1/${part%%:*}.cdx.json"
    done
}

# Copies the pages, and the files that they link to. Pages for those who change the sources stay there: links to them
# become their names.
documents() { # folder
    mkdir -p "$1/docs" "$1/examples"
    cp README.md CHANGELOG.md SECURITY.md "$1"
    cp docs/*.md docs/*.svg docs/*.yml docs/*.html docs/*.png "$1/docs"
    cp -r examples/*.rs examples/compose examples/kubernetes "$1/examples"
    sources='\(ARCHITECTURE\|CONTRIBUTING\|docs\/releasing\|docs\/vectors\|releasing\|vectors\)'
    rm "$1/docs/releasing.md" "$1/docs/vectors.md"
    sed -i "s/\[\([^]]*\)\](\(\.\.\/\)*$sources\.md[^)]*)/\1/g" "$1"/*.md "$1"/docs/*.md
}

# Makes the programs' man pages and completions. They write them themselves, so programs for this machine are needed.
pages() {
    own=$tool own_service=$service
    if [ "$arch" != "$(uname -m)" ]; then
        own=$(tools/module.sh "$(uname -m)" tool)
        own_service=$(tools/module.sh "$(uname -m)" service)
    fi
    "$own" pages "$tmp/pages"
    "$own_service" --pages "$tmp/pages"
    gzip -9n "$tmp/pages/"*.1
}

example() { # path of the module
    cat <<END
# For the server's configuration file, or for one that it includes.
loadmodule $1

# Settings of the module, at their defaults:
# bf.bloom-capacity 100000
# bf.bloom-fp-rate 0.01
END
}

same_times() { # folder
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    chmod -R u=rwX,go=rX "$1"
}

tarball() {
    root=$tmp/$name
    mkdir "$root"
    cp "$module" "$root/valkeybloom.so"
    cp "$tool" "$service" crates/http/valkeybloom-http.service crates/http/http.toml "$root"
    cp -r "$tmp/pages" "$root/pages"
    cp LICENSE "$root"
    documents "$root"
    example "/path/to/valkeybloom.so" >"$root/valkeybloom.conf"
    cp "$tmp/sboms/"* "$root"
    tools/c.sh install "$library" "$root"
    same_times "$root"
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner -C "$tmp" -cf - "$name" |
        gzip -9n >"$packages/$name.tar.gz"
}

summary=$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml)
about="One module for Valkey 8.0 and newer and for Redis 7.0 and newer. It reads the
data of RedisBloom's Bloom filters and of valkey-bloom as it is. A server
loads it once its configuration says so."
summary_for_c="Bloom filters and other sketches of valkeybloom in any program"
about_for_c="A library for every language that can call C, without a server: Bloom and
cuckoo filters, count-min sketches, top-k lists and t-digests. It reads and
writes what the module for Valkey and Redis stores."

# Puts the files of the .deb or of the .rpm into a root. Distributions differ in the folders of libraries and of
# completions for zsh.
files() { # root, lib or lib64, folder for zsh
    root=$1
    installed=/usr/$2/valkey/modules/valkeybloom.so
    documentation=$root/usr/share/doc/valkeybloom
    mkdir -p "$(dirname "$root$installed")" "$documentation"
    cp "$module" "$root$installed"
    for place in bin share/man/man1 share/bash-completion/completions share/fish/vendor_completions.d "share/zsh/$3"; do
        mkdir -p "$root/usr/$place"
    done
    cp "$tool" "$service" "$root/usr/bin"
    # Its unit is not enabled, and its configuration is an example.
    install -D -m 644 -t "$root/usr/lib/systemd/system" crates/http/valkeybloom-http.service
    cp "$tmp/pages/"*.1.gz "$root/usr/share/man/man1"
    for program in valkeybloom valkeybloom-http; do
        cp "$tmp/pages/$program.bash" "$root/usr/share/bash-completion/completions/$program"
        cp "$tmp/pages/$program.fish" "$root/usr/share/fish/vendor_completions.d"
        cp "$tmp/pages/_$program" "$root/usr/share/zsh/$3"
    done
    documents "$documentation"
    example "$installed" >"$documentation/examples/valkeybloom.conf"
    cp crates/http/http.toml "$documentation/examples"
    for part in valkeybloom valkeybloom-program valkeybloom-http; do
        cp "$tmp/sboms/$part.cdx.json" "$documentation"
    done
}

# Puts the files for C programmers into a root.
files_for_c() { # root, lib or lib64, name of the package
    mkdir -p "$1/usr/share/doc/$3"
    tools/c.sh install "$library" "$tmp/c"
    mkdir -p "$1/usr/$2"
    cp -r "$tmp/c/include" "$1/usr"
    cp -r "$tmp/c/lib/." "$1/usr/$2"
    cp docs/c.md "$tmp/sboms/valkeybloom-library.cdx.json" "$1/usr/share/doc/$3"
}

# Prints the fields of a package that both have.
fields() { # name
    size=$(find "$root/usr" -type f -exec cat {} + | wc -c)
    cat <<END
Package: $1
Version: $version
Architecture: $debian
Maintainer: $maintainer
Installed-Size: $(((size + 1023) / 1024))
Priority: optional
END
}

build_deb() { # name
    {
        printf '%s (%s) unstable; urgency=medium\n\n  * CHANGELOG.md of valkeybloom lists the changes.\n\n' "$1" "$version"
        printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
    } | gzip -9n >"$root/usr/share/doc/$1/changelog.gz"
    (cd "$root" && find usr -type f -exec md5sum {} + | sort -k 2 >DEBIAN/md5sums)
    same_times "$root"
    find "$root/DEBIAN" -name 'p*' -exec chmod 755 {} +
    # Only zlib gives the same bytes with any number of threads.
    dpkg-deb --root-owner-group -Zgzip -z9 --build "$root" "$packages/$1_${version}_$debian.deb" >/dev/null
}

# Makes the .deb. No maintainer script touches a server: its operator decides whether and when it loads the module.
deb() {
    files "$tmp/deb" lib vendor-completions
    # The programs need no libc, so that they run on every system.
    mkdir -p "$root/usr/share/lintian/overrides"
    printf 'valkeybloom: statically-linked-binary [usr/bin/%s]\n' valkeybloom valkeybloom-http \
        >"$root/usr/share/lintian/overrides/valkeybloom"
    mkdir "$root/DEBIAN"
    cp LICENSE "$documentation/copyright"
    ln -s copyright "$documentation/LICENSE"
    fields valkeybloom >"$root/DEBIAN/control"
    cat >>"$root/DEBIAN/control" <<END
Depends: libc6 (>= 2.17)
Enhances: valkey-server, redis-server
Section: database
Description: ${summary#A }
$(echo "$about" | sed 's/^/ /')
END
    cat >"$root/DEBIAN/postinst" <<END
#!/bin/sh
set -e
if [ "\$1" = configure ] && [ -z "\$2" ]; then
    cat <<'MESSAGE'
valkeybloom: no server loads the module yet. Add this line to /etc/valkey/valkey.conf or
/etc/redis/redis.conf, and restart the server:

loadmodule $installed

MESSAGE
elif [ "\$1" = configure ]; then
    echo "valkeybloom: servers that are running use the new module after their next restart"
fi
# The HTTP service is this package's own: it goes on with the new program, if it runs.
if [ "\$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    systemctl try-restart valkeybloom-http.service || true
fi
END
    cat >"$root/DEBIAN/prerm" <<END
#!/bin/sh
set -e
if [ "\$1" = remove ]; then
    echo "valkeybloom: remove the line 'loadmodule $installed' from your servers' configuration."
    echo "valkeybloom: data stays where it is. It loads again only in a server with the module."
    # Without a running systemd it only removes links.
    ! command -v systemctl >/dev/null || systemctl --quiet disable valkeybloom-http.service || true
    [ ! -d /run/systemd/system ] || systemctl stop valkeybloom-http.service || true
fi
END
    cat >"$root/DEBIAN/postrm" <<END
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload || true
END
    build_deb valkeybloom
}

# Makes the .deb for C programmers.
deb_for_c() {
    root=$tmp/deb-for-c
    files_for_c "$root" lib libvalkeybloom-dev
    mkdir "$root/DEBIAN"
    # What Debian has for a shared library: its mode, a trigger for ldconfig, and the package that programs depend on.
    find "$root/usr/lib" -type f -name '*.so*' -exec chmod 644 {} +
    echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
    echo "libvalkeybloom_sketches ${version%%.*} libvalkeybloom-dev (>= $version)" >"$root/DEBIAN/shlibs"
    cp LICENSE "$root/usr/share/doc/libvalkeybloom-dev/copyright"
    fields libvalkeybloom-dev >"$root/DEBIAN/control"
    cat >>"$root/DEBIAN/control" <<END
Depends: libc6 (>= 2.17)
Section: libdevel
Description: $summary_for_c
$(echo "$about_for_c" | sed 's/^/ /')
END
    build_deb libvalkeybloom-dev
}

# Makes the .rpm and the one for C programmers. Rpmbuild takes the files as they are, and reads what they require off them.
# The packages have no scripts. They own every folder that a minimal system may lack, so that removal leaves none.
rpms() {
    files "$tmp/rpm" lib64 site-functions
    files_for_c "$root" lib64 valkeybloom-devel
    for package in valkeybloom valkeybloom-devel; do
        mkdir -p "$root/usr/share/licenses/$package"
        cp LICENSE "$root/usr/share/licenses/$package"
    done
    ln -s ../../licenses/valkeybloom/LICENSE "$documentation/LICENSE"
    same_times "$root"
    cat >"$tmp/valkeybloom.spec" <<END
%global debug_package %{nil}
%global _build_id_links none
%global __os_install_post %{nil}
%global __arch_install_post %{nil}
# Programs do not link the module. The library's name for pkg-config is in Provides, because rpmbuild finds it only on
# machines with pkg-config.
%global __provides_exclude_from ^/usr/lib64/valkey/
%global __pkgconfig_path ^\$
# Red Hat Enterprise Linux 7 and 8 can't read zstd, which newer versions of rpmbuild may choose.
%global _binary_payload w6.xzdio
%global _buildhost reproducible
%global use_source_date_epoch_as_buildtime 1
%global source_date_epoch_from_changelog 0

Name: valkeybloom
Version: $version
Release: 1
Summary: $summary
License: $license
Group: Applications/Databases
Packager: $maintainer
Enhances: valkey redis

%description
$about
The line for the configuration is:

loadmodule $installed

%package devel
Summary: $summary_for_c
Group: Development/Libraries
Provides: pkgconfig(valkeybloom-sketches) = %{version}

%description devel
$about_for_c

%install
mkdir -p %{buildroot}
cp -a $root/. %{buildroot}

%files
%defattr(-,root,root,-)
%license /usr/share/licenses/valkeybloom
%doc /usr/share/doc/valkeybloom
/usr/bin/valkeybloom*
/usr/lib/systemd/system/valkeybloom-http.service
/usr/lib64/valkey
/usr/share/man/man1/valkeybloom*.1.gz
/usr/share/bash-completion
/usr/share/fish
/usr/share/zsh

%files devel
%defattr(-,root,root,-)
%license /usr/share/licenses/valkeybloom-devel
%doc /usr/share/doc/valkeybloom-devel
/usr/include/valkeybloom.h
/usr/lib64/libvalkeybloom_sketches.*
/usr/lib64/pkgconfig
END
    # Macros of the user who builds would be read from HOME.
    HOME=$tmp rpmbuild -bb --quiet --target "$arch" --define "_topdir $tmp/rpmbuild" --define "_rpmdir $packages" \
        --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" "$tmp/valkeybloom.spec" >"$tmp/log" 2>&1 ||
        fail "rpmbuild: $(cat "$tmp/log")"
}

sboms "$tmp/sboms"
pages
tarball
deb
deb_for_c
rpms
for part in "" -program -http -library; do
    cp "$tmp/sboms/valkeybloom$part.cdx.json" "$packages/$name$part.cdx.json"
done
(
    cd "$packages"
    sha256sum -- *"$version"* >SHA256SUMS
    cat SHA256SUMS
)
