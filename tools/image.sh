#!/bin/sh
# Makes two OCI images without a registry, a container engine or root, each for all the architectures named: the server's,
# which is Debian's server with the libraries that it needs, the module and the programs, in one layer, without a shell or a
# package manager; and the module's, which holds nothing but the file and its licence. Writes each as a .tar that
# container engines load, and for each architecture an SBOM of Debian's packages in the server's image. Two runs on the same
# commit give the same bytes as long as Debian's packages are the same.
set -eu
umask 022
cd "$(dirname "$0")/.."
fail() { echo "tools/image.sh: $*" >&2; exit 1; }
. tools/steps.sh

[ $# -ge 2 ] || fail "usage: tools/image.sh folder architecture..."
folder=$1
shift
suite=trixie
most=60000000
# Build scripts of C code run again if it changes.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
tmp=$(mktemp -d "$target/image.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$folder"

# Copies a file of Debian's packages, and what it links to.
take() { # path
    [ ! -e "$root/$1" ] || return 0
    mkdir -p "$root/$(dirname "$1")"
    cp -P "$all/$1" "$root/$1"
    if [ -L "$all/$1" ]; then
        take "$(realpath -ms --relative-to="$all" "$all/$(dirname "$1")/$(readlink "$all/$1")")"
    else
        echo "$1" >>"$work/taken"
        take_libraries "$all/$1"
    fi
}

# Copies the libraries that a program or a library names, and their libraries.
take_libraries() { # file
    for library in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'); do
        take "usr/lib/$arch-linux-gnu/$library"
    done
}

# Makes the root: programs and their libraries, what Debian's licences require, and what scanners read.
fill() {
    tools/unpack.sh "$all" "$suite" "$debian" valkey-server valkey-tools coreutils base-files
    # With `cp`, a container can hand the module to others: docs/container.md.
    for program in valkey-server valkey-cli cp; do take "usr/bin/$program"; done
    # The kernel loads the loader by this path.
    loader=$(readelf -p .interp "$all/usr/bin/valkey-cli" | grep -o '/lib.*')
    mkdir -p "$root/usr$(dirname "$loader")"
    take "usr${loader}"
    for link in bin lib "$(basename "$(dirname "$loader")")"; do ln -sfn "usr/$link" "$root/$link"; done
    install -D -m 755 "$module" "$root/usr/lib/valkey/modules/valkeybloom.so"
    take_libraries "$module"
    # The programs are static.
    install -m 755 "$tool" "$service" "$root/usr/bin"
    install -D -m 644 LICENSE "$root/usr/share/doc/valkeybloom/copyright"

    for file in usr/lib/os-release usr/share/common-licenses; do
        mkdir -p "$root/$(dirname "$file")"
        cp -r "$all/$file" "$root/$file"
    done
    mkdir -p "$root/var/lib/dpkg/status.d" "$root/etc/valkey/conf.d" "$root/data"
    ln -s ../usr/lib/os-release "$root/etc/os-release"
    (cd "$all/var/lib/dpkg/status.d" && sed 's/^/  /; s/$/$/' "$work/taken" | grep -l -f - ./*.md5sums) |
        sed 's|./||; s/\.md5sums$//' | sort >"$work/packages"
    echo base-files >>"$work/packages"
    while read -r package; do
        cp "$all/var/lib/dpkg/status.d/$package" "$root/var/lib/dpkg/status.d"
        mkdir -p "$root/usr/share/doc/$package"
        cp -L "$all/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package"
    done <"$work/packages"

    echo 'root:x:0:0:root:/:/usr/sbin/nologin' >"$root/etc/passwd"
    echo 'valkey:x:999:999:valkey:/data:/usr/sbin/nologin' >>"$root/etc/passwd"
    printf 'root:x:0:\nvalkey:x:999:\n' >"$root/etc/group"
    cat >"$root/etc/valkey/valkey.conf" <<'CONF'
# Settings of the image. Files in conf.d override them, and options after the image's name override both.
# Clients come from outside of the container, so protected mode would refuse all of them. Set a password if others than
# your own programs reach the port: --requirepass.
bind * -::*
protected-mode no
dir /data
loadmodule /usr/lib/valkey/modules/valkeybloom.so
include /etc/valkey/conf.d/*.conf
CONF
}

# Only the data belong to the server's user.
pack() {
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --exclude=./data -C "$root" -cf "$layer" .
    tar --format=ustar --owner=999 --group=999 --numeric-owner -C "$root" -rf "$layer" ./data
    gzip -9nk "$layer"
    bytes=$(wc -c <"$layer.gz")
    [ "$bytes" -lt "$most" ] || fail "the image has $bytes bytes, $most or more"
}

pack_module() {
    mkdir "$alone"
    install -m 755 "$module" "$alone/valkeybloom.so"
    install -m 644 LICENSE "$alone"
    find "$alone" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner -C "$alone" -cf "$layer.module" .
    gzip -9nk "$layer.module"
}

# Prints the `config` of an image. The health check is Docker's: OCI has none.
config() { # title, description, further fields
    labels=$(printf '"org.opencontainers.image.%s":"%s",' title "$1" version "$version" created "$created" \
        revision "$(git rev-parse HEAD 2>/dev/null || echo unknown)" licenses BSD-3-Clause description "$2")
    echo "{${3-}\"Labels\":{${labels%,}}}"
}

sbom() {
    echo '{"bomFormat":"CycloneDX","specVersion":"1.5","version":1,'
    echo "\"metadata\":{\"timestamp\":\"$created\",\"component\":{\"type\":\"container\",\"name\":\"valkeybloom\",\"version\":\"$version\"}},"
    echo '"components":['
    comma=
    while read -r package; do
        of=$(sed -n 's/^Version: //p' "$root/var/lib/dpkg/status.d/$package")
        printf '%s{"type":"library","name":"%s","version":"%s","purl":"pkg:deb/debian/%s@%s?arch=%s&distro=%s"}' \
            "$comma" "$package" "$of" "$package" "$(echo "$of" | sed 's/+/%2B/g; s/:/%3A/g')" "$debian" "$suite"
        comma=',
'
    done <"$work/packages"
    printf ']}\n'
}

servers="" modules=""
for arch; do
    case $arch in
        x86_64) debian=amd64 ;;
        aarch64) debian=arm64 ;;
        *) fail "images are made for x86_64 and aarch64, not for $arch" ;;
    esac
    module=$(tools/module.sh "$arch")
    tool=$(tools/module.sh "$arch" tool)
    service=$(tools/module.sh "$arch" service)
    work=$tmp/$arch
    all=$work/all root=$work/root alone=$work/module layer=$work/layer
    mkdir -p "$root"
    step "root of Debian $suite for $arch" fill
    step "layer for $arch" pack
    pack_module
    sbom >"$folder/valkeybloom-$version-$arch-image.cdx.json"
    servers="$servers $debian=$layer" modules="$modules $debian=$layer.module"
done
description=$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# shellcheck disable=SC2086  # a list of layers
config valkeybloom "$description" '"User":"999:999","Env":["PATH=/usr/bin"],"WorkingDir":"/data","StopSignal":"SIGTERM",
"Entrypoint":["valkey-server","/etc/valkey/valkey.conf"],
"ExposedPorts":{"6379/tcp":{}},"Volumes":{"/data":{}},
"Healthcheck":{"Test":["CMD","valkey-cli","-e","ping"],"Interval":10000000000,"Timeout":5000000000,"Retries":3},' |
    python3 tools/oci.py valkeybloom "$version" "$created" "$folder/valkeybloom-$version-image.tar" $servers
# shellcheck disable=SC2086  # a list of layers
config valkeybloom-module "The file valkeybloom.so, for other images and for volumes" |
    python3 tools/oci.py valkeybloom-module "$version" "$created" "$folder/valkeybloom-$version-module-image.tar" $modules
(cd "$folder" && wc -c -- *"$version"*-image.tar)
