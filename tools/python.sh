#!/bin/sh
# Builds the Python package into target/wheels/, and tests it on Debian's Python and on the newest that there is; with
# `bench`, measures it beside other packages; with `killed`, kills consumers that use it; with `vectors`, checks the golden
# vectors alone; with `spark`, installs it beside PySpark; with `release`, makes an sdist and wheels for both architectures.
# What the tests need is installed once for each Python; the file `installed` is written last.
set -eu
cd "$(dirname "$0")/.."
. tools/steps.sh
fail() { echo "tools/python.sh: $*" >&2; exit 1; }
. tools/beside.sh

[ $# -ge 1 ] || fail "usage: tools/python.sh test server module [filter...], killed server module [items [kills]],
    bench [filter...], vectors, spark or release folder"
action=$1
shift
mkdir -p "${CARGO_TARGET_DIR:=target}"
target=$(cd "$CARGO_TARGET_DIR" && pwd)
wheels=$target/wheels
cache=${XDG_CACHE_HOME:-$HOME/.cache}/valkeybloom
package=crates/python

tests="pytest numpy pyarrow polars pandas duckdb redis valkey mypy dask"
# pybloomfiltermmap3 is compiled when it is installed.
peers="rbloom fastbloom-rs pybloomfiltermmap3 pyarrow"

# Prints the Pythons that can load the wheel, the oldest and the newest of them.
pythons() {
    for version in 11 12 13 14 15; do
        for python in "/usr/bin/python3.$version" "python3.$version" "$HOME/.pyenv/versions/3.$version".*/bin/python; do
            if "$python" -c 'import ensurepip, venv' 2>/dev/null; then
                command -v "$python"
                break
            fi
        done
    done | sed -n '1p;$p' | uniq
}

# Prints the folder of a virtual environment with these packages.
environment() { # name, python, packages...
    venv=$cache/$1
    shift
    tools/environment.sh "$venv" "$@"
    echo "$venv"
}

build() { # python
    venv=$(environment maturin "$1" maturin)
    rm -f "$wheels"/valkeybloom-*.whl
    CARGO_TARGET_DIR=$target/python "$venv/bin/maturin" build --release --locked --compression-level 9 \
        --manifest-path $package/Cargo.toml --interpreter "$1" --out "$wheels"
    wheel=$(ls "$wheels"/valkeybloom-*.whl)
    [ "$(wc -c <"$wheel")" -lt 1100000 ] || fail "the wheel has 1.1 MB or more"
}

# Makes the root of an unpacked sdist its workspace. Cargo numbers crates outside of the workspace by their absolute
# paths, and these numbers change the bytes of the wheel.
widen_workspace() ( # folder
    cd "$1"
    {
        printf '[workspace]\nresolver = "3"\nmembers = ["python"]\nexclude = ['
        for manifest in */Cargo.toml; do
            [ "$manifest" = python/Cargo.toml ] || printf '"%s", ' "${manifest%/*}"
        done
        printf ']\n\n'
        sed -n '/^\[profile/,/^$/p' python/Cargo.toml
    } >Cargo.toml
    sed -i '/^\[workspace\]/d; /^\[profile/,/^$/d' python/Cargo.toml
    mv python/Cargo.lock .
)

# Makes the sdist, and from it alone a wheel for glibc and one for musl for each architecture: the same bytes in any
# folder. Only this machine's wheel can be loaded here.
release() { # python, folder
    venv=$(environment maturin "$1" maturin)
    SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
    export SOURCE_DATE_EPOCH
    tmp=$(mktemp -d "$target/python.XXXXXX")
    trap 'rm -rf "$tmp"' EXIT
    trap 'exit 1' HUP INT TERM
    "$venv/bin/maturin" sdist --manifest-path $package/Cargo.toml --out "$tmp/made"
    tar -C "$tmp" -xzf "$tmp/made"/*.tar.gz
    source=$(echo "$tmp"/valkeybloom-*)
    widen_workspace "$source"
    cyclonedx=$(tools/cargo-tool.sh cargo-cyclonedx)
    for arch in x86_64 aarch64; do
        (
            . tools/cross.sh
            cd "$source"
            "$cyclonedx" cyclonedx -qq --manifest-path python/Cargo.toml --format json --spec-version 1.5 \
                --describe crate --no-build-deps --target "$triple"
            sed 's|path+file://[^"#]*#|path+file:///valkeybloom#|g' python/*.cdx.json >"$tmp/valkeybloom.cdx.json"
            for built in "$triple:manylinux_2_17" "$static:musllinux_1_2"; do
                CARGO_TARGET_DIR=$target/python-release "$venv/bin/maturin" build --release --locked --zig \
                    --compression-level 9 --target "${built%:*}" --compatibility "${built#*:}" --interpreter "$1" \
                    --out "$tmp/made" --sbom-include "$tmp/valkeybloom.cdx.json"
            done
        )
    done
    for python in $all; do
        "$python" -m venv --clear "$tmp/venv"
        "$tmp/venv/bin/pip" install --quiet --no-deps "$tmp/made"/*-manylinux*_"$(uname -m)".whl
        "$tmp/venv/bin/python" -c "
from valkeybloom import Bloom
filter = Bloom(1000, 0.01)
filter.add('item')
assert 'item' in filter and 'other' not in filter"
        ran "$(echo "$tmp/made"/*-manylinux*_"$(uname -m)".whl)" "$("$python" --version)"
    done
    cp "$tmp/made"/* "$2"
}

test_with() { # python, its version, filter...
    printf '\n== %s\n' "$("$1" --version)"
    # shellcheck disable=SC2086  # a list of packages
    venv=$(environment "python-$2" "$1" $tests)
    "$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
    kinds="not spark"
    [ "$1" = "$oldest" ] || kinds="$kinds and not once"
    "$venv/bin/python" -m pytest -q -p no:cacheprovider -m "$kinds" $package/tests ${3+-k "$3"}
}

# With the profile of the wheel, so that what macros need is built once.
lint() { # python
    cargo fmt --manifest-path $package/Cargo.toml --check
    CARGO_TARGET_DIR=$target/python PYO3_PYTHON=$1 \
        cargo clippy --release --locked --manifest-path $package/Cargo.toml --all-targets -- -D warnings
}

all=$(pythons)
if [ -z "$all" ]; then
    tools/packages.sh python3 python3-venv
    all=$(pythons)
    [ -n "$all" ] || fail "missing: Python 3.11 or newer"
fi
oldest=$(echo "$all" | head -n 1)

case $action in
    test)
        [ $# -ge 2 ] || fail "name a server and a module"
        VALKEY_SERVER=$1 VALKEYBLOOM_SO=$2
        export VALKEY_SERVER VALKEYBLOOM_SO
        shift 2
        lint "$oldest"
        build "$oldest"
        # The tests of a Python use one processor most of the time.
        versions=
        for python in $all; do
            version=$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
            begin "python-$version" test_with "$python" "$version" "$@"
            versions="$versions $version"
        done
        failed=
        for version in $versions; do await "python-$version" || failed=yes; done
        [ -z "$failed" ] || fail "there are failed tests, see above"
        ;;
    killed)
        [ $# -ge 2 ] || fail "name a server and a module"
        export VALKEY_SERVER="$1" VALKEYBLOOM_SO="$2"
        shift 2
        build "$oldest"
        venv=$(environment python-killed "$oldest" pytest redis valkey)
        "$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
        "$venv/bin/python" $package/tests/killed.py "$@"
        ;;
    vectors)
        build "$oldest"
        venv=$(environment python-killed "$oldest" pytest redis valkey)
        "$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
        "$venv/bin/python" -m pytest -q -p no:cacheprovider $package/tests/test_vectors.py
        ;;
    bench)
        build "$oldest"
        # shellcheck disable=SC2086  # a list of packages
        venv=$(environment python-peers "$oldest" $peers)
        "$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel"
        WHEEL=$wheel "$venv/bin/python" benches/python.py "$@"
        ;;
    release)
        [ $# = 1 ] || fail "name a folder"
        release "$oldest" "$1"
        ;;
    spark)
        # Prints the path of the Python that has them.
        build "$oldest" >&2
        # shellcheck disable=SC2086  # a list of packages
        venv=$(environment python-spark "$oldest" $tests pyspark)
        "$venv/bin/pip" install --quiet --force-reinstall --no-deps "$wheel" >&2
        echo "$venv/bin/python"
        ;;
    *) fail "no action is called $action" ;;
esac
