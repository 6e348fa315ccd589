"""The demo: loads a model and serves the page. `python app.py --model <hub id, folder or GGUF file>`; see --help."""

import errno
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import ClassVar

PROGRAM = "spectra-demo" if __name__ == "spectra_demo" else "app.py"
"""An installed copy is the module `spectra_demo`, which the command `spectra-demo` runs."""

try:
    from spectra.cli.arguments import MODEL_HELP, Parser, add_options, exit_code, names, read_options
    from spectra.errors import SpectraError
    from spectra.io.streams import open_streams
    from spectra.service.engine import Engine
    from spectra.service.lent import Lend, LentEngine
    from spectra.service.loading import ModelOptions
    from spectra.service.shared_decoding import AT_ONCE
    from spectra.settings import check_number
    from spectra.target.choices import EMBEDDED
    from visual.space import MODELS
except KeyboardInterrupt:  # they take seconds; once they are there `main` says how it was stopped
    print(f"\n{PROGRAM}: stopped", file=sys.stderr)
    sys.exit(130)

DEFAULTS = (EMBEDDED, "HuggingFaceTB/SmolLM2-135M-Instruct")
"""The second for where the embedded one is not installed."""
GPU_DEFAULTS = (MODELS[0], EMBEDDED)
"""On a GPU of one's own; the second for where the hub cannot be reached, or the GPU has no room: no larger one is
fetched then."""
GPU_OFFERED = (*MODELS[:-1], EMBEDDED)
"""What the page offers there."""
PACKAGES = ("gradio", "plotly", "httpx")
"""Of the page alone: a plain `pip install spectra-decoding` does not bring them."""
MAX_VISITORS = 32
"""Waiting for the model, one being served included."""
HELP = {
    **MODEL_HELP,
    "model": "a hub id, a folder, a GGUF file, or `embedded`; with several, separated by commas, the page offers a "
    "choice (default: embedded; on a GPU a choice of models of 1 to 8 B parameters from the hub)",
    "endpoint": "an OpenAI-compatible server that the Chat tab talks to; a key, if it needs one, in OPENAI_API_KEY",
    "endpoint_model": "which of that server's models answers (default: the first that it lists)",
    "host": "the address to listen on; 127.0.0.1 is this machine only",
    "port": "the port to listen on",
    "together": "how many visitors are answered at once, up to 32; the others wait in a queue (default: as many as fit "
    "into a forward pass of at most three times the time of one, or of 0.05 s, by the measured cost of a step)",
    "mcp": "offer the race as an MCP tool too (needs gradio[mcp])",
}


@dataclass(frozen=True, slots=True)
class AppOptions:
    """model: how the page's models are loaded; its `model` names them, with commas between them."""

    ENVIRONMENT: ClassVar = "SPECTRA"
    model: ModelOptions
    endpoint: str | None = None
    endpoint_model: str | None = None
    host: str = "127.0.0.1"
    port: int = 7860
    mcp: bool = False
    together: int | None = None

    def __post_init__(self) -> None:
        if self.mcp and find_spec("mcp") is None:
            raise SpectraError("mcp", "its package is missing; pip install 'gradio[mcp]'")
        if self.endpoint_model is not None and self.endpoint is None:
            raise SpectraError("endpoint-model", "it is one of a server's models; give --endpoint too")
        if not 0 < self.port < 65536:
            raise SpectraError("port", f"{self.port} is out of range; give 1 to 65535")
        if not self.host.strip():
            raise SpectraError("host", "it is blank; give an address, such as 127.0.0.1")
        if self.model.step == "native" and gpu_is_lent():
            raise SpectraError("step", "native steps run on a CPU, and the GPU is lent by the call; use auto or eager")
        if self.model.remember is not None and gpu_is_lent():
            raise SpectraError("remember", "nothing learned in a call to a lent GPU outlives it; leave it out")
        if self.together is not None:
            check_number("together", self.together, 1, AT_ONCE, whole=True)
            if self.together > 1 and gpu_is_lent():
                raise SpectraError("together", "a GPU that is lent by the call serves one at a time; leave it out")

    @property
    def address(self) -> str:
        """The host without the brackets that an IPv6 address has in a browser."""
        return self.host.strip().removeprefix("[").removesuffix("]")

    @property
    def models(self) -> tuple[str, ...]:
        return names(self.model.model or "")


def build_parser() -> Parser:
    """Gradio's own variables for address and port count too: a Space sets them."""
    parser = Parser(prog=PROGRAM, description="Loads a model and serves the page.")
    gradio = {"host": os.environ.get("GRADIO_SERVER_NAME"), "port": os.environ.get("GRADIO_SERVER_PORT")}
    add_options(parser, AppOptions, HELP, defaults={name: value for name, value in gradio.items() if value})
    return parser


def gpu_is_lent() -> bool:
    """Whether this is a Space that lends a GPU by the call."""
    return os.environ.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")  # as the package asks


def lender() -> Lend | None:
    """Where a GPU is lent by the call, what runs a function on one; None elsewhere. Raises SpectraError."""
    if not gpu_is_lent():
        return None
    try:
        import spaces
    except ImportError:
        raise SpectraError(
            "device", "SPACES_ZERO_GPU says that a GPU is lent by the call; pip install spaces, or unset it"
        ) from None
    except Exception as error:  # on a machine that is no such Space each version fails in its own way
        raise SpectraError(
            "device", f"SPACES_ZERO_GPU says that a GPU is lent by the call, but not here ({error}); unset it"
        ) from error

    return lambda work, seconds: spaces.GPU(work, duration=seconds)


def check_packages() -> None:
    """Raise SpectraError where one that the page takes is not installed."""
    for package in PACKAGES:
        if find_spec(package) is None:
            raise SpectraError(package, "the page takes its package; pip install 'spectra-decoding[demo]'")


def check_free(host: str, port: int) -> None:
    """Raise SpectraError where the page could not be served, before a model is loaded."""
    try:
        kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise SpectraError(
            "host", f"{host[:80]!r} is no address of this machine; give one, such as 127.0.0.1"
        ) from None
    with socket.socket(kind, socket.SOCK_STREAM) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            line.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise SpectraError("port", f"{port} is in use; give another one") from None
            if error.errno in (errno.EACCES, errno.EPERM):
                raise SpectraError("port", f"{port} is not open to this user; give one above 1023") from None
            problem = f"{host} cannot be listened on ({error.strerror}); give another one, such as 127.0.0.1"
            raise SpectraError("host", problem) from None


def default_models(options: ModelOptions) -> tuple[str, ...]:
    """Where no model is named the page begins with the first of these that can be loaded."""
    import torch

    on_gpu = torch.cuda.is_available() and (options.device or "cuda").startswith("cuda")
    return GPU_DEFAULTS if on_gpu else DEFAULTS


def serve(options: AppOptions) -> int:
    """Load the first model that can be reached and serve the page until it is stopped."""
    check_packages()
    from visual.endpoint import Endpoint
    from visual.guard import Guard
    from visual.proxies import check_proxies

    check_free(options.address, options.port)
    check_proxies(options.address, options.port)
    key = os.environ.get("OPENAI_API_KEY", "")
    endpoint = None if options.endpoint is None else Endpoint(options.endpoint, key, model=options.endpoint_model)
    lend = lender()
    if lend is None:  # what a GPU takes that is lent is known in a call
        options.model.check_here()
    from visual.page import build_page  # with gradio, which takes seconds: a wrong option ends the program before
    from visual.serve import launch, queued

    models = options.models or (default_models(options.model) if lend is None else MODELS)
    if models is GPU_DEFAULTS:
        print(f"{models[0]} comes from the hub, or its cache here; --model embedded needs neither", file=sys.stderr)
    load = Engine.load if lend is None else partial(LentEngine.load_for, lend)
    engine = load(*models, options=options.model)
    if models is DEFAULTS:
        engine.models = [engine.chosen]
    elif models is GPU_DEFAULTS:
        engine.models = list(GPU_OFFERED)
    print(*(f"warning: model: {problem}\n" for problem in engine.problems), sep="", end="", file=sys.stderr)
    guard = Guard()
    page = queued(
        build_page(engine, endpoint, max_visitors=MAX_VISITORS, guard=guard, together=options.together),
        8 * MAX_VISITORS,
    )
    launch(page, guard, host=options.address, port=options.port, mcp=options.mcp)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 2, with one line, for bad input."""
    open_streams()
    return exit_code(PROGRAM, lambda: serve(read_options(AppOptions, build_parser().parse_args(arguments))))


if __name__ == "__main__":
    sys.exit(main())
