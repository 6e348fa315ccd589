"""A Hugging Face causal model, unmodified, as a target: score a token tree in one forward pass.

One sequence at a time, no padding, no batches. The model's attention setting is changed while an exact session is open
and put back when it closes.
"""

import inspect
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError, TargetBusyError
from spectra.settings import Sampling
from spectra.target.attention_metadata import StepPlan
from spectra.target.cache import SlabCache
from spectra.target.execution_plan import Plan
from spectra.target.packed.packing import Packing
from spectra.target.prefix import Prefix
from spectra.target.session import HuggingFaceSession
from spectra.verify.picks import Chooser, Noise

if TYPE_CHECKING:
    from spectra.target.cuda_graphs.steps import StaticSteps

MAX_QUERY_TOKENS = 1025


class HuggingFaceTarget:
    """`Target` over an AutoModelForCausalLM. Make one with `load_target` or `wrap_model`, which fill in `plan`."""

    def __init__(self, model: Any, tokenizer: Any = None, *, name: str = "", plan: Plan | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name or str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
        self.plan = plan or Plan()
        self.packing: Packing | None = None
        self.steps: StaticSteps | None = None  # what records steps on a GPU, where they are to be had
        self.wide = False  # exact attention by the float64 reference whatever the plan says, for tests
        self.spread = len(set((getattr(model, "hf_device_map", None) or {"": 0}).values())) > 1
        self.config = model.config.get_text_config(decoder=True)
        self._lock = threading.Lock()
        self._steers = _accepts(model)

    @property
    def eos(self) -> frozenset[int]:
        """Ids that end an answer, from the generation config, else the model config."""
        for config in (getattr(self.model, "generation_config", None), self.model.config):
            ids = getattr(config, "eos_token_id", None)
            if ids is not None:
                return frozenset(ids if isinstance(ids, list | tuple) else [ids])
        return frozenset()

    @property
    def cost(self) -> StepCost:
        return self.plan.cost

    @property
    def trees(self) -> bool:
        return self.plan.trees

    @property
    def max_query_tokens(self) -> int:
        return self.plan.buckets[-1] if self.plan.exact else MAX_QUERY_TOKENS

    @property
    def device(self) -> torch.device:
        """Where inputs go: the first parameter that is not on disk."""
        places = (p.device for p in self.model.parameters() if p.device.type != "meta")
        return next(places, torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def context(self) -> int:
        """Most positions the model was made for (no limit in its config: 2**31)."""
        names = ("max_position_embeddings", "max_seq_len")  # MPT has its own
        return int(next((limit for name in names if (limit := getattr(self.config, name, None))), 2**31))

    @property
    def facts(self) -> Mapping[str, object]:
        from spectra.target.facts import environment, step_facts

        plan = self.plan
        own = {"numerics": plan.numerics, "trees": plan.trees, "packed": self.packing is not None}
        return environment(self) | own | step_facts(plan)

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
    ) -> "HuggingFaceSession":
        """See `Target.start`. processors: transformers logits processors in place of those `sampling` implies.

        prefix: start from what it holds of the prompt; the closed session leaves its own cache there.
        """
        if not prompt:
            raise SpectraError("prompt", "it holds no token; write something")
        vocabulary = self.model.get_input_embeddings().num_embeddings
        if not 0 <= min(prompt) <= max(prompt) < vocabulary:
            raise SpectraError("prompt", f"it holds token ids outside 0..{vocabulary - 1}; use this model's tokenizer")
        if len(prompt) + max_new_tokens > self.context:
            raise SpectraError(
                "prompt",
                f"{len(prompt)} tokens and {max_new_tokens} new ones do not fit the context of {self.context}; "
                "shorten the prompt or ask for fewer new tokens",
            )
        if not self._lock.acquire(blocking=False):
            raise TargetBusyError("this target is decoding another sequence; close that one first or load a second")
        try:
            noise = Noise(sampling.seed, self.config.vocab_size, self.device)
            chooser = Chooser(sampling, processors, top=top_k, noise=noise)
            return HuggingFaceSession(self, prompt, max_new_tokens, max_query_tokens, chooser, prefix)
        except BaseException:
            self._lock.release()
            raise

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody decodes inside. Raises TargetBusyError while someone does."""
        if not self._lock.acquire(blocking=False):
            raise TargetBusyError("this target is decoding another sequence; close that one first or load a second")
        try:
            yield
        finally:
            self._lock.release()

    def forward(
        self,
        cache: SlabCache,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        prefill: bool = False,
    ) -> torch.Tensor:
        """One pass. tokens [q]; chains: ancestors of each row, itself last; rows: which logits. -> [rows, vocabulary].

        Nothing is committed. Query and logits rows are filled up to a count of the plan's with copies of the last one.
        """
        ours = self.plan.ours
        count, asked = len(tokens), len(rows)
        if not prefill:
            extra = self.plan.fit(count) - count
            tokens = [*tokens, *[tokens[-1]] * extra]
            chains = [*chains, *[chains[-1]] * extra]
            if self.steps is not None and cache is self.steps.cache:
                logits = self.steps.forward(self, tokens, chains, rows)
                if logits is not None:
                    return logits
            rows = [*rows, *[rows[-1]] * (self.plan.fit(asked) - asked)]
        wide, sums = self.wide or self.plan.wide, torch.float64 if self.plan.exact else torch.float32
        plan = StepPlan(cache.length, chains, prefill=prefill, wide=wide, sums=sums)
        depths = range(count) if prefill else [len(chain) - 1 for chain in chains]
        device = self.device
        mask = None
        if not ours and not (prefill or _is_chain(chains)):
            mask = self._mask_argument(plan, device)
        ids, positions = (torch.tensor([x], device=device) for x in (tokens, [cache.length + d for d in depths]))
        logits = self.call(ids, positions, torch.tensor(rows, device=device), cache, plan if ours else None, mask)
        if ours and plan.calls == 0:
            raise SpectraError("numerics", f"{self.name} does not call the exact attention; use numerics fast")
        return logits[:asked]

    def call(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        cache: Any,
        plan: object = None,
        mask: Any = None,
    ) -> torch.Tensor:
        """The model's forward: ids and positions [1, q], rows: which logits -> [rows, vocabulary].

        plan: what our attention is told, if it is ours; the model then gets a mask of the right form that says nothing.
        """
        arguments: dict[str, Any] = {"past_key_values": cache, "use_cache": True}
        if "position_ids" in self._steers:
            arguments["position_ids"] = positions
        if plan is not None:
            arguments |= {"spectra_plan": plan, "attention_mask": self._mask_argument(None, ids.device)}
        elif mask is not None:
            arguments["attention_mask"] = mask
        picks_rows = "logits_to_keep" in self._steers and not self.spread
        if picks_rows:
            arguments["logits_to_keep"] = rows
        logits: torch.Tensor = self.model(ids, **arguments).logits[0]
        return logits if picks_rows else logits.index_select(0, rows.to(logits.device))

    def _mask_argument(self, plan: StepPlan | None, device: torch.device) -> Any:
        """4-D masks pass through untouched; models with several kinds of layers take one a kind."""
        kinds = sorted(set(getattr(self.config, "layer_types", None) or ()))
        window = getattr(self.config, "sliding_window", None)
        if kinds == ["full_attention", "sliding_attention"]:
            return {
                "full_attention": self._one_mask(plan, None, device),
                "sliding_attention": self._one_mask(plan, window, device),
            }
        sliding = kinds == ["sliding_attention"] or (not kinds and getattr(self.config, "use_sliding_window", True))
        return self._one_mask(plan, window if sliding else None, device)

    def _one_mask(self, plan: StepPlan | None, window: int | None, device: torch.device) -> torch.Tensor:
        if plan is None:  # exact attention reads the plan; the mask only has to be there
            return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
        mask = plan.mask(window, device)[None, None]
        if self.config._attn_implementation == "sdpa":
            return mask
        least = torch.finfo(self.dtype).min  # eager attention adds its mask and is silently wrong with bool
        return torch.zeros(mask.shape, dtype=self.dtype, device=device).masked_fill_(~mask, least)


def _is_chain(chains: Sequence[Sequence[int]]) -> bool:
    return len(chains[-1]) == len(chains)


def _accepts(model: Any) -> frozenset[str]:
    return frozenset(inspect.signature(model.forward).parameters)
