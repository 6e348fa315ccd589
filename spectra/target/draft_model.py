"""A smaller language model with the target's tokens, for methods that draft: what it says after any node of a tree.

It follows what was committed with a KV cache of its own and reads a growing tree by the target's machinery, in fast
numerics: the tree so far goes through again with each level, for a few rows more in a pass are nearly free.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoTokenizer

from spectra.errors import SpectraError
from spectra.io import resources
from spectra.io.hashes import tokenizer_sha256
from spectra.io.json_text import read_json
from spectra.settings import Sampling
from spectra.target.hub_cache import may_be_a_model, only_cached
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.known_models import learned_of
from spectra.target.load import wrap_model
from spectra.target.prefix import common
from spectra.target.session import PREFILL_ROWS
from spectra.target.whole import load_whole
from spectra.tree import ROOT, TokenTree
from spectra.verify.picks import probabilities_of, processors_of

FOLDER = resources.shipped("assets/models")
SHIPPED = ("spectra-nano", "spectra-nano-boost")
"""The draft models that come with the project; the second was trained on what the first misses."""
WEIGHT_FILES = ("*.safetensors*", "*.bin*")
"""One of these, or an index of several, is in a folder with a model's weights."""
CAPACITY = 512
"""Slots of a new cache, beyond the first text."""


class DraftModel:
    """`Draft` over a causal language model that nobody else uses. Make one with `load_draft`."""

    def __init__(self, model: HuggingFaceTarget) -> None:
        model.adapt()
        self.model = model
        self.name = model.name

    def start(self, sampling: Sampling) -> "DraftModelAnswer":
        return DraftModelAnswer(self.model, sampling)


class DraftModelAnswer:
    """`DraftAnswer`: the cache holds the committed tokens, and behind them the tree of the last pass."""

    def __init__(self, model: HuggingFaceTarget, sampling: Sampling) -> None:
        self._model = model
        self._processors = processors_of(sampling)
        self._tokens: list[int] = []
        self._cache = model.new_cache(CAPACITY)

    def follow(self, tokens: Sequence[int], ahead: int) -> bool:
        """See `DraftAnswer.follow`. Reads what the cache does not hold; False where the model's context ends."""
        if len(tokens) + ahead > self._model.context:
            return False
        same = min(common(self._tokens, tokens), len(tokens) - 1)
        del self._tokens[same:]
        self._cache.length = same
        for at in range(same, len(tokens), PREFILL_ROWS):
            run = tokens[at : at + PREFILL_ROWS]
            self._root = self._pass(run, [[]] * len(run), [len(run) - 1], prefill=True)
            self._cache.length += len(run)
            self._tokens += run
        return True

    def probabilities(self, tree: TokenTree, nodes: Sequence[int]) -> list[NDArray[np.float64]]:
        before = [[*self._tokens, *tree.path_tokens(node)] for node in nodes]
        with self._model.one_torch_thread():
            return probabilities_of(self._processors, self._after(tree, nodes), before, ("draft", "temperature"))

    def likely(self, tree: TokenTree, nodes: Sequence[int], count: int) -> list[list[int]]:
        with self._model.one_torch_thread():
            scores = self._after(tree, nodes).float()
            best: list[list[int]] = scores.topk(min(count, scores.shape[-1])).indices.tolist()
        return best

    def _after(self, tree: TokenTree, nodes: Sequence[int]) -> torch.Tensor:
        """Logits [nodes, vocabulary] after nodes of one level; the root's are known since `follow`."""
        if list(nodes) == [ROOT]:
            return self._root
        rows = sorted({above for node in nodes for above in tree.path(node)})
        row_of = {node: row for row, node in enumerate(rows)}
        chains = [[row_of[above] for above in tree.path(node)] for node in rows]
        return self._pass([tree.tokens[node] for node in rows], chains, [row_of[node] for node in nodes])

    def _pass(
        self, tokens: Sequence[int], chains: Sequence[Sequence[int]], rows: Sequence[int], *, prefill: bool = False
    ) -> torch.Tensor:
        need = self._cache.length + self._model.plan.fit(len(tokens))
        if need > self._cache.capacity:
            self._cache = self._cache.copy(self._cache.length, need + max(CAPACITY, need // 2))
        with self._model.one_torch_thread():
            return self._model.forward(self._cache, tokens, chains, rows, prefill=prefill)


class Like(NamedTuple):
    """What a draft model has to be like: the model it drafts for. tokenizer_sha256: None where nothing is known."""

    name: str
    vocabulary: int
    dtype: torch.dtype
    device: torch.device
    tokenizer_sha256: str | None

    @classmethod
    def of(cls, target: HuggingFaceTarget) -> "Like":
        sha256 = None if target.tokenizer is None else tokenizer_sha256(target.tokenizer)
        return cls(target.name, target.config.vocab_size, target.dtype, target.device, sha256)


@dataclass(frozen=True, slots=True)
class NamedDraft:
    """`Draft` that is not loaded: with it a method can be made, which says what there is, but not run."""

    name: str

    def start(self, sampling: Sampling) -> NoReturn:
        raise SpectraError("draft", f"{self.name} is not loaded; load it with load_draft")


def named_drafts(paths: Iterable[str | os.PathLike[str]], target: HuggingFaceTarget) -> list[NamedDraft]:
    """What `load_drafts` would load, by name, where nothing may be computed."""
    named = [os.fspath(path) for path in paths]
    return [NamedDraft(name) for name in named or fitting(Like.of(target))]


def load_draft(path: str | os.PathLike[str] | None, target: HuggingFaceTarget | Like) -> DraftModel:
    """The draft model of a folder or hub id for this target, in its dtype on its device; None is the shipped one.

    Raises SpectraError for one that cannot be loaded, has other tokens, or cannot score trees.
    """
    like = target if isinstance(target, Like) else Like.of(target)
    name = shipped("draft") if path is None else os.fspath(path)
    network = load_like(name, like, "draft")
    check_draft_tokenizer(name, like.tokenizer_sha256, like.name)
    step = "auto" if like.device.type == "cpu" else "eager"
    try:
        model = wrap_model(network, numerics="fast", step=step, name=Path(name).name if Path(name).is_dir() else name)
    except SpectraError as error:
        raise SpectraError("draft", error.problem) from error
    if not model.trees:
        raise SpectraError("draft", f"{name!r} places tokens by cache slot and cannot score trees; give another one")
    return DraftModel(model)


def load_drafts(paths: Iterable[str | os.PathLike[str]], target: HuggingFaceTarget | Like) -> list[DraftModel]:
    """The draft models named, in this order; without any, the shipped ones that fit. Raises like `load_draft`."""
    like = target if isinstance(target, Like) else Like.of(target)
    named = list(paths)
    if named:
        return [load_draft(path, like) for path in named]
    return [load_draft(FOLDER / name, like) for name in fitting(like)]


def drafts_of(target: HuggingFaceTarget, paths: Iterable[str | os.PathLike[str]]) -> Sequence[DraftModel]:
    """As `load_drafts`, once for a model in memory: the drop-in asks anew for each answer."""
    named = tuple(os.fspath(path) for path in paths)
    known = learned_of(target.model).drafts
    if named not in known:
        known[named] = load_drafts(named, target)
    found: Sequence[DraftModel] = known[named]
    return found


def shipped(field: str) -> str:
    """The folder of the first shipped draft model. Raises SpectraError for `field` where it is not there."""
    folder = FOLDER / SHIPPED[0]
    if not folder.is_dir():
        raise SpectraError(field, f"{SHIPPED[0]} does not come with this copy; name a draft model's folder")
    return str(folder)


def load_like(name: str, like: Like, field: str) -> Any:
    """A causal model with as many tokens, in the same dtype on the same device. Raises SpectraError for `field`."""
    with _named(name, field) as local:
        model: Any = load_whole(name, field, dtype=like.dtype, local_files_only=local)
    theirs = model.config.get_text_config(decoder=True).vocab_size
    if like.vocabulary != theirs:
        raise SpectraError(
            field, f"{name!r} has {theirs} tokens, the model {like.vocabulary}; give one with its tokenizer"
        )
    return model.to(like.device).eval()


def check_draft(name: str, sha256: str, model: str) -> None:
    """Raise SpectraError for a draft model that `load_draft` would refuse, as far as its files show it.

    sha256: of the tokenizer of `model`.
    """
    with _named(name, "draft") as local:
        AutoConfig.from_pretrained(name, local_files_only=local)
    folder = Path(name)
    if folder.is_dir() and not any(file for kind in WEIGHT_FILES for file in folder.glob(kind)):
        raise SpectraError("draft", f"{name!r} has no weights: model.safetensors is missing; give a model's folder")
    check_draft_tokenizer(name, sha256, model)


@contextmanager
def _named(name: str, field: str) -> Iterator[bool]:
    """Whether only files that are here may be used; what fails inside names the model."""
    if not may_be_a_model(name):
        raise SpectraError(field, f"{name!r} is not there, and no hub id; give a model's folder")
    try:
        yield Path(name).is_dir() or only_cached(name)
    except SpectraError:
        raise
    except Exception as error:  # hub, file and config errors differ by version; the cause is named
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SpectraError(field, f"cannot load {name!r} ({first[:160]}); give a folder or a hub id") from error


def check_draft_tokenizer(name: str, sha256: str | None, model: str) -> None:
    """Raise SpectraError for a draft model with another tokenizer; one that comes without is taken at its word.

    sha256: of the tokenizer of `model`; None where nothing is known.
    """
    local = Path(name).is_dir()
    if sha256 is None or (local and not any(Path(name).glob("tokenizer*"))):
        return
    try:
        theirs = AutoTokenizer.from_pretrained(name, local_files_only=local or only_cached(name))
    except Exception as error:
        raise SpectraError(
            "draft", f"the tokenizer of {name!r} cannot be read ({error}); give one with its own"
        ) from error
    if tokenizer_sha256(theirs) != sha256:
        raise SpectraError("draft", f"{name!r} has another tokenizer than {model}; give one with the same")


def fitting(like: Like) -> list[str]:
    """The shipped draft models that are there and fit."""
    return [name for name in SHIPPED if _fits(FOLDER / name, like)]


def _fits(folder: Path, like: Like) -> bool:
    """Whether a shipped draft model is there and made for this tokenizer. Raises SpectraError for a damaged card."""
    file = folder / "card.json"
    try:
        made_for = read_json(file)["tokenizer_sha256"]
    except OSError:
        return False
    except (ValueError, LookupError, TypeError) as error:
        fix = "install spectra-decoding again, or name a draft model's folder"
        raise SpectraError("draft", f"{file} is damaged; {fix}") from error
    return like.tokenizer_sha256 is not None and made_for == like.tokenizer_sha256
