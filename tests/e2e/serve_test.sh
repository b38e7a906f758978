#!/usr/bin/env bash
# The server as a program: it starts, says where it is, answers, and ends in good order; a taken port is one error.
# usage: serve_test.sh PROGRAM BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
espalier=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# A model of bytes that has learned nothing.
printf 'text of no meaning %.0s' {1..2000} > text.txt
"$espalier" prepare text.txt --vocab-size 300 --out data > out.txt 2> err.txt || { cat err.txt; exit 1; }
cat > recipe.toml << END
[run]
out = "run"
max_steps = 2
[data]
train = "data/train-*.tokens"
batch = 2
context = 64
[model]
layers = 1
width = 32
heads = 2
END
"$espalier" train recipe.toml --model.family=llama > out.txt 2> err.txt || { cat err.txt; exit 1; }

python3 - "$espalier" << 'END'
import json, re, signal, subprocess, sys, threading, urllib.error, urllib.request

server = subprocess.Popen([sys.argv[1], "serve", "run", "--port", "0"], stderr=subprocess.PIPE, text=True)
url = None
for line in server.stderr:
    if found := re.search(r"serving at (\S+)/v1", line):
        url = found[1]
        break
assert url, "it did not say where it serves"
threading.Thread(target=server.stderr.read, daemon=True).start()


def ask(path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url + path, data), timeout=60) as reply:
        return json.load(reply)


assert ask("/health")["status"] == "ok"
assert len(ask("/v1/models")["data"]) == 1
answer = ask("/v1/completions", {"prompt": "text", "max_tokens": 5, "ignore_eos": True})
assert answer["usage"]["completion_tokens"] == 5, answer
try:
    ask("/v1/completions", {"prompt": "text", "max_tokens": "many"})
    raise SystemExit("a wrong type was taken")
except urllib.error.HTTPError as e:
    assert e.code == 400 and "max_tokens" in json.load(e)["error"]["message"]

taken = subprocess.run([sys.argv[1], "serve", "run", "--port", url.rsplit(":", 1)[1]], capture_output=True, text=True)
assert taken.returncode != 0 and "port" in taken.stderr.splitlines()[-1], taken.stderr
server.send_signal(signal.SIGTERM)
assert server.wait(60) == 0, server.returncode
END
