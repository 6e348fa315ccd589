"""Where each task is published, how a row of it is laid out, and what of a row becomes the prompt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
MT_BENCH = ("writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities")


@dataclass(frozen=True, slots=True)
class Format:
    """files: a pattern; JSON lines (.gz too), or one JSON list in a file that ends in .json.

    read: row -> (the user's turns, category). Raises KeyError, TypeError, IndexError or AttributeError for another row.
    hub: the data set on the Hugging Face hub; "" where it is not there in its published form. reference: fields of
    which one holds what a good answer is, where the task has that.
    """

    files: str
    read: Callable[[Row], tuple[list[str], str]]
    hub: str = ""
    reference: tuple[str, ...] = ()


def _turns(row: Row) -> tuple[list[str], str]:
    turns = row.get("turns") or row["prompt"]
    if not isinstance(turns, list) or not turns:
        raise TypeError("turns is not a list of texts")
    return turns, row.get("category", "")


def _spec_bench(row: Row) -> tuple[list[str], str]:
    """MT-Bench's eight categories are one of Spec-Bench's six tasks."""
    turns, category = _turns(row)
    return turns, "mt_bench" if category in MT_BENCH else category


def _gsm8k(row: Row) -> tuple[list[str], str]:
    return [row["question"]], ""


def _humaneval(row: Row) -> tuple[list[str], str]:
    return [f"Complete this Python function.\n\n{row['prompt'].strip()}"], ""


def _mbpp(row: Row) -> tuple[list[str], str]:
    return [row.get("text") or row["prompt"]], ""


def _classeval(row: Row) -> tuple[list[str], str]:
    return [f"Complete the Python class {row['class_name']}.\n\n{row['skeleton'].strip()}"], ""


def _summary(length: str) -> Callable[[Row], tuple[list[str], str]]:
    def read(row: Row) -> tuple[list[str], str]:
        article = row.get("article") or row["document"]
        return [f"Summarize this article in {length}.\n\n{article.strip()}"], ""

    return read


TASKS: dict[str, Format] = {
    "mt-bench": Format("mt_bench_question.jsonl", _turns, "hf:HuggingFaceH4/mt_bench_prompts:train"),
    "gsm8k": Format("gsm8k_test*.jsonl", _gsm8k, "hf:openai/gsm8k:test:main"),
    "humaneval": Format("HumanEval.jsonl.gz", _humaneval, "hf:openai/openai_humaneval:test"),
    "mbpp": Format("mbpp_test*.jsonl", _mbpp, "hf:google-research-datasets/mbpp:test:full"),
    "classeval": Format("ClassEval_data.json", _classeval, "hf:FudanSELab/ClassEval:test"),
    "spec-bench": Format("spec_bench_question.jsonl", _spec_bench),
    "cnndm": Format(
        "cnndm*.jsonl", _summary("a few sentences"), "hf:abisee/cnn_dailymail:test:3.0.0", ("highlights", "summary")
    ),
    "xsum": Format("xsum*.jsonl", _summary("one sentence"), "hf:EdinburghNLP/xsum:test", ("summary", "highlights")),
}
