#!/usr/bin/env bash
# `espalier bench bpe` beside its rival; ESP_PEERS is a virtual environment that has it. Flags: compare.py --help.
set -euo pipefail
exec "${ESP_PEERS:?set ESP_PEERS to a virtual environment with the rival in it}/bin/python" "$(dirname "$0")/compare.py" bpe "$@"
