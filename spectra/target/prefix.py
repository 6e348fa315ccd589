"""What a closed sequence leaves to the next one that begins with the same tokens: their ids and their KV cache.

The caller holds it and hands it to `start` again and again. It serves one open session at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spectra.target.cache import SlabCache


class Prefix:
    """tokens: committed ids, prompt and answer, in the first slots of the cache. reused: how many the last start used.
    on_leave: called when a session has left its cache here, in its thread.

    Their keys are as they were written: by a prefill, or by steps. With exact numerics a speculative step writes the
    bits of a plain one, so whatever method wrote the last turn, the next one is the same.
    """

    def __init__(
        self,
        tokens: Sequence[int] = (),
        cache: SlabCache | None = None,
        owner: object = None,
        on_leave: Callable[[], object] | None = None,
    ) -> None:
        self.reused = 0
        self._on_leave = on_leave
        self._hold(tokens, cache, owner)

    def take(self, prompt: Sequence[int], owner: object) -> tuple[int, SlabCache | None]:
        """(tokens that `prompt` begins with, all but its last at most; their cache). Nothing is held afterwards.

        owner: the target that asks, the layout it wants and the state of its weights; what was written for another
        is let go.
        """
        tokens, cache = self.tokens, self._cache
        same = cache is not None and owner == self._owner
        self.reused = common(tokens, prompt[:-1]) if same else 0
        self._hold((), None, None)
        return self.reused, cache if same else None

    def leave(self, tokens: Sequence[int], cache: SlabCache | None, owner: object) -> None:
        """Hold what was written for `owner`, in the place of what was held."""
        self._hold(tokens, cache, owner)
        if self._on_leave is not None:
            self._on_leave()

    def _hold(self, tokens: Sequence[int], cache: SlabCache | None, owner: object) -> None:
        self.tokens, self._cache, self._owner = tuple(tokens), cache, owner

    def copy(self, length: int) -> Prefix:
        """The first `length` tokens with slots of their own. Raises SpectraError where memory is short."""
        tokens = self.tokens[:length]
        if self._cache is None or not tokens:
            return Prefix()
        return Prefix(tokens, self._cache.copy(len(tokens), len(tokens)), self._owner)

    @property
    def size(self) -> int:
        """Bytes of the cache."""
        cache = self._cache  # another thread may take it
        return 0 if cache is None else sum(slab.nbytes for slab in cache.slabs)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many tokens the two begin with alike. By halves: runs are compared as a whole, which is not Python's work."""
    alike, end = 0, min(len(a), len(b))
    a, b, upto = list(a), list(b), end
    while alike < end:
        if a[alike:upto] == b[alike:upto]:
            alike = upto
        else:
            end = upto - 1
        upto = (alike + end + 1) // 2
    return alike
