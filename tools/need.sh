#!/bin/sh
# Installs the Debian packages of the programs that are missing, at once. An argument is a program's name; its package's
# follow after colons, if they differ.
set -eu
missing=
for program; do
    command -v "${program%%:*}" >/dev/null || missing="$missing $(echo "${program#*:}" | tr : ' ')"
done
# shellcheck disable=SC2086  # a list of packages
[ -z "$missing" ] || exec "${0%/*}/packages.sh" $missing
