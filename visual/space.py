"""`python -m visual.space FOLDER`: a folder to push to a Hugging Face Space with ZeroGPU, complete and ready to run."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from spectra.errors import SpectraError
from spectra.io.resources import package_root, shipped

MODELS = ("HuggingFaceTB/SmolLM2-1.7B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct")
"""What the page offers where nothing else is asked for, ungated all; the shipped stores fit the first and the last."""
CODE = ("spectra", "visual")
DATA = ("assets", "datastores")
FILES = ("app.py", "LICENSE")
TEXTS = ("README.md", "requirements.txt", ".gitattributes")
KEPT = ".git"
PLACED_BY_SPACE = ("gradio", "torch")
"""Requirements that the Space itself brings, in versions that its GPUs take."""
README = """---
title: SPECTRA
sdk: gradio
sdk_version: {gradio}
app_file: app.py
python_version: "3.12"
suggested_hardware: zero-a10g
models: [{models}]
license: apache-2.0
short_description: The same text in fewer forward passes
---

# SPECTRA

Training-free speculative decoding: plain decoding and SPECTRA answer the same prompt side by side, every token coloured
by the source that guessed it.

Every option of the page can be set as a variable of the Space: SPECTRA_MODEL (several with commas between them),
SPECTRA_DTYPE, SPECTRA_NUMERICS, SPECTRA_STEP, SPECTRA_WEIGHTS, SPECTRA_DATASTORE, ... In 8 or 4 bits (SPECTRA_WEIGHTS
int8 or q4) requirements.txt takes a line more: torchao.
"""


def write_space(folder: Path) -> Path:
    """Write it whole, in the place of what an earlier call wrote, whose `.git` stays.

    Raises SpectraError for a folder that holds anything else.
    """
    root = package_root().resolve()
    if not (root / "app.py").is_file():
        raise SpectraError(
            "folder", "a Space is made of a checkout, not of an installed package; run `make space` there"
        )
    folder = Path(os.path.realpath(folder))
    if not folder.name:
        raise SpectraError("folder", f"{folder} is the root folder; name a folder in it")
    fresh, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    finish(folder, old)
    if folder == root or folder in root.parents or any(folder.is_relative_to(root / name) for name in (*CODE, *DATA)):
        raise SpectraError("folder", f"{folder} is part of the checkout or holds it; name a new folder")
    if folder.exists():
        check_replaceable(folder)
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        fill(fresh, root)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)  # on a full disk the room is needed
        raise
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    finish(folder, old)
    return folder


def fill(fresh: Path, root: Path) -> None:
    """Make the folder, with all files of a Space. root: the checkout."""
    fresh.mkdir(parents=True)
    for name in CODE:
        shutil.copytree(root / name, fresh / name, ignore=shutil.ignore_patterns("__pycache__", "data"))
    for name in DATA:
        shutil.copytree(shipped(name), fresh / name, ignore=shutil.ignore_patterns(".*", "__pycache__", "*-unrefined"))
    for name in FILES:
        shutil.copy(root / name, fresh / name)
    (fresh / "README.md").write_text(
        README.format(gradio=version("gradio"), models=", ".join(MODELS)), encoding="utf-8"
    )
    (fresh / "requirements.txt").write_text(requirements(root / "requirements.txt"), encoding="utf-8")
    (fresh / ".gitattributes").write_text(large_files(fresh), encoding="utf-8")


def check_replaceable(folder: Path) -> None:
    """Raise SpectraError unless all that the folder holds is what `write_space` writes, its `.git` apart."""
    if not folder.is_dir():
        raise SpectraError("folder", f"{folder} is not a folder; name a new one")
    held = {path.name for path in folder.iterdir()}
    if others := sorted(held - {*CODE, *DATA, *FILES, *TEXTS, KEPT}):
        raise SpectraError("folder", f"{folder} holds {others[0]!r}, which is no part of a Space; name a new folder")
    if held and "app.py" not in held:
        raise SpectraError("folder", f"{folder} holds other things than a Space; name a new folder")


def finish(folder: Path, old: Path) -> None:
    """The last part of a replacement, of one that was killed too: `.git` moves over and the old folder goes."""
    if not old.exists():
        return
    if not folder.exists():
        old.rename(folder)
        return
    if (old / KEPT).exists():
        (old / KEPT).rename(folder / KEPT)
    shutil.rmtree(old)


def large_files(folder: Path) -> str:
    """Which files git keeps in LFS: the Hub refuses a push that has binary files anywhere else."""
    endings = sorted({path.suffix for path in folder.rglob("*") if path.is_file() and not is_text(path)})
    return "".join(f"*{ending} filter=lfs diff=lfs merge=lfs -text\n" for ending in endings)


def is_text(file: Path) -> bool:
    """Whether git takes it for text, by its first 8,000 bytes."""
    with file.open("rb") as opened:
        return b"\0" not in opened.read(8000)


def requirements(file: Path) -> str:
    """The page's own, without what the Space brings, and the package that lends the GPU."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    kept = [line for line in lines if re.split(r"[=<>~\[ ]", line)[0] not in PLACED_BY_SPACE]
    return "\n".join([*kept, "spaces"]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 2 for bad input and 130 where it is stopped, with one line either way."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if len(given) != 1 or not given[0].strip() or given[0].startswith("-"):
            raise SpectraError("folder", "it takes one; give a folder to write")
        try:
            print(write_space(Path(given[0])))
        except OSError as error:
            why = error.args[0][0][2] if isinstance(error, shutil.Error) else error  # one of all that was not copied
            raise SpectraError("folder", f"cannot write {given[0]} ({why}); give a writable folder") from error
    except SpectraError as error:
        print(f"visual.space: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nvisual.space: stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
