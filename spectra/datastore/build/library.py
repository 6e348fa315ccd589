"""A corpus that comes with every Python: the documented functions and classes of its standard library (PSF-2.0).

No model wrote it, so that choosing by perplexity has something to choose from.
"""

import ast
import json
import random
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from textwrap import dedent

LICENCE = "PSF-2.0, of the installed Python"
CHARACTERS = range(200, 1600)
"""How long a text may be: shorter ones teach little, longer ones are cut anyway."""


def write_library(file: Path, texts: int, *, seed: int = 0) -> Path:
    """JSON lines with at most `texts` of them, whose modules are drawn by `seed`."""
    modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    random.Random(seed).shuffle(modules)
    drawn = islice(library_texts(modules), texts)
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in drawn), encoding="utf-8")
    return file


def library_texts(modules: Iterable[Path]) -> Iterator[str]:
    """Functions and classes with a docstring, module by module."""
    for path in modules:
        try:
            source = path.read_text(encoding="utf-8")
            module = ast.parse(source)
        except (OSError, UnicodeDecodeError, SyntaxError):
            continue
        lines = source.splitlines()
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node):
                text = dedent("\n".join(lines[node.lineno - 1 : node.end_lineno]))
                if len(text) in CHARACTERS:
                    yield text
