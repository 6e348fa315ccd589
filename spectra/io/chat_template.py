"""A conversation in a model's chat template, which is a program of the model's that may refuse it."""

from collections.abc import Sequence
from typing import Any

from spectra.errors import SpectraError
from spectra.settings import Message


def template_ids(tokenizer: Any, messages: Sequence[Message]) -> list[int]:
    """Token ids of a conversation, opened for an answer. Raises SpectraError where the template fails on it."""
    return list(_apply(tokenizer, messages, add_generation_prompt=True, tokenize=True, return_dict=True)["input_ids"])


def template_text(tokenizer: Any, messages: Sequence[Message], *, opened: bool = True) -> str:
    """The text of a conversation. opened: for an answer. Raises SpectraError where the template fails on it."""
    return str(_apply(tokenizer, messages, add_generation_prompt=opened, tokenize=False))


def _apply(tokenizer: Any, messages: Sequence[Message], **options: Any) -> Any:
    try:
        return tokenizer.apply_chat_template(list(messages), **options)
    except Exception as error:
        raise SpectraError(
            "prompt", f"the model's chat template fails on it ({error}); --raw continues a text without the template"
        ) from error
