"""An old store's texts among the candidates of a new one: their perplexities are known, their prompts stay listed."""

from collections.abc import Mapping
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import numpy as np

from spectra.datastore.card import check_tokenizer
from spectra.datastore.finish import CORPUS, TEXTS
from spectra.datastore.gather import Gathering
from spectra.datastore.language import Language
from spectra.datastore.select import Selection
from spectra.datastore.sources import NONE
from spectra.datastore.work import SCORE, replace
from spectra.errors import SpectraError


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
    texts, tokens = np.load(base / TEXTS), np.load(base / CORPUS, mmap_mode="r")
    scores = np.empty(len(texts), SCORE)
    scores["row"], scores["perplexity"] = np.arange(len(texts)), texts["perplexity"]
    replace(gathering.work.known_scores, scores.tobytes())
    for row in texts:
        gathering.add(tokens[row["start"] : row["start"] + row["length"]], bytes(row["hash"]), 0, NONE)
    gathering.checkpoint()
    gathering.resume()  # learns the texts


def merged_facts(
    base: Mapping[str, Any], facts: Mapping[str, Any], selection: Selection
) -> tuple[dict[str, Any], Selection]:
    """What was seen, dropped and scored for the old store counts for the new one too."""
    sums = {
        name: {key: base[name].get(key, 0) + facts[name][key] for key in facts[name]} for name in ("seen", "dropped")
    }
    history = {"base": {"sha256": base["sha256"], "command": base["command"]}}
    corpus = [*base["corpus"], *facts["corpus"]]
    histogram = selection.histogram + np.array(base["perplexity"]["scored"], np.int64)
    return {**facts, **sums, **history, "corpus": corpus}, changed(selection, histogram=histogram)
