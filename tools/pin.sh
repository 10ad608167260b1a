#!/bin/sh
# Writes constraints.txt anew: the newest versions of everything that tests, checks and benchmarks use.
set -eu

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

python3 -m venv "$fresh"
"$fresh/bin/python" -m pip install --quiet hatchling editables ".[test,check,bench,postgres,web,tui]"
{
    echo "# Versions that acode is tested with; 'make pin' writes this file."
    "$fresh/bin/python" -m pip freeze --exclude acode | grep -v '[@#]'
} > constraints.txt
