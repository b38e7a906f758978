"""Makes the texts of bench/peers/tokenizer.sh from Debian packages: python3 tokenizer_texts.py FOLDER

Writes prose.jsonl (the Debian Administrator's Handbook in English), chinese.jsonl (the same book and the Debian
Reference in Chinese, Chinese lines only: the untranslated and the code are left out) and code.jsonl (the installed
Python's own source), a document a line. The packages are fetched with `apt-get download` and unpacked into FOLDER;
nothing is installed.
"""
import glob
import html
import json
import pathlib
import re
import subprocess
import sys

PACKAGES = ("debian-handbook", "debian-reference-zh-cn")
HANDBOOK = "usr/share/doc/debian-handbook/html/"
TEXTS = {"prose": [HANDBOOK + "en-US/*.html"],
         "chinese": [HANDBOOK + "zh-CN/*.html", HANDBOOK + "zh-TW/*.html",
                     "usr/share/debian-reference/ch*.zh-cn.html"]}


def page_text(path):
    text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    text = re.sub(r"(?s)<(script|style|head)\b.*?</\1>", "", text)
    text = html.unescape(re.sub(r"<[^>]+>", "", text))
    return [line.strip() for line in text.split("\n") if line.strip()]


def is_chinese(line):
    return 2 * sum("\u4e00" <= c <= "\u9fff" for c in line) > len(line)


def write(path, documents):
    with open(path, "w", encoding="utf-8") as out:
        for text in documents:
            out.write(json.dumps({"text": text}) + "\n")


def make(folder):
    """The paths of the three texts, made where they are not there yet."""
    folder = pathlib.Path(folder)
    made = [folder / f"{name}.jsonl" for name in ("prose", "code", "chinese")]
    if all(path.exists() for path in made):
        return [str(path) for path in made]
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True, capture_output=True)
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, folder / "unpacked"], check=True)
    for name, patterns in TEXTS.items():
        pages = []
        for pattern in patterns:
            for page in sorted(glob.glob(str(folder / "unpacked" / pattern))):
                lines = page_text(page)
                pages.append("\n".join(filter(is_chinese, lines) if name == "chinese" else lines))
        write(folder / f"{name}.jsonl", pages)
    sources = sorted(glob.glob("/usr/lib/python3*/**/*.py", recursive=True))
    write(folder / "code.jsonl", (open(path, encoding="utf-8", errors="replace", newline="").read()
                                  for path in sources))
    return [str(path) for path in made]


if __name__ == "__main__":
    print("\n".join(make(sys.argv[1])))
