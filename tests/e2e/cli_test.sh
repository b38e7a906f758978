#!/usr/bin/env bash
# The program's manners: exit statuses, one-line errors, "did you mean", output that fails.
# usage: cli_test.sh PROGRAM BUILD_FOLDER SOURCE_FOLDER
set -uo pipefail
espalier=$1
failures=0

# expect STATUS TEXT ARGS...: the exit status, and a part of the single line on standard error.
expect() {
  local status=$1 text=$2 errors actual=0
  shift 2
  errors=$("$espalier" "$@" 2>&1 > /dev/null) || actual=$?
  if [[ $actual -ne $status || $errors != *"$text"* || $(wc -l <<< "$errors") -ne 1 ]]; then
    echo "espalier $*: status $actual (expected $status), said: $errors (expected: $text)"
    failures=1
  fi
}

expect 0 "" --help
expect 0 "" --version
expect 2 "" # no verb: the help, and a failure
expect 2 "did you mean 'report'" repport
expect 2 "did you mean '--json'" list verbs --jsonn
expect 2 "given twice" list --json --json
expect 2 "expected an integer" list --threads=many
expect 2 "needs a value" list --log-level
expect 2 "expected one of" list --log-level loud
expect 2 "unexpected argument" list verbs errors
expect 2 "RUN is missing" report
expect 2 "did you mean 'errors'" list erors
expect 3 "run folder" report /nowhere

status=0
"$espalier" list > /dev/full 2> /dev/null || status=$?
[[ $status -eq 8 ]] || { echo "a full disk: status $status, expected 8"; failures=1; }

# What a file's name holds does not make a second line, and no way into the file system ends the program.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s loop "$work/loop"
long=$(printf 'x%.0s' {1..5000})
expect 7 "Too many levels of symbolic links" diff "$work/loop" "$work/loop"
for verb in inspect report tokenize "eval perplexity"; do
  expect 7 "Too many levels of symbolic links" $verb "$work/loop" --json
  expect 3 "" $verb "$long" --json
done
expect 3 'two\nlines' inspect $'two\nlines'
expect 2 "UTF-8" inspect $'\xff'

# Standard streams that are closed, or are no files, are errors and not silence.
golden=$3/tests/golden/tokenizer/gpt2.json
status=0
"$espalier" tokenize "$golden" <&- > /dev/null 2>&1 || status=$?
[[ $status -eq 7 ]] || { echo "closed standard input: status $status, expected 7"; failures=1; }
status=0
"$espalier" tokenize "$golden" < "$work" > /dev/null 2>&1 || status=$?
[[ $status -eq 7 ]] || { echo "a folder as standard input: status $status, expected 7"; failures=1; }
status=0
"$espalier" list >&- 2>&- || status=$?
[[ $status -eq 7 ]] || { echo "closed standard output: status $status, expected 7"; failures=1; }

# A file that may not grow (ulimit -f) is a full disk.
head -c 100000 "$0" > "$work/text.txt"
status=0
(ulimit -f 1; "$espalier" prepare "$work/text.txt" --out "$work/data" --vocab-size 300 > /dev/null 2>&1) || status=$?
[[ $status -eq 8 && $(ls "$work") != *data* ]] || { echo "ulimit -f: status $status, expected 8; $(ls "$work")"; failures=1; }

# What is proposed next can be run: no validation shards are named where none were written.
said=$("$espalier" prepare "$work/text.txt" --out "$work/data" --vocab-size 300 --val-fraction 0 2> "$work/errors")
[[ $said == *"next: espalier train"* && $said != *val-* ]] || { echo "prepare: $said; $(< "$work/errors")"; failures=1; }

# Every verb explains itself, with an example.
while read -r verb _; do
  "$espalier" "$verb" --help | grep -q "^example:" || { echo "espalier $verb --help has no example"; failures=1; }
  "$espalier" --help | grep -q "^  $verb " || { echo "espalier --help does not show $verb"; failures=1; }
done < <("$espalier" list verbs | tail -n +2)
"$espalier" list verbs --json | python3 -c 'import json, sys; assert json.load(sys.stdin)' || failures=1
exit $failures
