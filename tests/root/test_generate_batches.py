"""`generate` of several sequences: padded batches, several samples of a prompt, state of its own for each sequence."""

from functools import partial

import pytest
import torch
from generating import MASK, PROMPT, EndsInFives, Grammar, OddRows, Reader, ours
from tiny import FAMILIES, model_of
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
)
from transformers import (
    UnbatchedClassifierFreeGuidanceLogitsProcessor as Guidance,
)

import spectra
from spectra.errors import SpectraError


class Biases(LogitsProcessor):
    """One for each row of a batch of two."""

    def __call__(self, input_ids, scores):
        return scores + torch.eye(2, scores.shape[-1])


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("logits_processor", {"logits_processor": [Biases()]}),
        ("logits_processor", {"logits_processor": [lambda ids, scores: scores[0]]}),
        ("logits_processor", {"logits_processor": [Guidance(1.5, model_of("llama"))]}),
        ("streamer", {"custom_generate": partial(spectra.generate, streamer=Reader())}),
        ("encoder_no_repeat_ngram_size", {"encoder_no_repeat_ngram_size": 2}),
        ("prefix_allowed_tokens_fn", {"prefix_allowed_tokens_fn": lambda number, ids: [1, 2, 3]}),
        ("stopping_criteria", {"stopping_criteria": [lambda ids, scores: torch.tensor([False, True])]}),
    ],
)
def test_what_needs_all_sequences_at_once_is_named(field, options):
    options = {"custom_generate": spectra.generate, "max_new_tokens": 9, "pad_token_id": 0, **options}
    with pytest.raises(SpectraError) as error:
        model_of("llama").generate(PROMPT.repeat(2, 1), attention_mask=MASK.repeat(2, 1), **options)
    assert error.value.field == field


PADDED = torch.tensor([[0, 0, 0, 5, 6, 7, 5], [9, 8, 7, 6, 5, 4, 3], [0, 0, 0, 0, 0, 0, 11], [0, 1, 2, 3, 0, 2, 3]])
LEFT = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1] * 7, [0, 0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1, 1]])


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=() if name in ("gpt2", "gemma3", "llama-g3") else pytest.mark.all_cases)
        for name in FAMILIES
    ],
)
def test_padded_batches_equal_stock(family):
    model = model_of(family, torch.float32)
    said = model.generate(PADDED, attention_mask=LEFT, max_new_tokens=24, do_sample=False)[:, 7:].tolist()
    for options in (
        {"method": "spectra-paper-core"},
        {"eos_token_id": [said[0][4], said[1][9]], "pad_token_id": 1},
        {"eos_token_id": [said[0][4], said[1][9]], "repetition_penalty": 1.2, "min_new_tokens": 3, "at_once": 2},
        {"encoder_repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
        {"eos_token_id": 63, "stopping_criteria": [EndsInFives()], "logits_processor": [OddRows()]},
    ):
        own = {name: options.pop(name) for name in ("method", "at_once") if name in options}
        given = {"attention_mask": LEFT, "max_new_tokens": 24, "do_sample": False, **options}
        truth = model.generate(PADDED, **given)
        assert torch.equal(model.generate(PADDED, custom_generate=spectra.generate, **own, **given), truth), options


class Grammars(LogitsProcessor):
    """As xgrammar's: a list of grammars, one for all sequences or one for each, counted at the first call."""

    def __init__(self, *grammars):
        self.compiled_grammars, self.states = list(grammars), []

    def __call__(self, input_ids, scores):
        if not self.states:
            many = self.compiled_grammars
            self.states = [[grammar] for grammar in (many if len(many) > 1 else many * len(input_ids))]
        assert len(self.states) == len(input_ids), "The number of compiled grammars must be equal to the batch size."
        masked = scores.clone()
        for row, state in enumerate(self.states):
            state[0] = state[0] * 3 % 7 or 1
            masked[row] = scores[row].masked_fill(torch.arange(scores.shape[-1]) % 7 != state[0], float("-inf"))
        return masked


@pytest.mark.parametrize("grammars", [(2,), (1, 2, 3, 4)])
def test_a_grammar_for_each_sequence(grammars):
    """Each row was given all of them, and xgrammar's processor ended the program."""
    model = model_of("llama", torch.float32)
    given = {"attention_mask": LEFT, "max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    truth = model.generate(PADDED, logits_processor=[Grammars(*grammars)], **given)
    out = model.generate(PADDED, logits_processor=[Grammars(*grammars)], custom_generate=spectra.generate, **given)
    assert torch.equal(out, truth)


class EndsAtTheFourthLook(StoppingCriteria):
    """Keeps how often it was asked."""

    looks = 0

    def __call__(self, ids, scores, **options):
        self.looks += 1
        return torch.full((len(ids),), self.looks == 4)


def test_a_criterion_with_a_memory_has_one_for_each_sequence():
    model = model_of("llama", torch.float32)
    options = {"attention_mask": LEFT, "max_new_tokens": 24, "stopping_criteria": [EndsAtTheFourthLook()]}
    out = model.generate(PADDED, custom_generate=spectra.generate, method="autoregressive", **options)
    truth = model.generate(PADDED, **{**options, "stopping_criteria": [EndsAtTheFourthLook()]})
    assert torch.equal(out, truth) and out.shape[1] == 7 + 4


@pytest.mark.parametrize(
    "read",
    [
        {},
        {"repetition_penalty": 0.2},  # stock leaves padding out on the left only
        {"no_repeat_ngram_size": 2, "encoder_repetition_penalty": 1.3},
        {"logits_processor": [OddRows()], "stopping_criteria": [EndsInFives()], "eos_token_id": 63},
    ],
)
@pytest.mark.parametrize("rows", [slice(0, 4), slice(0, 1)])
def test_padding_on_the_right_stays_where_it_is(rows, read):
    """And the text is the one of padding on the left."""
    model, right, mask = model_of("llama", torch.float32), PADDED.clone(), LEFT.flip(1)[rows]
    for row, marks in enumerate(LEFT):
        right[row] = PADDED[row].roll(int(marks.sum()))
    right, options = right[rows], {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0, **read}
    truth = model.generate(PADDED[rows], attention_mask=LEFT[rows], **options)
    out = model.generate(right, attention_mask=mask, custom_generate=spectra.generate, **options)
    assert torch.equal(out[:, :7], right)
    assert torch.equal(out[:, 7:], truth[:, 7:])


@pytest.mark.parametrize("ignored", [7, [7, 7, 7, 7], [3, 0, 6, 1], [9, 4, 12, 5]])
def test_a_penalty_of_ones_own_ignores_the_same_tokens_on_either_side(ignored):
    """It counts in the rows as they are given: after a prompt of seven as many as the padding were ignored too."""
    model, right = model_of("llama", torch.float32), PADDED.clone()
    for row, marks in enumerate(LEFT):
        right[row] = PADDED[row].roll(int(marks.sum()))
    before = (LEFT == 0).sum(1)  # a count that ends in a prompt on the right ends as far from its start on the left
    counts = torch.tensor(ignored) if isinstance(ignored, list) else torch.tensor([ignored] * 4)
    counts = torch.where(counts < 7 - before, counts + before, counts.clamp(min=7))

    def said(ids, mask, count, **options):
        own = [RepetitionPenaltyLogitsProcessor(3.0, prompt_ignore_length=count)]
        options = {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0, "logits_processor": own, **options}
        return model.generate(ids, attention_mask=mask, **options)[:, 7:]

    given = torch.tensor(ignored) if isinstance(ignored, list) else ignored
    out = said(right, LEFT.flip(1), given, custom_generate=spectra.generate)
    assert torch.equal(out, said(PADDED, LEFT, counts))


def test_several_samples_of_a_prompt_have_seeds_of_their_own():
    model = model_of("llama")
    options = {"do_sample": True, "temperature": 0.9, "top_k": 20}
    several = ours(model, seed=3, num_return_sequences=4, **options)
    assert several.shape[0] == 4
    for number, row in enumerate(several):
        assert torch.equal(ours(model, seed=3 + number, **options)[0], row)
    assert len({tuple(row.tolist()) for row in several}) > 1


def test_several_samples_of_several_prompts_are_penalised_for_their_own_prompt():
    model = model_of("llama")
    options = {"do_sample": True, "temperature": 0.9, "max_new_tokens": 12, "encoder_repetition_penalty": 3.0}

    def sampled(first, end, **more):
        rows = {"attention_mask": LEFT[first:end], "custom_generate": spectra.generate, **options, **more}
        return model.generate(PADDED[first:end], **rows)[:, 7:]

    several = sampled(0, 4, num_return_sequences=2, seed=3)
    for number, row in enumerate(several):
        assert torch.equal(sampled(number // 2, number // 2 + 1, seed=3 + number)[0], row)


@pytest.mark.parametrize(
    ("problem", "changed"),
    [
        ("attention_mask: row 3 is padding only", {"attention_mask": torch.cat([LEFT[:3], 0 * LEFT[:1]])}),
        (
            "attention_mask: row 3 has holes",
            {"attention_mask": torch.cat([LEFT[:3], LEFT.new_tensor([[1, 0] * 3 + [1]])])},
        ),
        ("prompt: of row 2: it holds token ids outside", {"inputs": PADDED.where(PADDED != 11, 64)}),
        ("cache_bytes: row 0 needs", {"custom_generate": partial(spectra.generate, cache_bytes=5)}),
    ],
)
@pytest.mark.parametrize("samples", [1, 3])
def test_an_error_names_the_row_that_was_given(problem, changed, samples):
    """Not the one of so many samples of each."""
    given = {"inputs": PADDED, "attention_mask": LEFT, "do_sample": True, "custom_generate": spectra.generate}
    with pytest.raises(SpectraError, match=problem):
        model_of("llama").generate(**given | changed, num_return_sequences=samples, max_new_tokens=9)


def test_each_sequence_of_a_batch_has_a_grammar_of_its_own():
    model, prompts = model_of("llama"), torch.tensor([[5, 6, 7, 5], [9, 8, 9, 8]])
    options = {"max_new_tokens": 16, "do_sample": False, "custom_generate": spectra.generate, "pad_token_id": 0}
    both = model.generate(
        prompts, attention_mask=torch.ones_like(prompts), logits_processor=LogitsProcessorList([Grammar()]), **options
    )
    for prompt, row in zip(prompts, both, strict=True):
        ids = prompt[None]
        alone = model.generate(
            ids, attention_mask=torch.ones_like(ids), logits_processor=LogitsProcessorList([Grammar()]), **options
        )[0]
        assert torch.equal(row[: len(alone)], alone)
        assert not row[len(alone) :].any()
