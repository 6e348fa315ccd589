"""Whose last runs are kept: of too many, those go first that have no page open.

gradio keeps them by the name that a request gives, and lets go of the one that has not asked for the longest. Names
cost nothing: who made up some dozens would take from all others what their pages had.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from visual.asgi import App, Message, Receive, Send
from visual.presence import OpenPages


class NothingShown(dict[int, dict[str, Any]]):
    """In the place of the copy of what a visitor's fields show that gradio keeps for links to the page, which are not
    offered here: a race file that was opened would stay in memory when nobody has its page open any more.
    """

    def __contains__(self, field: object) -> bool:
        return True

    def __getitem__(self, field: int) -> dict[str, Any]:
        return {}

    def __setitem__(self, field: int, shown: dict[str, Any]) -> None:
        pass


class KeptTabs(OrderedDict[str, Any]):
    """What gradio keeps, by visitor. is_open: whether one has a page open."""

    def __init__(self, is_open: Callable[[str], bool]) -> None:
        super().__init__()
        self._is_open = is_open

    def __setitem__(self, visitor: str, kept: Any) -> None:
        kept.config_values = NothingShown()
        super().__setitem__(visitor, kept)

    def popitem(self, last: bool = True) -> tuple[str, Any]:
        """Of the oldest, who are asked for by `last=False`, the first one without a page; never the newest of all."""
        if last:
            return super().popitem()
        *older, _ = self
        gone = next((visitor for visitor in older if not self._is_open(visitor)), next(iter(self)))
        return gone, self.pop(gone)


def with_kept_tabs(app: App, pages: OpenPages) -> App:
    """The app that keeps tabs so from its first request on: what starlette calls a middleware."""

    async def served(scope: Message, receive: Receive, send: Send) -> None:
        holder = getattr(scope.get("app"), "state_holder", None)
        if holder is not None and not isinstance(holder.session_data, KeptTabs):
            holder.session_data = KeptTabs(pages.counts)
        await app(scope, receive, send)

    return served
