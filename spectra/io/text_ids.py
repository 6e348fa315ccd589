"""Token ids of texts as they are, by a tokenizer of whatever files."""

from collections.abc import Sequence
from typing import Any

from spectra.errors import SpectraError


def text_ids(tokenizer: Any, texts: str | Sequence[str], **options: Any) -> Any:
    """The ids of a text, or of each of several. Raises SpectraError where the tokenizer fails on them, as one does
    whose vocabulary lacks its token for unknown words.
    """
    try:
        return tokenizer(texts, **options)["input_ids"]
    except Exception as error:  # of the library behind it, which has no class of its own for this
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        problem = f"its tokenizer cannot read the text ({said[:160]})"
        raise SpectraError("model", f"{problem}; give a model whose tokenizer files are whole") from error
