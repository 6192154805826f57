#!/bin/sh
# Runs a server in valgrind, for tests that start the program in VALKEY_SERVER. SERVER_IN_MEMCHECK names the server.
# Findings go to one file per process in MEMCHECK_DIR, which is empty if there are no findings.
set -eu
exec valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite --child-silent-after-fork=yes --num-callers=40 \
    --suppressions="$(dirname "$0")/memcheck.supp" --log-file="$MEMCHECK_DIR/%p.log" \
    "$SERVER_IN_MEMCHECK" "$@"
