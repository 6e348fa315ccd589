"""What `spectra` and `python -m spectra...` run: a command line, imported where an interrupt ends with one line."""

import sys
from importlib import import_module

from spectra.io.streams import open_streams


def run(program: str = "spectra") -> int:
    """The exit code of a program's command line: of "spectra.bench" it is spectra/cli/bench.py."""
    open_streams()
    module = program.partition(".")[2] or "main"
    try:
        code: int = import_module(f"spectra.cli.{module}").main()
    except KeyboardInterrupt:  # while modules were imported; a command says itself how it was stopped
        print(f"\n{program}: stopped", file=sys.stderr)
        return 130
    return code
