"""Short names of the presets, in groups. One that is not listed goes by its own name, in the group that begins so."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from spectra.settings import Value
from visual.engine import PLAIN
from visual.method_settings import in_words

NAMES = {
    PLAIN: "Plain decoding",
    "served": "As served",
    "spectra": "SPECTRA",
    "spectra-core": "SPECTRA-CORE",
    "spectra-retrieval": "SPECTRA-RETRIEVAL",
    "spectra-draft": "SPECTRA with a draft model",
    "spectra-paper": "Paper: SPECTRA",
    "spectra-paper-core": "Paper: CORE",
    "spectra-paper-retrieval": "Paper: RETRIEVAL",
    "spectra-paper-core-no-forward": "Paper: CORE, no forward",
    "spectra-paper-core-no-backward": "Paper: CORE, no backward",
    "spectra-paper-core-no-subngram": "Paper: CORE, whole rows only",
    "spectra-paper-retrieval-no-ppl": "Paper: RETRIEVAL, unrefined",
    "anpd": "Baseline: ANPD",
    "rest": "Baseline: REST",
    "lookahead-rest": "Baseline: Lookahead + REST",
    "lookahead-7b": "Baseline: Lookahead, 7B sizes",
    "specinfer": "Baseline: SpecInfer",
    "specinfer-naive": "Baseline: SpecInfer, naive",
    "spechub": "Baseline: SpecHub",
    "rrs": "Baseline: RRS",
    "rrsw": "Baseline: RRSw",
    "hf-generate": "Stock generate",
}


KINDS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
"""Short names of dtypes."""


@dataclass(frozen=True, slots=True)
class PresetGroup:
    """heading: above its presets. prefix: of their short names. key: what the presets' own names start with."""

    heading: str
    prefix: str
    key: str


OURS = PresetGroup("SPECTRA", "SPECTRA, ", "spectra-")
PAPER = PresetGroup("As in the paper", "Paper: ", "spectra-paper-")
OTHERS = PresetGroup("Other methods", "Baseline: ", "")
GROUPS = (OURS, PAPER, OTHERS)
"""In the order of the page. Plain decoding is in none of them."""


class Choice(NamedTuple):
    """An entry of a list to choose from, as gradio takes it."""

    name: str
    preset: str


class ChoiceGroup(NamedTuple):
    """heading: above its choices."""

    heading: str
    choices: list[Choice]


def group_of(method: str) -> PresetGroup | None:
    """The group of a preset: ours and ablations of it, the paper's literal presets and theirs, or baselines."""
    if method == PLAIN:
        return None
    if not method.startswith("spectra"):
        return OTHERS
    return PAPER if method.startswith("spectra-paper") else OURS


def short(method: str) -> str:
    """What the page calls a preset."""
    group = group_of(method)
    if method in NAMES or group is None:
        return NAMES[method]
    words = method.removeprefix(group.key).replace("-", " ")
    if group is OTHERS:
        words = words[:1].upper() + words[1:]
    return group.prefix + words


def named(method: str, changed: Mapping[str, Value]) -> str:
    """What the page calls a preset with some of its settings changed."""
    words = in_words(changed)
    return f"{short(method)} ({words})" if words else short(method)


def choices(methods: Iterable[str]) -> list[Choice]:
    """The presets by short name, by group and within a group in the order they came, plain decoding last."""
    every = list(methods)
    ordered = [method for group in (*GROUPS, None) for method in every if group_of(method) is group]
    return [Choice(short(method), method) for method in ordered]


def grouped(methods: Iterable[str]) -> list[ChoiceGroup]:
    """The presets under the headings of their groups, by short names without the group's prefix."""
    found: dict[str, list[Choice]] = {}
    for choice in choices(methods):
        group = group_of(choice.preset)
        if group is not None:
            name = choice.name.removeprefix(group.prefix)
            found.setdefault(group.heading, []).append(Choice(name, choice.preset))
    return [ChoiceGroup(heading, presets) for heading, presets in found.items()]
