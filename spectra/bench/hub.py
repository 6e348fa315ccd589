"""Tasks from the Hugging Face hub, for `--data hub`: which data set holds each, streamed with the datasets package."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from spectra.datastore.hub import hub_rows
from spectra.errors import SpectraError

HUB = "hub"
PLACES = {
    "mt-bench": "hf:HuggingFaceH4/mt_bench_prompts:train",
    "gsm8k": "hf:openai/gsm8k:test:main",
    "humaneval": "hf:openai/openai_humaneval:test",
    "mbpp": "hf:google-research-datasets/mbpp:test:full",
    "classeval": "hf:FudanSELab/ClassEval:test",
    "cnndm": "hf:abisee/cnn_dailymail:test:3.0.0",
    "xsum": "hf:EdinburghNLP/xsum:test",
}
"""Spec-Bench is not there in its published form."""
MOST = 2000
"""Rows that are read of one data set."""


def task_rows(task: str) -> Iterator[tuple[str, Any]]:
    """(where, row) of a task. Raises SpectraError where it is not on the hub or cannot be reached."""
    if task not in PLACES:
        raise SpectraError("data", f"{task} is not on the hub; put its published file into a folder and give that")
    try:
        yield from islice(hub_rows(PLACES[task]), MOST)
    except SpectraError as error:
        raise SpectraError("data", str(error).removeprefix(f"{error.field}: ")) from error
