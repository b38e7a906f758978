#!/usr/bin/env bash
# From nothing to a talking model: installs what is missing, builds, gathers text that every Debian machine has, trains
# a small model on it for about five minutes, and lets it complete code. Works from any folder, again and again, and
# without a network once the packages are there.
#   ./demo.sh --section.key=value ...   settings for the training, e.g. --run.max_minutes=1
set -euo pipefail
cd "$(dirname "$0")"

step() { if [[ -t 1 && -z ${NO_COLOR:-} ]]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }

step "1. Packages"
tools/install_deps.sh
echo "All there."

step "2. Build"
said=$(cmake --preset release 2>&1) || { echo "$said" >&2; exit 1; }
ninja -C build/release -j "$(nproc)" espalier_cli
espalier=build/release/espalier

step "3. Text to tokens"
data=runs/demo-data
if [[ -e $data/prepare.json ]]; then
  echo "$data is there already."
else
  "$espalier" prepare /usr/lib/python3.[0-9]* --include .py --vocab-size 2048 --out $data
fi

step "4. Train"
"$espalier" train recipes/demo.toml "$@"

step "5. Talk"
for prompt in 'def read(self, ' 'import os' 'class Error(Exception):'; do
  "$espalier" generate runs/demo --prompt "$prompt" --max-tokens 60
  printf '\n---\n'
done

step "6. Report"
"$espalier" report runs/demo

cat << 'END'

The run is in runs/demo: config.toml, metrics, checkpoints, the model (Hugging Face files) and report.html, which opens
in any browser. Next:
  build/release/espalier generate runs/demo --prompt "def main("
  build/release/espalier train recipes/demo.toml --run.out=runs/longer --run.max_minutes=30
  build/release/espalier --help
END
