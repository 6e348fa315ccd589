"""`python -m spectra.serving`: check store, tokenizer and settings, then become vLLM's server with our drafters.

Flags that are not ours go to `vllm serve` as they are. Bad input ends with exit code 2 and one line.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from spectra.cli.arguments import MODEL_HELP, Parser, add_options, exit_code, read_options
from spectra.errors import SpectraError
from spectra.io.resources import python_path
from spectra.serving.check import METHODS, ServingOptions, plan_server

ELSEWHERE = {
    "device": "install the build of vLLM for the device",
    "device-map": "give --tensor-parallel-size or --pipeline-parallel-size",
    "max-memory": "give --gpu-memory-utilization",
    "offload-folder": "give --cpu-offload-gb",
    "weights": "give --quantization",
    "numerics": "leave it out",
    "step": "leave it out, or give --enforce-eager",
    "draft": "leave it out",
}
"""Model options of the other commands, and what to give to vLLM."""

HELP = {
    **MODEL_HELP,
    "method": ", ".join(METHODS),
    "k": "the most guessed tokens a request and step",
    "spectra_requests": "the most requests that dictionaries are kept of",
    "spectra_tokens": "the most tokens, of all requests, that dictionaries are kept of",
    "spectra_context": "how many of a prompt's last tokens are read",
    "print": "print vLLM's command line and do not start it",
}


def build_parser() -> Parser:
    """Of `python -m spectra.serving`; flags that it does not know go to vLLM."""
    parser = Parser(
        prog="python -m spectra.serving",
        description="vLLM's OpenAI-compatible server with SPECTRA's drafters; other flags are those of `vllm serve`.",
        allow_abbrev=False,
    )
    add_options(parser, ServingOptions, HELP)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 2 for bad input; else the process becomes the server."""

    def go() -> int:
        chosen, foreign = build_parser().parse_known_args(arguments)
        return start(read_options(ServingOptions, chosen), foreign)

    return exit_code("spectra.serving", go)


def start(options: ServingOptions, foreign: Sequence[str]) -> int:
    """Become the server, or print its command line."""
    check_foreign(foreign)
    plan = plan_server(options, foreign)
    print(f"spectra.serving: {plan}", file=sys.stderr, flush=True)
    command = [sys.executable, *plan.command]
    if options.print:
        print(shlex.join(command))
        return 0
    return os.execve(sys.executable, command, server_environment())


def check_foreign(flags: Sequence[str]) -> None:
    """Raise SpectraError for options of other commands that mean nothing here, since vLLM takes the steps."""
    for flag in flags:
        name = flag.removeprefix("--").split("=")[0]
        if flag.startswith("--") and name in ELSEWHERE:
            raise SpectraError(name.replace("-", "_"), f"vLLM has a way of its own; {ELSEWHERE[name]}")


def server_environment() -> dict[str, str]:
    """Ours, with the project on vLLM's path and, where vLLM for CPUs brought it, the OpenMP that it asks for."""
    found = {**os.environ, "PYTHONPATH": python_path()}
    openmp = Path(sys.prefix) / "lib" / "libiomp5.so"
    if openmp.exists():
        found.setdefault("LD_PRELOAD", str(openmp))
    return found
