"""How the page is launched: its own theme, style, icon and files. All come from this machine, nothing from a CDN."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import gradio as gr
import plotly
from gradio.utils import LRUCache
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from spectra.io.resources import shipped
from visual import palette
from visual.first_script import with_first_script
from visual.form_values import with_refusals
from visual.guard import Guard
from visual.kept_tabs import with_kept_tabs
from visual.run.race_file import MAX_BYTES
from visual.uploads import Uploads, with_places, with_words

ASSETS = shipped("assets")
SHARED_STYLES = ("base", "form", "settings", "scoreboard", "lanes", "charts", "step-panel")
TAB_STYLES = ("replay", "compare", "chat", "learn", "datastore")
"""assets/css/<name>.css; later ones overrule earlier ones."""
POLL_SECONDS = 0.05
"""Between two looks for a waiting request."""
REMEMBERED_VISITORS = 10_000
"""Visitors of whom gradio keeps which of their requests are not answered yet."""
REMEMBERED_TABS = 64
"""Of so many visitors the last runs are kept, about a megabyte each; gradio's own 10,000 would fill any machine."""


class Served(StaticFiles):
    """Files that a browser asks about before it uses its copy, so that a new version is never mixed with an old one."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


class LastUsed(LRUCache[str, Any]):
    """Values by key of which the one goes that was not asked for the longest; of gradio's own it is the oldest, whose
    visitor may still be waiting for an answer."""

    def __getitem__(self, key: str) -> Any:
        self.move_to_end(key)
        return super().__getitem__(key)


class Messages(LastUsed):
    """The messages for each visitor. Where gradio has one for a visitor who is not among them, an error would end its
    queue for all: nobody waits for such a message, so it goes nowhere. Who listens twice and hangs up is let go twice:
    an error then would leave a task that never ends."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key) if key in self else asyncio.Queue()

    def __delitem__(self, key: str) -> None:
        if key in self:
            super().__delitem__(key)


def queued(page: gr.Blocks, max_size: int) -> gr.Blocks:
    """The page with its queue of requests, max_size long, which looks for work every 50 ms.

    Gradio's own pauses are 1 and 10 ms, at idle and during a run alike: 6 % of a core that the model decodes on. It
    also keeps the messages of 2,000 visitors who never listened; here it is four times the queue. It forgets no
    visitor who left before an answer was complete, and after each request makes a table of the last 10,000 for a page
    of figures that is not offered here: both are bounded.
    """
    page.queue(max_size=max_size, api_open=False)
    queue = page._queue
    queue.sleep_when_free = queue.progress_update_sleep_when_free = POLL_SECONDS
    queue.pending_messages_per_session = Messages(4 * max_size)
    queue.pending_event_ids_session = LastUsed(REMEMBERED_VISITORS)
    queue.ANALYTICS_MAX_EVENTS = 1
    queue.ANAYLTICS_CACHE_FREQUENCY = sys.maxsize
    return page


def launch(page: gr.Blocks, guard: Guard, *, host: str, port: int, mcp: bool = False) -> None:
    """Serve the page until it is stopped, by Ctrl-C, a signal to terminate or the loss of its terminal: in any case
    uploads are deleted, and what goes on is stopped. Under nohup the loss of the terminal stops nothing.

    Gradio asks it once, as a browser would: see `check_proxies`. The address that a header names counts for a visitor's
    where FORWARDED_ALLOW_IPS trusts who sends it; uvicorn would trust this machine unasked, and so each visitor whose
    own header a proxy here, or a tunnel, lets pass.
    """
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    name = f"[{host}]" if ":" in host else host  # it makes an address for a browser of it
    try:
        page.launch(server_name=name, server_port=port, mcp_server=mcp, **launch_options(guard))
    except (KeyboardInterrupt, OSError):  # before gradio waits for one, or where it has no terminal to write that to
        page.close(verbose=False)
        raise
    finally:
        if guard.on_end is not None:
            guard.on_end()


def launch_options(guard: Guard | None = None) -> dict[str, Any]:
    """Keyword arguments for `Blocks.launch`. guard: the one that `build_page` was given."""
    guard = guard or Guard()
    bundle = Path(plotly.__file__).parent / "package_data"
    return {
        "theme": gr.themes.Base(font=["Inter", "system-ui", "sans-serif"], font_mono=["JetBrains Mono", "monospace"]),
        "css": palette.css(),
        "css_paths": [ASSETS / "css" / f"{name}.css" for name in (*SHARED_STYLES, *TAB_STYLES)],
        "favicon_path": ASSETS / "favicon.svg",
        "footer_links": [],
        "ssr_mode": False,
        "enable_monitoring": False,
        "run_history": False,  # it would offer to send what visitors ask to a bucket of the Hub
        "max_file_size": MAX_BYTES,
        "state_session_capacity": REMEMBERED_TABS,
        "app_kwargs": {
            "middleware": [
                Middleware(with_words),
                Middleware(guard.wrap),
                Middleware(with_kept_tabs, guard.pages),
                Middleware(with_places),
                Middleware(with_refusals),
                Middleware(with_first_script),
            ],
            "routes": [
                Uploads(guard.limits).route(),
                Mount("/spectra/plotly", Served(directory=bundle)),
                Mount("/spectra", Served(directory=ASSETS)),
            ],
        },
    }
