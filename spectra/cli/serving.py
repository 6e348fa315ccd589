"""`python -m spectra.serving`: check store, tokenizer and settings, then become vLLM's server with our drafters.

Flags that are not ours go to `vllm serve` as they are. Bad input ends with exit code 2 and one line.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from spectra.cli.arguments import MODEL_HELP, Parser, add_model, environment, names, number
from spectra.errors import SpectraError
from spectra.io.resources import python_path
from spectra.serving.check import METHODS, plan_server
from spectra.serving.settings import ServingSettings

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


def build_parser() -> Parser:
    """Of `python -m spectra.serving`; flags that it does not know go to vLLM."""
    parser = Parser(
        prog="python -m spectra.serving",
        description="vLLM's OpenAI-compatible server with SPECTRA's drafters; other flags are those of `vllm serve`.",
        allow_abbrev=False,
    )
    add_model(parser)
    parser.add_argument("--method", default="spectra", help=f"{', '.join(METHODS)} (default: spectra)")
    parser.add_argument("--k", type=number(int), default=8, help="the most guessed tokens a request and step")
    parser.add_argument("--datastore", action="append", default=[], metavar="PATH", help=MODEL_HELP["datastores"])
    for name, what in (("requests", "requests"), ("tokens", "tokens, of all requests,"), ("context", "prompt tokens")):
        default = getattr(ServingSettings(), name)
        what = f"the most {what} that dictionaries are kept of (default: {default})"
        parser.add_argument(f"--spectra-{name}", type=number(int), default=default, help=what)
    parser.add_argument("--print", action="store_true", help="print vLLM's command line and do not start it")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 2 for bad input; else the process becomes the server."""
    chosen, foreign = build_parser().parse_known_args(arguments)
    limits = {name: getattr(chosen, f"spectra_{name}") for name in ("requests", "tokens", "context")}
    stores = chosen.datastore or list(names(environment("spectra-datastore")))
    try:
        check_foreign(foreign)
        plan = plan_server(chosen.model, chosen.method, chosen.k, stores, limits, foreign)
    except SpectraError as error:
        print(f"spectra.serving: {error}", file=sys.stderr)
        return 2
    print(f"spectra.serving: {plan}", file=sys.stderr, flush=True)
    command = [sys.executable, *plan.command]
    if chosen.print:
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
