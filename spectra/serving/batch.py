"""A step of the whole batch: learn what the model wrote, guess on for each request. Rows of ints in, lists of ints out.

Knows no vLLM. How long the guesses are is settled between all requests by what the server's own steps cost.
"""

import time
from collections.abc import Sequence

from spectra.drafters.retrieval import Retrieval
from spectra.serving.chains import GuessedChain, share
from spectra.serving.request import ServedRequest
from spectra.serving.requests import Requests, Row
from spectra.serving.step_cost import LearnedStepCost

NODES = 16
"""Continuations looked up in the datastores in a step, all requests together: the dearest part of drafting."""
FEWEST, ENOUGH = 2, 8
"""For one request."""


class ServedBatch:
    """max_tokens: guessed tokens a request and step. longest: tokens that a request may have at all. retrieval: what
    the requests' drafters share, if anything. clock: in seconds.
    """

    def __init__(
        self,
        requests: Requests,
        *,
        max_tokens: int,
        longest: int,
        retrieval: Retrieval | None = None,
    ) -> None:
        self.requests = requests
        self.retrieval = retrieval
        self.max_tokens, self.longest = max_tokens, longest
        self.step_cost = LearnedStepCost()
        self._clock = time.perf_counter
        self._asked: dict[ServedRequest, int] = {}
        """Query tokens of each request of the last call."""
        self._ended = 0.0

    def propose(self, sampled: Sequence[Sequence[int]], lengths: Row, rows: Row) -> list[list[int]]:
        """Guesses for what follows each row.

        sampled: what this step added to each row, nothing where the prompt is still being read. lengths: tokens of each
        row, the new ones included. rows: [at least len(sampled), at least the longest length] token ids.
        """
        began = self._clock()
        self.requests.begin_call()
        present = [self._meet(rows[i], int(lengths[i]), new) for i, new in enumerate(sampled)]
        self._learn_step_cost(present, began)
        if self.retrieval is not None:
            self.retrieval.max_nodes = min(ENOUGH, max(FEWEST, NODES // max(1, len(present))))
        chains = [
            GuessedChain()
            if request is None
            else request.chain(min(self.max_tokens, self.longest - int(lengths[i]) - 1))
            for i, request in enumerate(present)
        ]
        kept = share(chains, self.step_cost.seconds, len(sampled))
        drafts = [list(chain.tokens[:length]) for chain, length in zip(chains, kept, strict=True)]
        self._asked = {}
        for i, request in enumerate(present):
            if sampled[i] and self.requests.keep(rows[i], int(lengths[i]), request) and request is not None:
                self._asked[request] = 1 + len(drafts[i])
        self._ended = self._clock()
        return drafts

    def clear(self) -> None:
        """Forget every request."""
        self.requests.clear()
        self._asked = {}

    def _meet(self, row: Row, length: int, new: Sequence[int]) -> ServedRequest | None:
        """The request of a row, with what it wrote now; None where there is nothing to guess after."""
        if not new or length >= self.longest:
            return None
        request = self.requests.take(row, length - len(new))
        if request is not None:
            request.accept(new)
        return request

    def _learn_step_cost(self, present: Sequence[ServedRequest | None], began: float) -> None:
        """Only of steps that read no prompt and took up no request: what those cost is known."""
        asked = [self._asked.get(request, 0) for request in present if request is not None]
        if asked and len(asked) == len(present) and all(asked):
            self.step_cost.observe(sum(asked), began - self._ended)
