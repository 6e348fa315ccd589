"""A tiny tokenizer: one id a word (with or without a chat template) or a letter."""

import string
from pathlib import Path

from tiny import VOCABULARY, make
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}user {{ m['content'] }} {% endfor %}{% if add_generation_prompt %}model {% endif %}"


def letters() -> PreTrainedTokenizerFast:
    """One id a letter, for what looks into the tokens' texts."""
    alphabet = string.ascii_letters + string.digits + "-_"
    inner = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    inner.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=inner)


def tokenizer(chat: bool = True) -> PreTrainedTokenizerFast:
    words = ["user", "model", "<unk>", *(f"w{i}" for i in range(3, VOCABULARY))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inner.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>")
    made.chat_template = TEMPLATE if chat else None
    return made


def save_model(folder: Path, seed: int = 0, longest: int = 256, *, chat: bool = True) -> Path:
    """A tiny Llama of that many positions with its tokenizer."""
    make("llama", seed, max_position_embeddings=longest).save_pretrained(folder)
    tokenizer(chat).save_pretrained(folder)
    return folder
