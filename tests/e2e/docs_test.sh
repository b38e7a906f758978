#!/usr/bin/env bash
# The pages of docs/ that the program makes are those that it makes now.
# usage: docs_test.sh PROGRAM BUILD_FOLDER SOURCE_FOLDER
set -uo pipefail
espalier=$1 source=$3 failures=0
for list in config errors; do
  if ! diff -u "$source/docs/$list.md" <("$espalier" list $list --markdown); then
    echo "docs/$list.md is stale; run: build/release/espalier list $list --markdown > docs/$list.md"
    failures=1
  fi
done
exit $failures
