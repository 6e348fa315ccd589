"""The page: a header and one tab for each way to look at speculative decoding. No measuring."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import gradio as gr

from visual.api import add_endpoint
from visual.endpoint import Endpoint
from visual.engine import Engine
from visual.form_values import CheckedBlocks
from visual.guard import Guard
from visual.run.admission import AdmissionQueue
from visual.serve import ASSETS
from visual.tabs.chat import build_chat
from visual.tabs.compare import build_compare
from visual.tabs.datastore import build_datastore
from visual.tabs.learn import build_learn
from visual.tabs.race import build_race
from visual.tabs.replay import build_replay
from visual.widgets import visitor_of

HEADER = """<header class="top"><h1>SPECTRA</h1><p>The same text in fewer steps.</p><ul class="badges"></ul></header>"""

KEPT_UPLOADS = (10**9, 1)
"""gradio deletes what it knows of when it ends, and after so many seconds, which is never: one of its rounds that an
upload falls into is its last. `visual.uploads` deletes each in time.
"""

END_SECONDS = 5.0
"""How long what goes on is waited for when the server ends."""


def build_page(
    engine: Engine,
    endpoint: Endpoint | None = None,
    *,
    races: Path = ASSETS / "races",
    max_visitors: int = 16,
    guard: Guard | None = None,
    together: int | None = None,
) -> gr.Blocks:
    """The demo for one engine. `visual.serve.launch_options` has what its `launch` needs.

    endpoint: a server for the Chat tab to talk to instead of the engine. races: folder of recorded races; the page
    opens on the first one. max_visitors: those who wait for the model, the one being served included. guard: the one
    that `launch_options` has; with it runs that nobody listens to are ended, and what is kept of visitors who have no
    page open goes. together: how many decode at once; None: as many as the engine says.
    """
    admission = AdmissionQueue(max_visitors, guard, together=lambda: together or engine.together)
    with CheckedBlocks(title="SPECTRA", fill_width=True, analytics_enabled=False, delete_cache=KEPT_UPLOADS) as page:
        gr.HTML(HEADER, apply_default_css=False, js_on_load=None)
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Race", id="race") as race:
                build_race(page, race, engine, admission, races)
            with gr.Tab("Chat", id="chat"):
                if endpoint is None:
                    build_chat(engine, admission)
                else:
                    build_chat(endpoint, AdmissionQueue(max_visitors, guard), endpoint.note)
            with gr.Tab("Compare", id="compare") as compare:
                build_compare(page, compare, engine, admission)
            with gr.Tab("Datastore", id="datastore") as datastore:
                build_datastore(datastore, engine, admission)
            with gr.Tab("Replay", id="replay"):
                build_replay(engine, races)
            with gr.Tab("Learn", id="learn"):
                build_learn(engine)
        add_endpoint(engine, admission)
        forget = forget_visitor(engine, page)
        page.unload(on_unload(forget))
        if guard is not None:
            guard.presence.on_gone = forget
            guard.on_end = partial(admission.close, END_SECONDS)
    return page


def forget_visitor(engine: Engine, page: gr.Blocks) -> Callable[[str], None]:
    """What runs when a visitor is gone: of the tabs whose runs are kept, this one goes before those that are open."""

    def forget(visitor: str) -> None:
        engine.forget(visitor)
        tabs = page.state_holder
        with tabs.lock:
            if visitor in tabs.session_data:
                tabs.session_data.move_to_end(visitor, last=False)

    return forget


def on_unload(forget: Callable[[str], None]) -> Callable[[gr.Request], None]:
    """What runs when a visitor closes the page or loads it again."""

    def unload(request: gr.Request) -> None:
        forget(visitor_of(request))

    return unload
