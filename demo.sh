#!/usr/bin/env bash
# Three demonstrations. Each installs what is missing and builds; both work from any folder, again and again.
#   ./demo.sh [--section.key=value ...]   From nothing to a talking model: gathers text that every Debian machine has,
#                                         trains a small model on it for about five minutes and lets it complete code.
#                                         Needs no network once the packages are there. Settings go to the training,
#                                         e.g. --run.max_minutes=1
#   ./demo.sh chat [--flag ...]           Fetches a model of half a billion parameters (491 MB, once) and talks with it.
#                                         Flags go to `espalier chat`, e.g. --system "Answer in one sentence."
#   ./demo.sh serve [--flag ...]          Serves the same model as OpenAI's API does, with a chat page; without a network,
#                                         the model of the first demonstration. Flags go to `espalier serve`, e.g.
#                                         --port 9000
set -euo pipefail
cd "$(dirname "$0")"

espalier=build/release/espalier

step() { if [[ -t 1 && -z ${NO_COLOR:-} ]]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n%s\n' "$*"; fi; }

install_and_build() {
  step "1. Packages"
  tools/install_deps.sh "$@"
  echo "All there."
  step "2. Build"
  local said
  said=$(cmake --preset release 2>&1) || { echo "$said" >&2; exit 1; }
  ninja -C build/release -j "$(nproc)" espalier_cli
}

grow() {
  install_and_build
  step "3. Text to tokens"
  local data=runs/demo-data
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
  ./demo.sh chat
  build/release/espalier --help
END
}

chat() {
  local model=qwen2.5-coder-0.5b
  install_and_build python3-pip unzip
  step "3. Model"
  tools/get_model.sh $model
  step "4. Chat (Ctrl-C stops an answer, Ctrl-D leaves)"
  "$espalier" chat $model "$@"
}

# The flag's value among the arguments, or the default.
value_of() {
  local flag=$1 value=$2
  shift 2
  while [[ $# -gt 0 ]]; do
    case $1 in
      "$flag") value=${2:-} ;;
      "$flag"=*) value=${1#*=} ;;
    esac
    shift
  done
  echo "$value"
}

serve() {
  local model=qwen2.5-coder-0.5b path=chat/completions url
  local body='{"messages": [{"role": "user", "content": "What is an espalier?"}]}'
  install_and_build python3-pip unzip
  step "3. Model"
  if ! tools/get_model.sh $model; then
    echo "$model cannot be had here; the demonstration's own model writes on instead."
    [[ -e runs/demo/model ]] || grow --run.max_minutes=1
    model=runs/demo path=completions body='{"prompt": "import os", "max_tokens": 60}'
  fi
  url=http://$(value_of --host 127.0.0.1 "$@"):$(value_of --port 8080 "$@")
  step "4. Serve (Ctrl-C ends it)"
  cat << END
Chat page:  $url/
Try:        curl $url/v1/$path -H 'Content-Type: application/json' -d '$body'
END
  exec "$espalier" serve $model "$@"
}

case ${1:-} in
  chat) shift && chat "$@" ;;
  serve) shift && serve "$@" ;;
  '' | --*) grow "$@" ;;
  *) echo "demo.sh: '$1' is no demonstration; there are: ./demo.sh [--section.key=value ...], ./demo.sh chat, ./demo.sh serve" >&2; exit 2 ;;
esac
