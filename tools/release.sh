#!/bin/sh
# Makes a release of this commit in target/release-VERSION/: the packages and the metadata of their repositories, the Python
# package, images and crates, their SBOMs, SHA256SUMS and the notes. Then tests what no other command tests.
# docs/releasing.md describes it.
#
#   tools/release.sh          makes and tests the release
#   tools/release.sh again    makes it once more, of a clone in another folder, and compares the checksums
#   tools/release.sh files    makes it and tests nothing
set -eu
umask 022
cd "$(dirname "$0")/.."
fail() { echo "tools/release.sh: $*" >&2; exit 1; }
. tools/steps.sh

target=$(mkdir -p "${CARGO_TARGET_DIR:=target}" && cd "$CARGO_TARGET_DIR" && pwd)
export CARGO_TARGET_DIR="$target"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
release=$target/release-$version
architectures="x86_64 aarch64"

# Prints this version's section of CHANGELOG.md.
section() { awk -v version="$version" '/^## / { on = $2 ~ "^" version ",?$"; next } on' CHANGELOG.md; }

missing=
lack() { missing="$missing
  - $*"; }

packages=
need() { # program or file, its Debian package
    command -v "$1" >/dev/null || [ -e "$1" ] || packages="$packages $2"
}

# Finds everything that is missing before the first build. Installs Debian's packages if permitted, and else fails with
# one list.
check() {
    commit=$(git rev-parse HEAD 2>/dev/null) || lack "a git checkout: a release is made of a commit"
    changed=$(git status --porcelain 2>/dev/null | cut -c 4- | tr '\n' ' ')
    [ -z "$changed" ] || lack "a clean tree: commit or remove $changed"
    [ -n "$(section)" ] || lack "a section for $version in CHANGELOG.md"
    if command -v cargo >/dev/null; then
        newest=$(printf '%s\n' 1.90 "$(cargo --version | cut -d ' ' -f 2)" | sort -V | tail -n 1)
        [ "$newest" != 1.90 ] || lack "cargo 1.90 or newer, which packages crates together: rustup update"
        triples=wasm32-unknown-unknown
        for arch in $architectures; do triples="$triples $arch-unknown-linux-gnu $arch-unknown-linux-musl"; done
        for triple in $triples; do
            [ -d "$(rustc --print sysroot)/lib/rustlib/$triple" ] ||
                rustup --quiet target add "$triple" >/dev/null 2>&1 ||
                lack "the Rust target $triple: rustup target add $triple"
        done
    else
        lack "cargo: install Rust with rustup"
    fi
    need cc "gcc libc6-dev"
    need git git
    need dpkg-deb dpkg
    need rpmbuild rpm
    need apt-ftparchive apt-utils
    need createrepo_c createrepo-c
    need python3 python3
    need node nodejs
    need npm npm
    need /usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
    for arch in $architectures; do
        [ "$arch" = "$(uname -m)" ] ||
            need "$arch-linux-gnu-strip" "binutils-$(echo "$arch" | tr _ -)-linux-gnu"
    done
    tools/mirror.sh >/dev/null 2>&1 || lack "a Debian mirror for the image: name one in DEBIAN_MIRROR"
    [ "${1-}" = files ] || for program in $(tools/image-test.sh needs); do need "$program" "$program"; done
    if [ -n "$packages" ] && { [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; }; then
        lack "Debian's packages: sudo apt-get install$packages"
    fi
    [ -z "$missing" ] || fail "missing:$missing"
    # shellcheck disable=SC2086  # a list of packages
    [ -z "$packages" ] || tools/packages.sh $packages
    ! grep -q "^## $version, unreleased" CHANGELOG.md ||
        echo "tools/release.sh: CHANGELOG.md calls $version unreleased: date it before you publish" >&2
}

# Packages the crates together. Cargo then builds each of them from its own archive, and from those of the others. It keeps
# what it unpacks by the path of its folder and the crate's version, so each release has a folder of its own: another one of
# this version would leave its sources to the next.
crates() { # options of cargo package...
    # shellcheck disable=SC2046  # a list of options
    CARGO_TARGET_DIR=$tmp/crates CARGO_PROFILE_DEV_DEBUG=false cargo package --locked "$@" $(tools/crates.sh | sed 's/\t.*//; s/^/-p /')
    cp "$tmp/crates/package"/*.crate "$new"
}

document() {
    # shellcheck disable=SC2046  # a list of options
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps $(tools/crates.sh | sed 's/\t.*//; s/^/-p /')
}

notes() {
    echo "# valkeybloom $version"
    section | sed 's/^### /## /'
    printf '\nMade of commit %s with %s. docs/releasing.md says how to verify the files.\n' "$commit" "$(rustc --version)"
}

# The folder gets its name last, so it is complete.
files() { # options of cargo package...
    new=$target/release-$version.new
    rm -rf "$new"
    mkdir "$new"
    for arch in $architectures; do
        PACKAGES=$new step "packages for $arch" tools/package.sh "$arch"
    done
    # shellcheck disable=SC2086  # a list of architectures
    step "images" tools/image.sh "$new" $architectures
    step "Python package" tools/python.sh release "$new"
    step "crates" crates "$@"
    step "repositories" tools/repositories.sh "$new"
    step "npm package" tools/js.sh release "$new"
    notes >"$new/NOTES.md"
    (
        cd "$new"
        rm SHA256SUMS
        find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >"$tmp/sums"
        mv "$tmp/sums" SHA256SUMS
    )
    rm -rf "$release"
    mv "$new" "$release"
}

# Tests the module on servers with musl and with the oldest glibc.
test_module() {
    name=valkeybloom-$version-$(uname -m)
    tar -C "$tmp" -xzf "$release/$name.tar.gz"
    cmp "$tmp/$name/valkeybloom.so" "$(tools/module.sh)"
    ./build.sh musl persistence::
    ran "$name.tar.gz" "its module in Valkey 9.1 with musl, and with glibc 2.31"
}

# Says which files the tests ran, and which were only built.
report() {
    printf '\nrun:\n'
    sort -u "$RAN" | sed 's/\t/: /; s/^/  /'
    printf '\nbuilt, not run:\n'
    (cd "$release" && find . -maxdepth 1 -type f -name '*.*' ! -name '*.json' ! -name NOTES.md ! -name Packages.gz) |
        sed 's|^./||' | sort | while read -r file; do
        cut -f 1 "$RAN" | grep -qxF "$file" || echo "  $file"
    done
}

# Builds and tests with the oldest Rust that Cargo.toml promises.
test_oldest() {
    if ! rustup toolchain install "$oldest" --profile minimal --no-self-update >"$tmp/log" 2>&1; then
        echo "not tested with Rust $oldest, which can't be fetched here: $(grep error "$tmp/log" | head -n 1)" >&2
        return
    fi
    export RUSTUP_TOOLCHAIN="$oldest" CARGO_TARGET_DIR="$target/oldest"
    cargo build --release --locked --workspace --lib --bins
    cargo test --locked -p valkeybloom-sketches -p valkeybloom-protocol -p valkeybloom-planner --lib --test core --test args
}

tmp=$(mktemp -d "$target/release.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
case ${1-} in
    '')
        export STEPS="$tmp/steps" RAN="$tmp/ran"
        check
        files
        for crate in "$release"/*.crate; do ran "$crate" "compiled from its archive"; done
        step "documentation of the crates" document
        PACKAGES=$release step "test of the packages" tools/package-test.sh
        step "test of the images" tools/image-test.sh "$release"
        step "test of the module" test_module
        (step "Rust $oldest" test_oldest)
        printf '\n%s\n' "durations:"
        sed 's/^== /  /' "$STEPS"
        (cd "$release" && ls -sh1)
        report
        echo "$release"
        ;;
    files)
        check files
        files --no-verify
        ;;
    again)
        [ -e "$release/SHA256SUMS" ] || fail "there is nothing to compare with: ./build.sh release"
        git clone --quiet "$PWD" "$tmp/again/elsewhere"
        git -C "$tmp/again/elsewhere" checkout --quiet "$(git rev-parse HEAD)"
        step "the same release elsewhere" \
            env CARGO_TARGET_DIR="$tmp/again/target" "$tmp/again/elsewhere/tools/release.sh" files
        diff "$release/SHA256SUMS" "$tmp/again/target/release-$version/SHA256SUMS" >&2 || fail "the files differ"
        echo "the same bytes in another folder"
        ;;
    *) fail "usage: tools/release.sh [again]" ;;
esac
