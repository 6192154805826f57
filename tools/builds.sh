#!/bin/sh
# Tests the programs of docs/builds.md with PySpark, or measures them with `bench`. Installs a Java runtime, PySpark and the
# Python package.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "tools/builds.sh: $*" >&2; exit 1; }

[ $# -ge 2 ] || fail "usage: tools/builds.sh server module [test | bench]"
export VALKEY_SERVER="$1" VALKEYBLOOM_SO="$2"
tools/need.sh java:default-jre-headless
BUILDS_PYTHON=$(tools/python.sh spark)
export BUILDS_PYTHON

case ${3-test} in
    test)
        "$BUILDS_PYTHON" -m pytest -q -p no:cacheprovider crates/python/tests/test_builds.py
        cargo test --locked --workspace --test server -- --ignored --exact \
            sharded::shards_that_spark_builds_have_the_same_answers_in_rust_and_python
        ;;
    bench) "$BUILDS_PYTHON" benches/builds.py ;;
    *) fail "no action is called $3" ;;
esac
