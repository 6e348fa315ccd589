"""Streaming text: pieces are never half a character and add up to the text of all ids."""

import random

import pytest
from tokenizers import ByteLevelBPETokenizer

from spectra.io.text_stream import TextStream

TEXTS = (
    "plain words, and more words",
    "naïve café e\u0301 a\u0308 combining",
    "漢字かな交じり文 한국어",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈 flags 🇩🇪",
    " leading and trailing \n\n\t ",
    "",
)


def decode_bytes(ids):
    """One token a byte: every character beyond ASCII is split."""
    return bytes(ids).decode("utf-8", errors="replace")


@pytest.fixture(scope="module")
def merged():
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXTS * 3, vocab_size=320, show_progress=False)
    return tokenizer


def stream(decode, ids, dice):
    """Pieces of `ids` pushed in runs of random length."""
    text, pieces, at = TextStream(decode), [], 0
    while at < len(ids):
        run = dice.randrange(1, 5)
        pieces += text.push(ids[at : at + run])
        at += run
    return pieces + text.flush()


@pytest.mark.parametrize("text", TEXTS)
def test_pieces_add_up_and_never_split_a_character(text, merged):
    dice = random.Random(1)
    for decode, ids in ((decode_bytes, list(text.encode())), (merged.decode, merged.encode(text).ids)):
        pieces = stream(decode, ids, dice)
        assert "".join(piece for _, piece in pieces) == text
        assert sum(count for count, _ in pieces) == len(ids)
        assert not any("\ufffd" in piece for _, piece in pieces)


def test_any_bytes_at_all_add_up():
    dice = random.Random(2)
    alphabet = [0x41, 0x20, 0x80, 0x99, 0x9F, 0xC3, 0xA9, 0xE6, 0xBC, 0xA2, 0xF0, 0x9F, 0x99, 0x82, 0xFF]
    for _ in range(3000):
        ids = [dice.choice(alphabet) for _ in range(dice.randrange(0, 24))]
        pieces = stream(decode_bytes, ids, dice)
        assert "".join(piece for _, piece in pieces) == decode_bytes(ids)
        assert sum(count for count, _ in pieces) == len(ids)


def test_ids_that_never_make_a_character_do_not_wait_for_ever():
    text = TextStream(decode_bytes)
    pieces = text.push([0x80] * 40)
    assert sum(count for count, _ in pieces) > 25
