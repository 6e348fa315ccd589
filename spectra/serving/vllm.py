"""The class that vLLM makes of `{"method": "custom_class", "model": "spectra.serving.vllm.Proposer"}`.

vLLM verifies what it proposes, so a bad guess costs time and never the text. Settings: `ServingSettings`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectra.datastore.card import check_tokenizer
from spectra.datastore.store import Store
from spectra.drafters.automaton import SuffixAutomaton
from spectra.drafters.core import IMPROVED, SpectraCore
from spectra.drafters.retrieval import Retrieval
from spectra.method import Drafter
from spectra.serving.batch import ServedBatch
from spectra.serving.requests import Requests
from spectra.serving.settings import ServingSettings

CHAINED = replace(IMPROVED, rows=0, capacity=4)
"""CORE where only a chain is verified: no pool, which rides along in trees, and few of the weaker forward guesses."""

log = logging.getLogger("vllm.spectra")


class Proposer:
    """Lives in each vLLM worker. Stores are memory-mapped, so that all workers of a machine share them."""

    def __init__(self, vllm_config: Any) -> None:
        """Raises SpectraError for a bad setting or store; vLLM wraps it, `python -m spectra.serving` checks first."""
        settings = ServingSettings.of(vllm_config.additional_config)
        stores = open_stores(settings)
        eos = end_tokens(vllm_config.model_config)
        retrieval = Retrieval(stores, banned=eos) if stores else None
        make = drafters_of(retrieval, eos)
        self.batch = ServedBatch(
            Requests(make, max_requests=settings.requests, tokens=settings.tokens, context=settings.context),
            retrieval=retrieval,
            max_tokens=vllm_config.speculative_config.num_speculative_tokens,
            longest=vllm_config.model_config.max_model_len,
        )
        self._failed = False
        log.info("SPECTRA drafts from %s", ", ".join(["each request's own text", *(store.name for store in stores)]))

    def load_model(self, *arguments: Any, **options: Any) -> None:
        """There is no draft model."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: Any,
        token_ids_cpu: Any,
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """A list of guessed tokens for each row; empty ones after an error, which is logged once.

        sampled_token_ids: what the last step added to each row. num_tokens_no_spec: [rows], tokens of each, those
        included. token_ids_cpu: [rows, max_model_len]. A row is never named, and another one's the next time.
        """
        try:
            return self.batch.propose(sampled_token_ids, num_tokens_no_spec, token_ids_cpu)
        except Exception:  # an answer without guesses is better than a server that stops
            if not self._failed:
                log.exception("SPECTRA could not draft; requests go on without guesses where this happens")
            self._failed = True
            self.batch.clear()
            return [[] for _ in sampled_token_ids]


def drafters_of(retrieval: Retrieval | None, eos: frozenset[int]) -> Callable[[], list[Drafter]]:
    """What makes the drafters of a request: the engine's own. Retrieval remembers no text, so all share it."""

    def make() -> list[Drafter]:
        drafters: list[Drafter] = [SpectraCore(CHAINED, banned=eos), SuffixAutomaton(depth=12, banned=eos)]
        return drafters if retrieval is None else [*drafters, retrieval]

    return make


def open_stores(settings: ServingSettings) -> list[Store]:
    """Raises SpectraError for one that is missing, damaged or made for another tokenizer."""
    stores = [Store.open(Path(folder)) for folder in settings.stores]
    for store in stores:
        check_tokenizer(store.card, settings.tokenizer)
    return stores


def end_tokens(model_config: Any) -> frozenset[int]:
    """Ids that end an answer, by the model's own two configs."""
    generation = model_config.try_get_generation_config()
    configured = (getattr(model_config.hf_config, "eos_token_id", None), generation.get("eos_token_id"))
    lists = [ids if isinstance(ids, Iterable) else [ids] for ids in configured]
    return frozenset(token for ids in lists for token in ids if token is not None)
