"""An old store's texts among the candidates of a new one: their perplexities are known, their prompts stay listed."""

from collections.abc import Mapping
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import numpy as np

from spectra.datastore.build.gather import Gathering
from spectra.datastore.build.select import Selection
from spectra.datastore.build.workdir import scored
from spectra.datastore.card import check_tokenizer
from spectra.datastore.language import Language
from spectra.datastore.layout import CORPUS, TEXTS
from spectra.datastore.sources import NONE
from spectra.errors import SpectraError
from spectra.io.workdir import replace


def check_base(card: Mapping[str, Any], language: Language) -> None:
    """Raise SpectraError unless the perplexities of this store are the model's own."""
    check_tokenizer(card, language.sha256, language.model)
    if card["model"] != language.model:
        raise SpectraError(
            "model", f"{card['name']} was scored by {card['model']}, not by {language.model}; name that model"
        )
    if not card["refined"]:
        raise SpectraError("datastore", f"{card['name']} is not refined, so its texts have no score; build it anew")


def adopt(base: Path, gathering: Gathering) -> None:
    """Make the store's texts the first candidates, with their scores."""
    texts = np.load(base / TEXTS)
    tokens = np.load(base / CORPUS, mmap_mode="r")
    scores = scored(np.arange(len(texts)), texts["perplexity"])
    replace(gathering.workdir.known_scores, scores.tobytes())
    for row in texts:
        gathering.add(tokens[row["start"] : row["start"] + row["length"]], bytes(row["hash"]), 0, NONE)
    gathering.checkpoint()
    gathering.resume()  # learns the texts


def merge_facts(base: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What was seen and dropped for the old store counts for the new one too."""
    sums = {
        name: {key: base[name].get(key, 0) + facts[name][key] for key in facts[name]} for name in ("seen", "dropped")
    }
    history = {"base": {"sha256": base["sha256"], "command": base["command"]}}
    return {**facts, **sums, **history, "corpus": [*base["corpus"], *facts["corpus"]]}


def merge_histogram(base: Mapping[str, Any], selection: Selection) -> Selection:
    """What was scored for the old store counts too."""
    return changed(selection, histogram=selection.histogram + np.array(base["perplexity"]["scored"], np.int64))
