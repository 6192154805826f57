#!/bin/sh
# Makes an OCI image of one architecture, without a registry, a container engine or root: Debian's server with the
# libraries that it needs, the module and the program, in one layer. There is no shell and no package manager in it.
# Writes the image, as a .tar that container engines load, and an SBOM of Debian's packages in it. Two runs on the same
# commit give the same bytes as long as Debian's packages are the same.
set -eu
umask 022
cd "$(dirname "$0")/.."
fail() { echo "tools/image.sh: $*" >&2; exit 1; }
. tools/steps.sh

[ $# = 2 ] || fail "usage: tools/image.sh architecture folder"
arch=$1 folder=$2
case $arch in
    x86_64) debian=amd64 ;;
    aarch64) debian=arm64 ;;
    *) fail "images are made for x86_64 and aarch64, not for $arch" ;;
esac
suite=trixie
most=60000000
# Build scripts of C code run again if it changes.
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=valkeybloom-$version-$arch
module=$(tools/module.sh "$arch")
tool=$(tools/module.sh "$arch" tool)
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
tmp=$(mktemp -d "$target/image.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
all=$tmp/all root=$tmp/root blobs=$tmp/oci/blobs/sha256
mkdir -p "$root" "$blobs" "$folder"

# Copies a file of Debian's packages, and what it links to.
take() { # path
    [ ! -e "$root/$1" ] || return 0
    mkdir -p "$root/$(dirname "$1")"
    cp -P "$all/$1" "$root/$1"
    if [ -L "$all/$1" ]; then
        take "$(realpath -ms --relative-to="$all" "$all/$(dirname "$1")/$(readlink "$all/$1")")"
    else
        echo "$1" >>"$tmp/taken"
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
    tools/unpack.sh "$all" "$suite" "$debian" valkey-server valkey-tools base-files
    for program in valkey-server valkey-cli; do take "usr/bin/$program"; done
    # The kernel loads the loader by this path.
    loader=$(readelf -p .interp "$all/usr/bin/valkey-cli" | grep -o '/lib.*')
    mkdir -p "$root/usr$(dirname "$loader")"
    take "usr${loader}"
    for link in bin lib "$(basename "$(dirname "$loader")")"; do ln -sfn "usr/$link" "$root/$link"; done
    install -D -m 755 "$module" "$root/usr/lib/valkey/modules/valkeybloom.so"
    take_libraries "$module"
    install -m 755 "$tool" "$root/usr/bin/valkeybloom"
    take_libraries "$tool"
    install -D -m 644 LICENSE "$root/usr/share/doc/valkeybloom/copyright"

    for file in usr/lib/os-release usr/share/common-licenses; do
        mkdir -p "$root/$(dirname "$file")"
        cp -r "$all/$file" "$root/$file"
    done
    mkdir -p "$root/var/lib/dpkg/status.d" "$root/etc/valkey/conf.d" "$root/data"
    ln -s ../usr/lib/os-release "$root/etc/os-release"
    (cd "$all/var/lib/dpkg/status.d" && sed 's/^/  /; s/$/$/' "$tmp/taken" | grep -l -f - ./*.md5sums) |
        sed 's|./||; s/\.md5sums$//' | sort >"$tmp/packages"
    echo base-files >>"$tmp/packages"
    while read -r package; do
        cp "$all/var/lib/dpkg/status.d/$package" "$root/var/lib/dpkg/status.d"
        mkdir -p "$root/usr/share/doc/$package"
        cp -L "$all/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package"
    done <"$tmp/packages"

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
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --exclude=./data -C "$root" -cf "$tmp/layer" .
    tar --format=ustar --owner=999 --group=999 --numeric-owner -C "$root" -rf "$tmp/layer" ./data
    gzip -9nk "$tmp/layer"
    bytes=$(wc -c <"$tmp/layer.gz")
    [ "$bytes" -lt "$most" ] || fail "the image has $bytes bytes, $most or more"
}

digest() { sha256sum "$1" | cut -d ' ' -f 1; }

# Moves a file into the layout, and prints its description.
blob() { # media type, file
    sum=$(digest "$2") size=$(wc -c <"$2")
    mv "$2" "$blobs/$sum"
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%d}' "$1" "$sum" "$size"
}

# Writes the layout, and manifest.json beside it, which older versions of Docker load. The health check is Docker's: OCI
# has none.
lay_out() {
    labels=$(printf '"org.opencontainers.image.%s":"%s",' title valkeybloom version "$version" created "$created" \
        revision "$(git rev-parse HEAD 2>/dev/null || echo unknown)" licenses BSD-3-Clause \
        description "$(sed -n 's/^description = "\(.*\)"/\1/p' Cargo.toml | head -n 1)")
    cat >"$tmp/config" <<CONFIG
{"architecture":"$debian","os":"linux","created":"$created",
"config":{"User":"999:999","Env":["PATH=/usr/bin"],"WorkingDir":"/data","StopSignal":"SIGTERM",
"Entrypoint":["valkey-server","/etc/valkey/valkey.conf"],
"ExposedPorts":{"6379/tcp":{}},"Volumes":{"/data":{}},
"Healthcheck":{"Test":["CMD","valkey-cli","-e","ping"],"Interval":10000000000,"Timeout":5000000000,"Retries":3},
"Labels":{${labels%,}}},
"rootfs":{"type":"layers","diff_ids":["sha256:$(digest "$tmp/layer")"]},
"history":[{"created":"$created","created_by":"./build.sh image"}]}
CONFIG
    layer=$(blob layer.v1.tar+gzip "$tmp/layer.gz")
    config=$(blob config.v1+json "$tmp/config")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
        "$config" "$layer" >"$tmp/manifest"
    manifest=$(blob manifest.v1+json "$tmp/manifest")
    annotations="\"org.opencontainers.image.ref.name\":\"$version\",\"io.containerd.image.name\":\"valkeybloom:$version\""
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' \
        "${manifest%\}},\"platform\":{\"architecture\":\"$debian\",\"os\":\"linux\"},\"annotations\":{$annotations}}" >"$tmp/oci/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$tmp/oci/oci-layout"
    printf '[{"Config":"%s","RepoTags":["valkeybloom:%s"],"Layers":["%s"]}]' \
        "$(path "$config")" "$version" "$(path "$layer")" >"$tmp/oci/manifest.json"
    find "$tmp/oci" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner -C "$tmp/oci" -cf "$folder/$name-image.tar" .
}

path() { echo "$1" | sed 's|.*"sha256:\([0-9a-f]*\)".*|blobs/sha256/\1|'; }

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
    done <"$tmp/packages"
    printf ']}\n'
}

step "root of Debian $suite for $arch" fill
step "layer for $arch" pack
sbom >"$folder/$name-image.cdx.json"
lay_out
echo "$folder/$name-image.tar: $bytes bytes, with $(wc -l <"$tmp/packages") packages of Debian"
