#!/bin/sh
# Makes a virtual environment with packages of PyPI, in the versions that tools/requirements.txt names. The file `installed`
# is written last, so that an interrupted installation is repeated.
set -eu
[ $# -ge 3 ] || { echo "usage: tools/environment.sh folder python package..." >&2 && exit 1; }
folder=$1 python=$2
shift 2
requirements=$(dirname "$0")/requirements.txt
wanted=$("$python" --version)
for package; do
    pins=$(grep "^${package%\[*}==" "$requirements") || { echo "tools/requirements.txt lacks $package" >&2 && exit 1; }
    wanted="$wanted
$package: $pins"
done
[ "$(cat "$folder/installed" 2>/dev/null)" != "$wanted" ] || exit 0
echo "installing $* into $folder" >&2
"$python" -c 'import ensurepip, venv' 2>/dev/null || "$(dirname "$0")/packages.sh" python3-venv
"$python" -m venv --clear "$folder" >&2
"$folder/bin/pip" install --quiet --no-compile --constraint "$requirements" "$@" >&2
echo "$wanted" >"$folder/installed"
