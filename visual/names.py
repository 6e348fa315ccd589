"""Short names of the presets, in groups. Presets that are not listed keep their own name, among the baselines."""

from collections.abc import Iterable

from visual.engine import PLAIN

NAMES = {
    PLAIN: "Plain decoding",
    "served": "As served",
    "spectra": "SPECTRA",
    "spectra-core": "SPECTRA-CORE",
    "spectra-retrieval": "SPECTRA-RETRIEVAL",
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
}


GROUPS = ("SPECTRA", "As in the paper", "Other methods")
PREFIXES = ("SPECTRA, ", "Paper: ", "Baseline: ")


def short(method: str) -> str:
    """What the page calls a preset."""
    if method in NAMES:
        return NAMES[method]
    group = group_of(method)
    words = method.removeprefix(("spectra-", "spectra-paper-", "")[group]).replace("-", " ")
    return PREFIXES[group] + (words[:1].upper() + words[1:] if group == 2 else words)


def group_of(method: str) -> int:
    """0: SPECTRA, 1: the paper's literal presets and their ablations, 2: baselines, 3: plain decoding."""
    if method == PLAIN:
        return 3
    if not method.startswith("spectra"):
        return 2
    return int(method.startswith("spectra-paper"))


def choices(methods: Iterable[str]) -> list[tuple[str, str]]:
    """(short name, preset), by group and within a group as they came."""
    return [(short(method), method) for method in sorted(methods, key=group_of)]


def grouped(methods: Iterable[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """(heading, its presets as (short name without the group's prefix, preset)); plain decoding is in no group."""
    named = choices(methods)
    found = [
        (GROUPS[group], [(name.removeprefix(PREFIXES[group]), each) for name, each in named if group_of(each) == group])
        for group in range(len(GROUPS))
    ]
    return [(heading, presets) for heading, presets in found if presets]
