"""`generate` by transformers and by SPECTRA on one prompt, with processors and criteria that read the tokens."""

import torch
from transformers import LogitsProcessor, StoppingCriteria
from transformers.generation.streamers import BaseStreamer

import spectra

PROMPT = torch.tensor([[5, 6, 7, 5, 6, 7, 5]])
MASK = torch.ones_like(PROMPT)


def stock(model, **options):
    return model.generate(PROMPT, attention_mask=MASK, **{"max_new_tokens": 24, "do_sample": False, **options})


def ours(model, custom=spectra.generate, **options):
    return stock(model, custom_generate=custom, **options)


class OddOnly(LogitsProcessor):
    """Reads the tokens: forbids the parity of the last one."""

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        scores[:, int(input_ids[0, -1]) % 2 :: 2] = float("-inf")
        return scores


class WritesInPlace(LogitsProcessor):
    """Makes the last token less likely, in the scores that it is given."""

    def __call__(self, input_ids, scores):
        scores[:, int(input_ids[0, -1])] -= 2
        return scores


class Spoils(LogitsProcessor):
    """Gives every token the score `value`."""

    def __init__(self, value):
        self.value = value

    def __call__(self, input_ids, scores):
        return torch.full_like(scores, self.value)


class EndsInFive(StoppingCriteria):
    def __call__(self, input_ids, scores, **_):
        return torch.tensor([input_ids.shape[1] > 9 and int(input_ids[0, -1]) % 5 == 0])


class OddRows(LogitsProcessor):
    """`OddOnly` of several sequences."""

    def __call__(self, input_ids, scores):
        return torch.cat([OddOnly()(ids[None], own[None]) for ids, own in zip(input_ids, scores, strict=True)])


class EndsInFives(StoppingCriteria):
    """`EndsInFive` of several sequences."""

    def __call__(self, input_ids, scores, **_):
        return torch.cat([EndsInFive()(ids[None], None) for ids in input_ids])


class Reader(BaseStreamer):
    def __init__(self):
        self.got, self.ended = [], 0

    def put(self, value):
        self.got += value.flatten().tolist()

    def end(self):
        self.ended += 1


class Grammar(LogitsProcessor):
    """As those of xgrammar and outlines: it moves on by the last token of each call and knows no way back."""

    def __init__(self):
        self.state, self.seen, self.calls = 1, None, 0

    def __call__(self, input_ids, scores):
        tokens = input_ids[0].tolist()
        if self.seen is not None:
            assert tokens[:-1] == self.seen, "a call that plain decoding would not make"
            self.state = (5 * self.state + tokens[-1]) % 7
        self.seen, self.calls = tokens, self.calls + 1
        return scores.masked_fill(torch.arange(scores.shape[-1]) % 7 != self.state, float("-inf"))
