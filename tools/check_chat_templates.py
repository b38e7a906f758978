#!/usr/bin/env python3
"""Compares the prompts that `espalier chat --render` writes with those of transformers, template by template.

    python3 tools/check_chat_templates.py [--dir FOLDER] [--espalier BINARY] [--only WORD] [--errors]

FOLDER holds *.jinja; without --dir it is models/templates of the llama.cpp source in ESP_LLAMACPP_SRC. Needs
transformers. Where transformers refuses, so must we; what the messages say is shown with --errors and not compared.
Exit status 1 where anything differs.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from chat_cases import TOKENS, cases, transformers_text, transformers_tokenizer


def ours(binary, template, conversations):
    lines = "\n".join(json.dumps({**TOKENS, **{k: v for k, v in c.items() if k != "name"}}) for c in conversations)
    run = subprocess.run([binary, "chat", str(template), "--render"], input=lines, capture_output=True, text=True)
    if run.returncode != 0:
        return [{"error": run.stderr.strip()}] * len(conversations)
    return [json.loads(line) for line in run.stdout.split("\n") if line]


def show_difference(name, case, mine, theirs):
    print(f"  {name}: {case}")
    if "error" in mine or "error" in theirs:
        print(f"    ours:         {mine.get('error') or 'a prompt: ' + repr(mine['text'])[:200]}")
        print(f"    transformers: {theirs.get('error') or 'a prompt: ' + repr(theirs['text'])[:200]}")
        return
    a, b = (repr(x["text"]) for x in (theirs, mine))
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    print(f"    from character {at} of repr: transformers {a[max(0, at - 40):at + 60]!r}\n"
          f"    {'':>28}       ours {b[max(0, at - 40):at + 60]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = os.environ.get("ESP_LLAMACPP_SRC")
    parser.add_argument("--dir", default=source and os.path.join(source, "models", "templates"))
    parser.add_argument("--espalier", default="build/release/espalier")
    parser.add_argument("--only", default="", help="templates whose name has this word")
    parser.add_argument("--errors", action="store_true", help="show both sides of what both refuse")
    options = parser.parse_args()
    if not options.dir:
        sys.exit("no templates: give --dir FOLDER, or set ESP_LLAMACPP_SRC")
    tokenizer, conversations = transformers_tokenizer(), cases()
    equal = refused = wrong = 0
    templates = sorted(p for p in Path(options.dir).glob("*.jinja") if options.only in p.name)
    for path in templates:
        text = path.read_text(encoding="utf-8")
        for case, mine in zip(conversations, ours(options.espalier, path, conversations)):
            theirs = transformers_text(tokenizer, text, case)
            if "text" in mine and mine["text"] == theirs.get("text"):
                equal += 1
            elif "error" in mine and "error" in theirs:
                refused += 1
                if options.errors:
                    show_difference(path.name, case["name"], mine, theirs)
            else:
                wrong += 1
                show_difference(path.name, case["name"], mine, theirs)
    print(f"{len(templates)} templates, {len(conversations)} conversations: {equal} equal prompts, {refused} refused by "
          f"both, {wrong} differ")
    return 1 if wrong or not templates else 0


if __name__ == "__main__":
    sys.exit(main())
