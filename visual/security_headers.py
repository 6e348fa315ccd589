"""Headers that every answer of the server has: what it may load, who may frame it, that its type is what it says."""

import logging
import os

from h11 import LocalProtocolError

from visual.asgi import Message, Send

log = logging.getLogger("spectra")

SPACE = "https://huggingface.co https://*.hf.space"
"""Who shows a Space in a frame."""
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
"""gradio starts by inline scripts and makes functions of `js_on_load`; nothing is loaded from elsewhere."""


class SendWithHeaders:
    """What is sent, with headers that say what it may load, who may frame it, and that its type is what it says.

    begun: whether some of it was sent.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        if message["type"] == "http.response.start":
            more = [(name.encode(), value.encode()) for name, value in headers().items()]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        try:
            await self._send(message)
        except LocalProtocolError:  # the server refused the rest of a broken request itself and closed the connection
            log.warning("an answer to a connection that is closed was dropped")


def headers() -> dict[str, str]:
    """Security headers of every answer. In a Space the page may stand in the Hub's frame."""
    space = bool(os.environ.get("SPACE_ID"))
    return {
        "content-security-policy": f"{POLICY} {SPACE}" if space else POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        **({} if space else {"x-frame-options": "SAMEORIGIN"}),
    }
