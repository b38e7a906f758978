#!/usr/bin/env bash
# `espalier bench verify` beside llama.cpp; ESP_LLAMACPP is the folder of its programs. Flags: verify.py --help.
set -euo pipefail
: "${ESP_LLAMACPP:?set ESP_LLAMACPP to the folder that has the programs of llama.cpp}"
exec python3 "$(dirname "$0")/verify.py" "$@"
