"""The demo: loads a model and serves the page. `python app.py --model <id or folder>`, or set MODEL; see --help."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from spectra.errors import SpectraError
from spectra.service.engine import EMBEDDED, Engine
from visual.endpoint import Endpoint
from visual.guard import Guard
from visual.page import build_page
from visual.serve import launch_options, queued

DEFAULTS = (EMBEDDED, "HuggingFaceTB/SmolLM2-135M-Instruct")  # a Space has no package with the embedded one
MAX_VISITORS = 16
"""Waiting for the model, the one being served included."""
LENT_SECONDS = 120


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model",
        default=os.environ.get("MODEL") or None,
        help="a Hugging Face id, a folder, or `embedded`; with several, separated by commas, the page offers a choice "
        "(default: embedded)",
    )
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        default=os.environ.get("ENDPOINT") or None,
        help="an OpenAI-compatible server that the Chat tab talks to; a key, if it needs one, in OPENAI_API_KEY",
    )
    parser.add_argument(
        "--host",
        default=os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"),
        help="the address to listen on (default: 127.0.0.1, this machine only)",
    )
    parser.add_argument(
        "--port", type=int, default=int(os.environ.get("GRADIO_SERVER_PORT", "7860")), help="default: 7860"
    )
    parser.add_argument("--mcp", action="store_true", help="offer the race as an MCP tool too (needs gradio[mcp])")
    return parser.parse_args(arguments)


def lender() -> Callable[[Any], Any] | None:
    """On a Space with lent GPUs, the decorator that gets one for each call; None elsewhere."""
    try:
        import spaces
    except ImportError:
        return None
    lend: Callable[[Any], Any] = spaces.GPU(duration=LENT_SECONDS)
    return lend


def main() -> None:
    options = parse()
    try:
        if options.mcp and find_spec("mcp") is None:
            raise SpectraError("mcp", "its package is missing; pip install 'gradio[mcp]'")
        endpoint = Endpoint(options.endpoint, os.environ.get("OPENAI_API_KEY", "")) if options.endpoint else None
        models = [name.strip() for name in (options.model or "").split(",") if name.strip()]
        engine = Engine.load(*(models or DEFAULTS), lend=lender())
        engine.models = models or [engine.chosen]
    except SpectraError as error:
        raise SystemExit(f"error: {error}") from None
    print(*(f"warning: model: {problem}\n" for problem in engine.problems), sep="", end="", file=sys.stderr)
    guard = Guard()
    page = queued(build_page(engine, endpoint, max_visitors=MAX_VISITORS, guard=guard), 8 * MAX_VISITORS)
    page.launch(server_name=options.host, server_port=options.port, mcp_server=options.mcp, **launch_options(guard))


if __name__ == "__main__":
    main()
