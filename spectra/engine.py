"""The engine as the page sees it: one loaded model that answers by any preset. No gradio, no page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spectra.decode import decode
from spectra.methods import METHODS
from spectra.record import Recording
from spectra.settings import Limits, Sampling

if TYPE_CHECKING:
    from spectra.target.huggingface import HuggingFaceTarget


class Engine:
    """model: its name. badges: short facts about how it runs. methods: preset name -> one line for people."""

    def __init__(self, target: HuggingFaceTarget) -> None:
        self.target = target
        self.model = target.name
        facts = target.facts
        width = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}.get(str(facts["dtype"]), str(facts["dtype"]))
        place = str(facts["processor"]) if target.device.type != "cpu" else f"{facts['threads']} CPU cores"
        self.badges = [place, f"{width}, {facts['numerics']}"]
        self.methods = {name: preset.summary for name, preset in METHODS.items()}

    @classmethod
    def load(cls, model: str | os.PathLike[str] | None = None, *, numerics: str = "auto") -> Engine:
        """Load a model (None: the embedded one) and run a few steps, so that no visitor pays for the first ones."""
        from spectra.target.load import load_target

        engine = cls(load_target(model, numerics=numerics))
        engine.warm_up()
        return engine

    def warm_up(self, tokens: int = 8) -> None:
        """A few steps of plain decoding and of SPECTRA."""
        for method in ("autoregressive", "spectra"):
            for _ in decode(self.target, [0] * 8, method, limits=Limits(tokens)):
                pass

    def answer(
        self,
        prompt: str,
        method: str,
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
    ) -> Recording:
        """Start an answer; iterate it to decode. Raises SpectraError for bad input."""
        sampling = Sampling(temperature=temperature, top_p=top_p, seed=seed)
        raw = not getattr(self.target.tokenizer, "chat_template", None)
        return Recording(self.target, prompt, method, sampling=sampling, max_new_tokens=max_new_tokens, raw=raw)
