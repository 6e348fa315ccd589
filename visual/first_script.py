"""Puts assets/js/start/first.js into the page before gradio's own scripts: `head` of `launch` comes too late for it."""

from visual.asgi import App, Message, Receive, Send, held_back

GRADIO = b'<script type="module"'
"""Where gradio's own scripts begin."""
FIRST = b'<script src="./spectra/js/start/first.js"></script>\n\t\t'


def with_first_script(app: App) -> App:
    """The app with this script in its page: what starlette calls a middleware. Other answers are left alone."""

    async def served(scope: Message, receive: Receive, send: Send) -> None:
        page = scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and str(scope["path"]).endswith("/")
        await app(scope, receive, adding(send) if page else send)

    return served


def adding(send: Send) -> Send:
    """Adds the script to an uncompressed page of HTML."""

    async def finish(start: Message, body: bytes) -> None:
        whole = body.replace(GRADIO, FIRST + GRADIO, 1)
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        await send({**start, "headers": [*headers, (b"content-length", str(len(whole)).encode())]})
        await send({"type": "http.response.body", "body": whole})

    return held_back(send, is_html, finish)


def is_html(message: Message) -> bool:
    """Whether an answer begins an HTML page that is not compressed."""
    headers = {name.lower(): value for name, value in message.get("headers", ())}
    return headers.get(b"content-type", b"").startswith(b"text/html") and b"content-encoding" not in headers
