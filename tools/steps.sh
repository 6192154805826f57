# shellcheck shell=sh
# For scripts that take minutes, which read it with `.`: says what they do, and how long it took.

# Runs a command as a step. Adds its duration to the file $STEPS, if it is set. Steps of one process do not nest.
step() { # what, command...
    step_name=$1 step_began=$(date +%s)
    echo "== $step_name" >&2
    shift
    "$@"
    echo "== $step_name: $(($(date +%s) - step_began)) s" | tee -a "${STEPS:-/dev/null}" >&2
}
