"""The sequences of one owner on a target: they come and go, and their trees are scored side by side."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from spectra.errors import SpectraError
from spectra.method import Asked
from spectra.settings import Sampling
from spectra.target.cache import SlabCache
from spectra.target.joint import Part
from spectra.target.prefix import Prefix, common
from spectra.target.session import PREFILL_ROWS, HuggingFaceSession
from spectra.verify.picks import Picks

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget

LEAST_SHARED = 8
"""Tokens that two prompts must begin with alike for their slots to be used."""


class Beginning(NamedTuple):
    """The first `length` slots of a cache, which are what a prefill would write."""

    length: int
    cache: SlabCache


class HuggingFaceGroup:
    """`Group` on a `HuggingFaceTarget`, held until it is closed. Raises TargetBusyError where another is open."""

    def __init__(self, target: HuggingFaceTarget) -> None:
        self._target = target
        target.acquire()
        try:
            self._restore = target.adapt()
        except BaseException:
            target.release()
            raise
        self._open = True
        self._sessions: list[HuggingFaceSession] = []

    @cached_property
    def joins(self) -> bool:
        """See `HuggingFaceTarget.joins`."""
        return self._target.joins

    def check(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        processors: Sequence[Any] | None = None,
        prefix: Prefix | None = None,
    ) -> None:
        self._target.check(prompt, max_new_tokens)
        if processors is not None and not (isinstance(processors, Sequence) and all(map(callable, processors))):
            raise SpectraError("processors", "it is no list of logits processors; give `[LogitsProcessor(...)]`")
        if not isinstance(prefix, Prefix | None):
            raise SpectraError("prefix", f"a {type(prefix).__name__} is none; give `Prefix()`")

    def start(
        self,
        prompt: Sequence[int],
        max_new_tokens: int,
        max_query_tokens: int,
        sampling: Sampling,
        processors: Sequence[Any] | None = None,
        *,
        top_k: int = 0,
        prefix: Prefix | None = None,
        reads: bool = True,
    ) -> HuggingFaceSession:
        """See `HuggingFaceTarget.start`. What an open sequence holds of the prompt is not computed again.

        It is read where it stands as far as the layout allows (`SlabCache.continued`), the rest is copied.
        reads: see `HuggingFaceSession`.
        """
        self.check(prompt, max_new_tokens, processors, prefix)
        prompt = [int(token) for token in prompt]  # a deque has no slices, and torch takes bools for a mask
        chooser = self._target.chooser(sampling, processors, top_k)
        beginning = self._beginning(prompt) if prefix is None else None
        session = HuggingFaceSession(
            self._target,
            prompt,
            max_new_tokens,
            max_query_tokens,
            chooser,
            prefix=prefix,
            beginning=beginning,
            reads=reads,
        )
        self._sessions = [*self._open_sessions(), session]  # those that are closed go
        return session

    def _beginning(self, prompt: Sequence[int]) -> Beginning | None:
        """The longest one that an open sequence holds. None where there is none worth it.

        A prefill by torch goes in runs of PREFILL_ROWS, and its bits may depend on what is in the run: only whole runs
        that are equal are the same.
        """
        wanted, best = list(prompt)[:-1], None
        for session in self._open_sessions():
            length = self._usable(self._held(session), wanted)
            if length and (best is None or length > best.length):
                best = Beginning(length, session.cache)
        return best

    def _held(self, session: HuggingFaceSession) -> Sequence[int]:
        return session.committed if self._target.rows_alone else session.prefilled

    def _usable(self, held: Sequence[int], wanted: Sequence[int]) -> int:
        length = common(held, wanted)
        if not (self._target.rows_alone or length == len(wanted) == len(held)):
            length -= length % PREFILL_ROWS
        return length if length >= LEAST_SHARED else 0

    def is_being_read(self, prompt: Sequence[int]) -> bool:
        wanted = list(prompt)[:-1]
        for session in self._open_sessions():
            held = self._held(session)
            usable = session.unread and len(held) == len(session.committed)  # no turn before it is among them
            if usable and self._usable([*held, *session.unread], wanted) > self._usable(held, wanted):
                return True
        return False

    def score(self, asked: Sequence[Asked]) -> list[Picks]:
        if len(asked) == 1 or not self.joins:
            return [session.score(tree, tokens) for session, tree, tokens in asked]
        target = self._target
        parts: list[Part] = [session.part(tree) for session, tree, _ in asked]
        with target.one_torch_thread():
            pairs = zip(asked, parts, target.forward_together(parts), strict=True)
            return [one.session.picks(part, scores, one.tree, one.tokens) for one, part, scores in pairs]

    def _open_sessions(self) -> list[HuggingFaceSession]:
        self._sessions = [session for session in self._sessions if session.is_open]
        return self._sessions

    def held_bytes(self) -> int:
        caches = [session.cache for session in self._open_sessions()]
        caches += [cache.others for cache in caches if cache.others is not None]
        return sum({id(cache): cache.capacity for cache in caches}.values()) * self._slot_bytes

    def shared_bytes(self, prompt: Sequence[int]) -> int:
        beginning = self._beginning(prompt)
        return beginning.cache.shareable(beginning.length) * self._slot_bytes if beginning else 0

    def cache_bytes(self, prompt_tokens: int, max_new_tokens: int, max_query_tokens: int) -> int:
        slots = prompt_tokens + max_new_tokens + self._target.plan.fit(max_query_tokens)
        block = self._target.layout.block
        return -(-slots // block) * block * self._slot_bytes

    @cached_property
    def _slot_bytes(self) -> int:
        """Of one slot in all layers, as a prefill of one token makes them."""
        cache = self._target.new_cache(1)
        self._target.forward(cache, [0], [[0]], [0], prefill=True)
        return sum(slab.nbytes for slab in cache.slabs) // cache.capacity

    def close(self) -> None:
        if self._open:
            self._open = False
            with ExitStack() as stack:  # whichever of them raises
                stack.callback(self._target.release)
                stack.callback(self._restore)
                stack.callback(self._sessions.clear)
                for session in reversed(self._sessions):
                    stack.callback(session.close)
