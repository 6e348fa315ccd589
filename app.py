"""The demo: loads a model and serves the page. `python app.py --model <id or folder>`, or set MODEL; see --help."""

import argparse
import os

from spectra.engine import Engine
from spectra.errors import SpectraError
from visual.page import build_page
from visual.serve import launch_options

WAITING = 16


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=os.environ.get("MODEL") or None, help="Hugging Face id or folder")
    parser.add_argument("--host", default=os.environ.get("GRADIO_SERVER_NAME", "127.0.0.1"))
    parser.add_argument("--port", type=int, default=int(os.environ.get("GRADIO_SERVER_PORT", "7860")))
    return parser.parse_args()


def main() -> None:
    options = parse()
    try:
        engine = Engine.load(options.model)
    except SpectraError as error:
        raise SystemExit(f"error: {error}") from None
    page = build_page(engine, waiting=WAITING).queue(max_size=8 * WAITING)
    page.launch(server_name=options.host, server_port=options.port, **launch_options())


if __name__ == "__main__":
    main()
