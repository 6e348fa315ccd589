"""Values that the page never sends are refused in one line; gradio answers them with a bare error of the server."""

from collections.abc import Sequence
from typing import Any

import gradio as gr
from gradio.block_function import BlockFunction
from gradio.components.api_component import Api

from spectra.errors import one_line
from spectra.io.json_text import parse_json
from visual.asgi import App, Message, Receive, Send, held_back, refuse
from visual.steady_fields import SteadyBlocks
from visual.uploads import files_in

TITLE = "Refused"
REASON = "the page does not send such values; load it again"
UNREAD = "this request cannot be read"


class CheckedBlocks(SteadyBlocks):
    """A page whose handlers are only called as the page calls them: with as many values, and such ones, as their fields
    can have, and through the queue, which keeps each answer until somebody listens, only those that are for it.
    """

    async def process_api(
        self, block_fn: BlockFunction | int, *args: Any, event_id: str | None = None, **options: Any
    ) -> dict[str, Any]:
        if event_id is not None and isinstance(block_fn, BlockFunction) and not block_fn.queue:
            raise refused()
        answer: dict[str, Any] = await super().process_api(block_fn, *args, event_id=event_id, **options)
        return answer

    async def preprocess_data(self, block_fn: BlockFunction, inputs: list[Any], *args: Any, **options: Any) -> Any:
        if block_fn.fn is None:  # it runs in the browser
            raise refused()
        inputs = [*inputs, *defaults(block_fn.inputs[len(inputs) :])]
        for field, given in zip(block_fn.inputs, inputs, strict=False):
            if not isinstance(field, gr.File | gr.UploadButton) and any(files_in(given)):
                raise refused()  # quoted, it would tell where uploads lie
        try:
            values = await super().preprocess_data(block_fn, inputs, *args, **options)
        except Exception as error:
            raise refused() from error
        for field, value in zip(block_fn.inputs, values, strict=True):
            if isinstance(field, gr.Dropdown) and not field.multiselect and isinstance(value, list):
                raise refused()  # gradio lets an empty one pass
        return values


def defaults(fields: Sequence[object]) -> list[Any]:
    """What a call of the endpoint leaves out at its end, by its signature; nothing where one of them has no default."""
    values = [field.value for field in fields if isinstance(field, Api) and field.value is not None]
    return values if len(values) == len(fields) else []


def refused() -> gr.Error:
    """The error for a value that the page's form cannot send."""
    return gr.Error(REASON, title=TITLE, print_exception=False)


def with_refusals(app: App) -> App:
    """The app with status 400 for such values instead of gradio's 500, and with what is wrong about a request that is
    not of the right form, but not the request itself, where uploads have their places by now: what starlette calls a
    middleware.
    """

    async def served(scope: Message, receive: Receive, send: Send) -> None:
        post = scope["type"] == "http" and scope["method"] == "POST"
        await app(scope, receive, answering(send) if post else send)

    return served


def answering(send: Send) -> Send:
    """Refuses instead of an answer with status 500 that is one of ours, and of one with status 422."""

    async def finish(start: Message, body: bytes) -> None:
        if start["status"] == 422:
            await refuse(send, 422, unread(body))
        elif is_refusal(body):
            await refuse(send, 400, REASON)
        else:
            await send(start)
            await send({"type": "http.response.body", "body": body})

    return held_back(send, lambda start: start["status"] in (422, 500), finish)


def is_refusal(body: bytes) -> bool:
    """Whether the body of an answer tells of a `refused` value."""
    try:
        answer = parse_json(body)
    except ValueError:
        return False
    return isinstance(answer, dict) and answer.get("title") == TITLE


def unread(body: bytes) -> str:
    """The first thing that an answer names as wrong about a request, without what the request holds."""
    try:
        first = parse_json(body)["detail"][0]
        return one_line(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    except (ValueError, LookupError, TypeError):
        return UNREAD
