#!/usr/bin/env bash
# cmake --install gives a program and a library that others can use: examples/find_package is built against it.
# usage: install_test.sh PROGRAM BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$2 source=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" > "$work/log" || { cat "$work/log"; exit 1; }
"$work/prefix/bin/espalier" --version
"$work/prefix/bin/espalier" list errors > /dev/null
cmake -S "$source/examples/find_package" -B "$work/example" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_BUILD_TYPE=Release > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/example" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$work/example/example" | grep -q step
