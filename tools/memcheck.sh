#!/bin/sh
# A server in valgrind, for tests that start what VALKEY_SERVER names. It takes the server from
# SERVER_IN_MEMCHECK, and writes what is found into a file per process in MEMCHECK_DIR: without
# findings, an empty one.
set -eu
exec valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite --child-silent-after-fork=yes --num-callers=40 \
    --suppressions="$(dirname "$0")/memcheck.supp" --log-file="$MEMCHECK_DIR/%p.log" \
    "$SERVER_IN_MEMCHECK" "$@"
