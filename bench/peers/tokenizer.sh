#!/usr/bin/env bash
# `espalier bench tokenizer` beside the tokenizers library; ESP_PEERS is a virtual environment that has tokenizers and
# gguf. Flags: tokenizer.py --help.
set -euo pipefail
exec "${ESP_PEERS:?set ESP_PEERS to a virtual environment with the rival in it}/bin/python" "$(dirname "$0")/tokenizer.py" "$@"
