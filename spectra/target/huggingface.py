"""A Hugging Face causal model, unmodified, as a target: score a token tree in one forward pass.

No padding: rows of several sequences stand side by side. The model's attention setting is changed while an exact
session is open and put back when it closes.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch

from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError, TargetBusyError
from spectra.settings import Sampling
from spectra.target import attention
from spectra.target.attention_metadata import BLOCK, Attend, AttentionMetadata, mask_argument
from spectra.target.cache import Layout, SlabCache
from spectra.target.device_map import input_device
from spectra.target.ends import end_ids
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.group import HuggingFaceGroup
from spectra.target.joint import Part, joint_forward
from spectra.target.one_thread import OneThread
from spectra.target.own_numbers import without_autocast
from spectra.target.prefix import Prefix
from spectra.target.rope import ropes_are_fixed
from spectra.target.session import HuggingFaceSession
from spectra.verify.noise import Noise
from spectra.verify.picks import Chooser, Scores

if TYPE_CHECKING:
    from spectra.target.cuda_graphs.steps import StaticSteps
    from spectra.target.native.steps import NativeSteps

MAX_QUERY_TOKENS = 1025
DEFAULT_PLAN = ExecutionPlan()


@dataclass(frozen=True, slots=True)
class Execution:
    """How a target takes its steps, and what takes them: by default torch.

    native: computes them on a CPU. steps: CUDA graphs of them on a GPU.
    """

    plan: ExecutionPlan = DEFAULT_PLAN
    native: NativeSteps | None = None
    steps: StaticSteps | None = None


class HuggingFaceTarget:
    """`Target` over an AutoModelForCausalLM. Make one with `load_target` or `wrap_model`: they choose its execution.

    lock: held by whoever decodes; targets of one model share it, since the model's attention is theirs meanwhile.
    Raises SpectraError for a model without layers.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        name: str = "",
        plan: ExecutionPlan | None = None,
        lock: threading.Lock | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.name = name or str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
        self._execution = Execution(plan or DEFAULT_PLAN)
        self.spread = len(set((getattr(model, "hf_device_map", None) or {"": 0}).values())) > 1
        self.config = model.config.get_text_config(decoder=True)
        if getattr(self.config, "num_hidden_layers", 1) < 1:
            raise SpectraError("model", f"{self.name} has no layers by its config; give another model")
        self._lock = lock or threading.Lock()
        self._steers = frozenset(inspect.signature(model.forward).parameters)
        self._cache = "cache" if "cache" in self._steers else "past_key_values"

    @property
    def execution(self) -> Execution:
        return self._execution

    @property
    def plan(self) -> ExecutionPlan:
        return self._execution.plan

    @property
    def native(self) -> NativeSteps | None:
        return self._execution.native

    @property
    def steps(self) -> StaticSteps | None:
        return self._execution.steps

    def use(self, execution: Execution) -> None:
        """Take steps in this way from now on."""
        self._execution = execution

    @contextmanager
    def using(self, execution: Execution) -> Iterator[None]:
        """Take steps in this way inside, and afterwards as before."""
        before = self._execution
        self.use(execution)
        try:
            yield
        finally:
            self.use(before)

    @property
    def eos(self) -> frozenset[int]:
        """Ids that end an answer, from the generation config, else the model config. Raises SpectraError for others."""
        for config in (getattr(self.model, "generation_config", None), self.model.config):
            if (ids := getattr(config, "eos_token_id", None)) is not None:
                return end_ids(ids)
        return frozenset()

    @property
    def cost(self) -> StepCost:
        return self.plan.cost

    @property
    def trees(self) -> bool:
        return self.plan.trees

    @property
    def max_query_tokens(self) -> int:
        return MAX_QUERY_TOKENS

    @property
    def device(self) -> torch.device:
        """See `input_device`."""
        return input_device(self.model)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def vocabulary(self) -> int:
        """Token ids are below it: how many the model has embeddings of."""
        return int(self.model.get_input_embeddings().num_embeddings)

    @property
    def context(self) -> int:
        """Most positions the model was made for (no limit in its config: 2**31), or served for.

        Layers that read chunk by chunk are served up to the end of the first chunk, where they read what others do.
        """
        names = ("max_position_embeddings", "max_seq_len")  # MPT has its own
        limit = int(next((limit for name in names if (limit := getattr(self.config, name, None))), 2**31))
        chunked = "chunked_attention" in (getattr(self.config, "layer_types", None) or ())
        return min(limit, int(self.config.attention_chunk_size)) if chunked else limit

    @property
    def mixture(self) -> bool:
        """It is a mixture of experts: what a row computes depends on the rows beside it."""
        names = ("num_local_experts", "num_experts", "n_routed_experts")
        return any((getattr(self.config, name, None) or 0) > 1 for name in names)

    @property
    def facts(self) -> Mapping[str, object]:
        from spectra.target.facts import environment, step_facts

        return environment(self) | step_facts(self)

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
    ) -> HuggingFaceSession:
        """See `Target.start`. processors: transformers logits processors in place of those `sampling` implies.

        prefix: start from what it holds of the prompt; the closed session leaves its own cache there.
        """
        self.check(prompt, max_new_tokens)
        group = self.group()
        try:
            session = group.start(
                prompt, max_new_tokens, max_query_tokens, sampling, processors, top_k=top_k, prefix=prefix
            )
        except BaseException:
            group.close()
            raise
        session.on_close = group.close
        return session

    def group(self) -> HuggingFaceGroup:
        """See `SharedTarget.group`."""
        return HuggingFaceGroup(self)

    def check(self, prompt: Sequence[int], max_new_tokens: int) -> None:
        """See `Group.check`."""
        if not isinstance(prompt, Sequence) or not all(isinstance(token, Integral) for token in prompt):
            raise SpectraError("prompt", 'it is no list of token ids; give `tokenizer(text)["input_ids"]`')
        if not prompt:
            raise SpectraError("prompt", "it holds no token; write something")
        if not 0 <= min(prompt) <= max(prompt) < self.vocabulary:
            last = self.vocabulary - 1
            raise SpectraError("prompt", f"it holds token ids outside 0..{last}; use this model's tokenizer")
        if len(prompt) + max_new_tokens > self.context:
            raise SpectraError(
                "prompt",
                f"{len(prompt)} tokens and {max_new_tokens} new ones do not fit the context of {self.context}; "
                "shorten the prompt or ask for fewer new tokens",
            )

    def chooser(self, sampling: Sampling, processors: Sequence[Any] | None, top_k: int) -> Chooser:
        """What turns one sequence's logits into picks."""
        noise = Noise(sampling.seed, self.config.vocab_size, self.device, self.one_torch_thread)
        draw = self.native.library.draw if self.native is not None else None
        return Chooser(sampling, processors, top=top_k, noise=noise, around=self.one_torch_thread, draw=draw)

    def acquire(self) -> None:
        """Take the target for one owner. Raises TargetBusyError while somebody has it."""
        if not self._lock.acquire(blocking=False):
            raise TargetBusyError("this model is decoding another sequence; close that one first or load a second")

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody decodes inside. Raises TargetBusyError while someone does."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def one_torch_thread(self) -> AbstractContextManager[None]:
        """Where our library computes the steps, torch has one thread inside: those it wakes for a small operation wait
        busily for the next one, on the cores that the next step needs."""
        return nullcontext() if self.native is None else OneThread(self.native.library.set_torch_threads)

    def forward(
        self,
        cache: SlabCache,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        prefill: bool = False,
    ) -> torch.Tensor:
        """One step. tokens [q]; chains: ancestors of each row, itself last; rows: which logits. -> [rows, vocabulary].

        Nothing is committed. prefill: the tokens are a causal run, and of `chains` only the number counts.
        """
        if not (prefill or all(chains)):
            raise SpectraError("chains", "a row has an empty one; give its ancestors, and last the row itself")
        if self.native is not None:
            return self.native.steps.forward(self, Part(cache, tokens, chains, rows), prefill=prefill)
        if prefill or not self.plan.chunk:
            return self.forward_pass(cache, tokens, chains, rows, prefill=prefill)
        size, parts = self.plan.chunk, []
        try:
            for at in range(0, len(tokens), size):
                extra = max(0, at + size - len(tokens))
                some = [*tokens[at : at + size], *[tokens[-1]] * extra]
                above = [*chains[at : at + size], *[chains[-1]] * extra]
                cache.written = at
                asked = [row - at for row in rows if at <= row < at + size]
                logits = self.forward_pass(cache, some, above, [*asked, *[0] * (size - len(asked))])
                parts.append(logits[: len(asked)])
        finally:
            cache.written = 0
        return torch.cat(parts)

    @property
    def joins(self) -> bool:
        """Rows of several sequences can go through one pass, each with the bits that it has alone."""
        if self.rows_alone:
            return True
        exact = self.plan.exact and self.plan.trees and "position_ids" in self._steers
        return exact and (self.native is not None or self.plan.chunk > 0) and ropes_are_fixed(self.model)

    @property
    def rows_alone(self) -> bool:
        """A token's keys have the same bits however they were computed, in a prefill of any length or a step."""
        return self.native is not None and self.native.whole

    def forward_together(self, parts: Sequence[Part]) -> list[Scores]:
        """`forward` of one sequence, or of several that join, in one pass."""
        if self.native is not None:
            return self.native.steps.forward_together(self, parts)
        if len(parts) == 1:
            return [Scores(self.forward(one.cache, one.tokens, one.chains, one.rows)) for one in parts]
        return joint_forward(self, parts, chunk=self.plan.chunk)

    @torch.inference_mode()
    def forward_pass(
        self,
        cache: SlabCache,
        tokens: Sequence[int],
        chains: Sequence[Sequence[int]],
        rows: Sequence[int],
        *,
        prefill: bool = False,
        attend: Attend | None = None,
    ) -> torch.Tensor:
        """One pass of the model over rows of a step, those from `cache.written` on. attend: see `AttentionMetadata`."""
        count, asked = len(tokens), len(rows)
        if not prefill and self.steps is not None and cache is self.steps.cache:
            extra = self.plan.fit(count) - count
            full = [*tokens, *[tokens[-1]] * extra], [*chains, *[chains[-1]] * extra]
            logits = self.steps.forward(self, *full, rows)
            if logits is not None:
                return logits
        metadata = AttentionMetadata(cache.length, chains, prefill=prefill, attend=attend)
        depths = range(count) if prefill else [len(chain) - 1 for chain in chains]
        device, mask = self.device, None
        if not self.plan.exact and not (prefill or _is_chain(chains)):
            mask = mask_argument(self.config, metadata, self.dtype, device)
        ids, positions = (torch.tensor([x], device=device) for x in (tokens, [cache.length + d for d in depths]))
        ours = metadata if self.plan.exact else None
        logits = self.call(ids, positions, torch.tensor(rows, device=device), cache, ours, mask)
        if ours is not None and metadata.calls == 0:
            raise SpectraError("numerics", f"{self.name} does not call the exact attention; use numerics fast")
        return logits[:asked]

    def new_cache(self, capacity: int) -> SlabCache:
        """An empty cache of at least `capacity` slots. Raises SpectraError where memory is short."""
        return SlabCache(int(self.config.num_hidden_layers), capacity, self.layout, one_device=not self.spread)

    @property
    def layout(self) -> Layout:
        """How its cache is laid out: for our attention in whole blocks, on a CPU in a dtype that it computes in."""
        if self.native is not None:
            return self.native.layout
        if not self.plan.exact:
            return Layout()
        narrow = self.device.type == "cpu" and self.dtype.itemsize < 4
        return Layout(BLOCK, torch.float32 if narrow else None)

    def adapt(self) -> Callable[[], None]:
        """Make the model ready for `forward`; what is returned makes it as it was."""
        model, before = self.model, self.config._attn_implementation
        training = [module for module in model.modules() if module.training]
        detach = self.native.attach(model) if self.native is not None else lambda: None
        if self.plan.exact:
            model.set_attn_implementation(attention.NAME)
        for module in training:
            module.training = False

        def restore() -> None:
            detach()
            if self.plan.exact:
                model.set_attn_implementation(before)
            for module in training:
                module.training = True

        return restore

    def call(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        rows: torch.Tensor,
        cache: Any,
        metadata: object = None,
        mask: Any = None,
    ) -> torch.Tensor:
        """The model's forward: ids and positions [1, q], rows: which logits -> [rows, vocabulary].

        metadata: of attention, where that is ours; the model then gets a mask of the right form and no content.
        """
        arguments: dict[str, Any] = {self._cache: cache, "use_cache": True}
        if "position_ids" in self._steers:
            arguments["position_ids"] = positions
        if metadata is not None:
            here = mask_argument(self.config, None, self.dtype, ids.device)
            arguments |= {"spectra_metadata": metadata, "attention_mask": here}
        elif mask is not None:
            arguments["attention_mask"] = mask
        if picks_rows := "logits_to_keep" in self._steers and not self.spread:
            arguments["logits_to_keep"] = rows
        with without_autocast(self.model, self.device, exact=self.plan.exact):
            logits: torch.Tensor = self.model(ids, **arguments).logits[0]
        return logits if picks_rows else logits.index_select(0, rows.to(logits.device))


def _is_chain(chains: Sequence[Sequence[int]]) -> bool:
    return len(chains[-1]) == len(chains)
