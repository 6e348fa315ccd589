"""`python -m spectra.bench page`: a race through the page itself, as a visitor's browser or script asks for it."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spectra.bench.gpu.run import end_group, ended_by_signal, ending_with_this
from spectra.bench.steps import PROMPT
from spectra.errors import SpectraError
from spectra.io.command_line import options_of, without_options
from spectra.io.files import check_writable, write_text
from spectra.io.resources import package_root, python_path
from spectra.methods.presets import check_method
from spectra.service.loading import ModelOptions
from spectra.settings import Limits
from spectra.target.choices import EMBEDDED

START_SECONDS = 150
LANES = ("plain", "method")


@dataclass(frozen=True, slots=True)
class PageOptions:
    """method: races plain decoding. out: a file for the table."""

    model: ModelOptions
    method: str = "spectra"
    max_new_tokens: int = 256
    out: Path | None = None

    def __post_init__(self) -> None:
        check_method(self.method)
        Limits(self.max_new_tokens)
        if find_spec("gradio_client") is None or not (package_root() / "app.py").is_file():
            raise SpectraError("model", "the page takes gradio and a checkout with app.py; run make setup there")


def run_page(options: PageOptions) -> int:
    """The subcommand `page`: starts the page, races once, ends it."""
    if options.out is not None:
        check_writable(options.out, "out")
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # gradio's client would tell the Hub that it runs
    port = free_port()
    model = replace(options.model, model=options.model.model or EMBEDDED)  # the page's own default is another on a GPU
    place = ("--host", "127.0.0.1", "--port", str(port))
    command = [sys.executable, str(package_root() / "app.py"), *options_of(model), *place]
    with ended_by_signal():  # the page is a group of its own: whoever ends this process does not reach it
        text = served(command, port, options)
    print(text)
    if options.out is not None:
        write_text(options.out, text + "\n", "out")
    return 0


def served(command: list[str], port: int, options: PageOptions) -> str:
    """The table of a race through the page that the command serves, which is ended."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**without_options(os.environ), "PYTHONPATH": python_path()},
        start_new_session=True,
        preexec_fn=ending_with_this(),
    )
    try:
        began = time.monotonic()
        url = f"http://127.0.0.1:{port}"
        wait_for(url, process)
        started = time.monotonic() - began
        last = race(url, options.method, options.max_new_tokens)
    finally:
        end_group(process)
    return table(last, started)


def wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Until the page answers. Raises SpectraError where it does not."""
    import httpx

    over = time.monotonic() + START_SECONDS
    while time.monotonic() < over:
        if process.poll() is not None:
            raise SpectraError("model", "the page ended before it could be used; its message is above")
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise SpectraError("model", f"the page did not answer within {START_SECONDS} seconds; try a smaller model")


def race(url: str, method: str, max_new_tokens: int) -> dict[str, dict[str, Any]]:
    """The last event of each lane, see `visual.api`. Raises SpectraError for what the page refuses."""
    from gradio_client import Client
    from gradio_client.exceptions import AppError

    job = Client(url, verbose=False).submit(PROMPT, method, max_new_tokens, 0.0, 7, api_name="/compare")
    try:
        job.result()
    except AppError as error:
        field, colon, problem = str(error).partition(": ")
        raise SpectraError(field if colon else "method", problem or field) from error
    return {event["lane"]: event for event in job.outputs()}


def table(last: dict[str, dict[str, Any]], started: float) -> str:
    """Markdown."""
    plain, ours = (last[lane] for lane in LANES)
    same = "the same text" if plain["text"] == ours["text"] else "ANOTHER text"
    lines = ["| lane | tokens | tokens/s |", "|---|---:|---:|"]
    lines += [f"| {lane} | {last[lane]['tokens']} | {last[lane]['tokens_per_second']:.1f} |" for lane in LANES]
    return "\n".join([*lines, "", f"Both lanes wrote {same}. The page was there after {started:.0f} s."])


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
