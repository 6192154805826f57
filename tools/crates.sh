#!/bin/sh
# Prints the crates that are published, one a line: name, tab, description.
set -eu
cd "$(dirname "$0")/.."
cargo metadata --locked --no-deps --format-version 1 | python3 -c '
import json, sys
for package in json.load(sys.stdin)["packages"]:
    if package["publish"] is None:
        print(package["name"], package["description"], sep="\t")
'
