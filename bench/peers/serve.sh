#!/usr/bin/env bash
# `espalier serve` beside llama.cpp's server; ESP_LLAMACPP is the folder of its programs. Flags: serve.py --help.
set -euo pipefail
: "${ESP_LLAMACPP:?set ESP_LLAMACPP to the folder that has the programs of llama.cpp}"
exec python3 "$(dirname "$0")/serve.py" "$@"
