# shellcheck shell=sh
# For scripts that run commands beside each other, which read it with `.`: the folder $target has their logs.

# Runs a command beside those that follow. A failure waits for what was begun, and an interruption ends it.
begin() { # name, command...
    trap wait EXIT
    trap 'trap - TERM; kill 0' INT TERM
    log=$target/$1.log
    shift
    "$@" >"$log" 2>&1 &
    echo $! >"$log.pid"
}

# Waits for a command, and shows its output in one piece. Fails if the command failed.
await() { # name
    log=$target/$1.log passed=yes
    wait "$(cat "$log.pid")" || passed=
    cat "$log"
    [ -n "$passed" ] || { echo "$1: there are failures, see above" >&2; return 1; }
}
