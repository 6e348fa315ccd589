"""The demo: loads a model and serves the page. `python app.py --model <id or folder>`, or set MODEL; see --help."""

import argparse
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from spectra.engine import EMBEDDED, Engine
from spectra.errors import SpectraError
from visual.endpoint import Endpoint
from visual.page import build_page
from visual.serve import launch_options, queued

DEFAULTS = (EMBEDDED, "HuggingFaceTB/SmolLM2-135M-Instruct")  # a Space has no package with the embedded one
WAITING = 16
LENT_SECONDS = 120


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--model",
        default=os.environ.get("MODEL") or None,
        help="a Hugging Face id, a folder or embedded; several with commas between are offered to choose from",
    )
    help_endpoint = "an OpenAI-compatible server that the Chat tab talks to (its key, if any, in OPENAI_API_KEY)"
    parser.add_argument("--endpoint", metavar="URL", default=os.environ.get("ENDPOINT") or None, help=help_endpoint)
    parser.add_argument("--host", default=os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=int(os.environ.get("GRADIO_SERVER_PORT", "7860")))
    parser.add_argument("--mcp", action="store_true", help="offer the race as an MCP tool too (needs gradio[mcp])")
    return parser.parse_args()


def lender() -> Callable[[Any], Any] | None:
    """What lends a GPU by the call on a Space; None elsewhere."""
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
    page = queued(build_page(engine, endpoint, waiting=WAITING), 8 * WAITING)
    page.launch(server_name=options.host, server_port=options.port, mcp_server=options.mcp, **launch_options())


if __name__ == "__main__":
    main()
