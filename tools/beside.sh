# shellcheck shell=sh
# For scripts that run commands beside each other, which read it with `.`: the folder $target has their logs.

begun=

# Ends a process, and all that it started. Others may be in the same group, such as the shell that called the script.
end() { # process
    # shellcheck disable=SC2046  # a list of processes
    set -- "$1" $(cat "/proc/$1/task"/*/children 2>/dev/null)
    kill "$1" 2>/dev/null || true
    shift
    for process; do end "$process"; done
}

# Runs a command beside those that follow. A failure waits for what was begun, and an interruption ends it.
begin() { # name, command...
    trap wait EXIT
    trap 'for process in $begun; do end "$process"; done; exit 1' INT TERM
    log=$target/$1.log
    shift
    "$@" >"$log" 2>&1 &
    echo $! >"$log.pid"
    begun="$begun $! "
}

# Waits for a command, and shows its output in one piece. Fails if the command failed.
await() { # name
    log=$target/$1.log passed=yes
    process=$(cat "$log.pid")
    wait "$process" || passed=
    # Another process may get the number.
    begun=$(echo "$begun" | sed "s/ $process / /")
    cat "$log"
    [ -n "$passed" ] || { echo "$1: there are failures, see above" >&2; return 1; }
}
