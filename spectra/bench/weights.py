"""`python -m spectra.bench weights`: what the kinds of weights cost in perplexity, and what they save in bytes.

Each kind's numbers are put into the same model and computed with in fp32, so that nothing but the weights differs.
"""

import importlib
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from spectra.errors import SpectraError
from spectra.io.bounded import read_whole
from spectra.io.files import check_writable, write_text
from spectra.service.loading import check_model
from spectra.settings import check_number
from spectra.target.choices import check_device_name, unless_embedded

BUILT_IN = ("statistics", "argparse", "textwrap")
"""Modules of the standard library whose source, half of it prose, is read where no text is given."""
BF16, OWN = "bf16", "own blocks"


@dataclass(frozen=True, slots=True)
class WeightsOptions:
    """text: a UTF-8 file. tokens: the most that are read of it. window: tokens of a pass, each begins anew."""

    model: str | None = None
    device: str | None = None
    text: Path | None = None
    tokens: int = 4096
    window: int = 512
    out: Path | None = None

    def __post_init__(self) -> None:
        check_model(self.model)
        check_device_name(self.device)
        check_number("window", self.window, 2, 1_000_000, whole=True)
        check_number("tokens", self.tokens, 2, 1_000_000_000, whole=True)


class WeightFigures(NamedTuple):
    """Of one kind of weights. nbytes: of all parameters. numbers: how many those are."""

    kind: str
    nbytes: int
    numbers: int
    perplexity: float


def run_weights(options: WeightsOptions) -> int:
    """The subcommand `weights`. Loads the model once for each kind."""
    from spectra.target.load import load_network
    from spectra.target.notices import quiet_transformers

    quiet_transformers()
    if options.out is not None:
        check_writable(options.out, "out")
    text = read_text(options.text)
    figures: list[WeightFigures] = []
    about = ""
    for kind in [BF16, OWN, "int8", "q4"]:
        network, tokenizer, name = load_network(options.model, device=options.device, dtype="bf16")
        codes = codes_of(network, options.model, kind)
        if codes is None:
            continue
        ids = windows(tokenizer, text, options, network)
        about = about or describe(name, network, options, ids)
        figures.append(measure(network, codes, kind, ids))
    report = f"{about}\n\n{markdown(figures)}"
    print(report, end="")
    if options.out is not None:
        write_text(options.out, report, "out")
    return 0


def read_text(file: Path | None) -> str:
    """The text to score: the file's, or without one sources of Python's library. Raises SpectraError naming `text`."""
    if file is None:
        return "\n".join(inspect.getsource(importlib.import_module(name)) for name in BUILT_IN)
    try:
        return read_whole(file).decode("utf-8")
    except (OSError, ValueError) as error:
        raise SpectraError("text", f"cannot read {file} ({error}); give a UTF-8 text file") from error


def codes_of(network: Any, model: str | None, kind: str) -> Mapping[str, Any] | None:
    """The codes of this kind, none for bf16; None where the model does not come in blocks."""
    from spectra.target.embedded import packaged_weights
    from spectra.target.gguf_file import open_gguf
    from spectra.target.gguf_header import is_gguf
    from spectra.target.weights import quantise

    if kind == BF16:
        return {}
    if kind != OWN:
        return quantise(network, kind)
    model = unless_embedded(model)
    if model is None:
        return packaged_weights() or None
    return (open_gguf(model).weights.quantised or None) if is_gguf(model) else None


def windows(tokenizer: Any, text: str, options: WeightsOptions, network: Any) -> list[list[int]]:
    """The text's first tokens in pieces of equal length, the rest as a shorter one."""
    longest = getattr(network.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if longest and options.window > longest:
        raise SpectraError("window", f"{options.window} tokens do not fit the context of {longest}; give fewer")
    ids = list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])[: options.tokens]
    pieces = [ids[at : at + options.window] for at in range(0, len(ids), options.window)]
    pieces = [piece for piece in pieces if len(piece) > 1]
    if not pieces:
        raise SpectraError("text", f"it has {len(ids)} tokens, nothing to predict; give a longer one")
    return pieces


def measure(network: Any, codes: Mapping[str, Any], kind: str, pieces: Sequence[Sequence[int]]) -> WeightFigures:
    """Perplexity: the exponential of the mean loss over all tokens but the first of each piece."""
    import torch

    from spectra.target.native.parameters import fill_parameters

    parameters = dict(network.named_parameters())
    nbytes = sum(codes[name].nbytes if name in codes else 2 * p.numel() for name, p in parameters.items())
    network.float()
    if codes:
        fill_parameters(network, codes)
    total = 0.0
    with torch.inference_mode():
        for piece in pieces:
            ids = torch.tensor([piece], device=network.device)
            logits = network(ids).logits[0, :-1].float()
            total += float(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
    predicted = sum(len(piece) - 1 for piece in pieces)
    return WeightFigures(kind, nbytes, sum(p.numel() for p in parameters.values()), math.exp(total / predicted))


def describe(name: str, network: Any, options: WeightsOptions, pieces: Sequence[Sequence[int]]) -> str:
    """One line: what was read, and by what."""
    import torch
    import transformers

    source = options.text.name if options.text else f"the source of {', '.join(BUILT_IN)}"
    tokens = sum(map(len, pieces))
    return (
        f"model {name}, device {network.device}, torch {torch.__version__}, transformers {transformers.__version__}. "
        f"{tokens} tokens of {source}, {options.window} a pass, fp32 arithmetic."
    )


def markdown(figures: Sequence[WeightFigures]) -> str:
    """A row a kind; the first is what the others are compared with."""
    lines = ["| weights | MB | bits a weight | perplexity | of bf16 |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {one.kind} | {one.nbytes / 1e6:.1f} | {8 * one.nbytes / one.numbers:.2f} | {one.perplexity:.3f} "
        f"| {one.perplexity / figures[0].perplexity:.4f} |"
        for one in figures
    ]
    return "\n".join(lines) + "\n"
