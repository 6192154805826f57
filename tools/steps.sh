# shellcheck shell=sh
# For scripts that take minutes, which read it with `.`: says what they do, how long it took, and where files were run.

# Runs a command as a step. Adds its duration to the file $STEPS, if it is set. Steps of one process do not nest.
step() { # what, command...
    step_name=$1 step_began=$(date +%s)
    echo "== $step_name" >&2
    shift
    "$@"
    echo "== $step_name: $(($(date +%s) - step_began)) s" | tee -a "${STEPS:-/dev/null}" >&2
}

# Notes that a test ran a file of a release, and where: in the file $RAN, if it is set.
ran() { # file, where
    printf '%s\t%s\n' "$(basename "$1")" "$2" >>"${RAN:-/dev/null}"
}
