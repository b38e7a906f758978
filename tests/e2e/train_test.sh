#!/usr/bin/env bash
# The road on the real program, with a tiny model: shards, train (the loss falls), Ctrl-C, resume, inspect, report.
# usage: train_test.sh PROGRAM BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
espalier=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# Token shards without a header, as nanoGPT writes them: the bytes of a text that repeats itself, two bytes a token.
python3 - << 'END'
import array
text = list(b"the tree is trained to a shape; " * 4000)
array.array("H", text).tofile(open("train.bin", "wb"))
array.array("H", text[:4000]).tofile(open("val.bin", "wb"))
END
cat > recipe.toml << 'END'
[run]
out = "run"
max_steps = 60
log_every = 2
eval_every = 20
save_every = 20
[model]
layers = 1
width = 64
heads = 2
vocab = 256
[data]
train = "train.bin"
val = "val.bin"
batch = 2
context = 64
[optim]
lr = 0.003
warmup_steps = 5
[compute]
dtype = "f32"
peak_gflops = -1
END

"$espalier" train recipe.toml > out.txt 2> err.txt || { cat err.txt; exit 1; }
grep -q "val loss" out.txt
python3 - << 'END'
import json
rows = [json.loads(line) for line in open("run/metrics.jsonl")]
losses = [row["loss"] for row in rows if row.get("loss") is not None]
assert losses[0] > 5 and losses[-1] < 2.5, losses
END
test -s run/report.html
"$espalier" report run --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["loss"]["step"] == 60'
"$espalier" inspect run/model > /dev/null

# Nobody reads what it says any more: the training goes on to its end, and nothing of it lands in the run's files.
"$espalier" train recipe.toml --run.out=unheard 2>&1 | true || true
"$espalier" train recipe.toml --run.out=mute >&- 2>&- <&- || true
for run in unheard mute; do
  test "$("$espalier" report $run --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["loss"]["step"])')" = 60
done
python3 -c 'import json; [json.loads(line) for line in open("mute/metrics.jsonl")]'

# Ctrl-C: the run stops in good order, says so by its status, and goes on from where it stood. A shell without job
# control starts background programs deaf to SIGINT, so Python starts this one.
python3 - "$espalier" << 'END'
import os, signal, subprocess, sys, time
train = [sys.argv[1], "train", "recipe.toml", "--run.out=stopped", "--run.max_steps=1000000"]
child = subprocess.Popen(train, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
for _ in range(1200):
    time.sleep(0.1)
    if os.path.exists("stopped/metrics.jsonl") and os.path.getsize("stopped/metrics.jsonl") > 0:
        break
child.send_signal(signal.SIGINT)
errors = child.communicate()[1]
assert child.returncode == 130, (child.returncode, errors)
END
steps=$("$espalier" report stopped --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["loss"]["step"])')
"$espalier" train recipe.toml --run.out=stopped --run.max_steps=$((steps + 20)) > out.txt 2> err.txt || {
  cat err.txt
  exit 1
}
"$espalier" report stopped --json | python3 -c "import json, sys; assert json.load(sys.stdin)['loss']['step'] > $steps"
