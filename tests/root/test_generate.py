"""The drop-in for `generate`: the same tokens as stock, and what it cannot do is named."""

import threading
from functools import partial

import pytest
import torch
from tiny import FAMILIES, VOCABULARY, make, model_of
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
    StopStringCriteria,
)
from transformers.generation.streamers import BaseStreamer
from words import letters

import spectra
from spectra.decode import decode
from spectra.errors import SpectraError, TargetBusyError
from spectra.methods.presets import make_method
from spectra.target import draft_model
from spectra.target.load import wrap_model

PROMPT = torch.tensor([[5, 6, 7, 5, 6, 7, 5]])
MASK = torch.ones_like(PROMPT)


def stock(model, **options):
    return model.generate(PROMPT, attention_mask=MASK, **{"max_new_tokens": 24, "do_sample": False, **options})


def ours(model, custom=spectra.generate, **options):
    return stock(model, custom_generate=custom, **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_equals_stock(family):
    model = model_of(family)
    truth = stock(model)
    assert truth.shape[1] > PROMPT.shape[1] + 5
    assert torch.equal(ours(model), truth)
    for method in ("spectra-paper-core", "autoregressive"):
        assert torch.equal(ours(model, method=method, nodes=20), truth)


def test_methods_with_a_draft_model(tmp_path, monkeypatch):
    model = make("llama").double()
    make("llama", 3).save_pretrained(tmp_path)
    truth = stock(model)
    loads = []
    monkeypatch.setattr("spectra.target.draft_model.load_like", counting(draft_model.load_like, loads))
    for method in ("draft-model", "specinfer"):
        assert torch.equal(ours(model, method=method, drafts=[tmp_path]), truth)
    assert len(loads) == 1
    options = {"do_sample": True, "top_k": 1, "temperature": 0.5}
    assert torch.equal(ours(model, method="rrsw", drafts=[tmp_path], seed=3, **options), truth)
    with pytest.raises(SpectraError, match="draft: no draft model fits"):
        ours(model, method="draft-model")


def test_it_takes_fewer_passes(monkeypatch):
    model = make("llama").double()
    passes = []
    monkeypatch.setattr(model, "forward", counting(model.forward, passes))
    ours(model, max_new_tokens=200)  # the first call measures the model
    passes.clear()
    out = ours(model, max_new_tokens=200)
    assert out.shape[1] == 207
    assert len(passes) < 190


def counting(function, calls):
    from functools import wraps

    @wraps(function)
    def counted(*args, **kwargs):
        calls.append(1)
        return function(*args, **kwargs)

    return counted


def test_sampling_repeats_with_a_seed_and_follows_torchs_without():
    model = model_of("llama")
    options = {"do_sample": True, "temperature": 0.9, "top_k": 20, "top_p": 0.9}
    first = ours(model, seed=3, **options)
    assert torch.equal(ours(model, seed=3, **options), first)
    assert torch.equal(ours(model, seed=3, method="autoregressive", **options), first)
    assert not torch.equal(ours(model, seed=4, **options), first)
    torch.manual_seed(8)
    drawn = ours(model, **options)
    torch.manual_seed(8)
    assert torch.equal(ours(model, **options), drawn)
    assert not torch.equal(ours(model, **options), drawn)


class Reader(BaseStreamer):
    def __init__(self):
        self.got, self.ended = [], 0

    def put(self, value):
        self.got += value.flatten().tolist()

    def end(self):
        self.ended += 1


def test_a_bound_streamer_gets_everything_and_its_end():
    model, reader, theirs = model_of("llama"), Reader(), Reader()
    out = ours(model, partial(spectra.generate, streamer=reader))
    stock(model, streamer=theirs)
    assert reader.got == out[0].tolist() == theirs.got
    assert (reader.ended, theirs.ended) == (1, 1)


def test_a_streamer_is_ended_when_decoding_fails():
    def fails(input_ids, scores, **_):
        raise RuntimeError("criteria")

    reader = Reader()
    with pytest.raises(RuntimeError, match="criteria"):
        ours(model_of("llama"), partial(spectra.generate, streamer=reader), stopping_criteria=[fails])
    assert reader.ended == 1


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_threads_take_turns_on_one_model(family, tmp_path, monkeypatch):
    """Before the model was ever measured, and afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPECTRA_NATIVE", "0")
    model = make(family).to(torch.bfloat16)
    before, found = model.config._attn_implementation, []
    for _ in range(2):
        threads = [threading.Thread(target=lambda: found.append(ours(model))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 6 and all(torch.equal(one, found[0]) for one in found)
    assert model.config._attn_implementation == before


def test_targets_of_one_model_decode_one_at_a_time():
    model = model_of("llama")
    first, second = (wrap_model(model, numerics="exact") for _ in range(2))
    before = model.config._attn_implementation
    steps = decode(first, [5, 6, 7], make_method("spectra-core", first))
    next(steps)
    with pytest.raises(TargetBusyError, match="this model"):
        next(decode(second, [5, 6, 7], make_method("spectra-core", second)))
    steps.close()
    assert model.config._attn_implementation == before
    next(decode(second, [5, 6, 7], make_method("spectra-core", second)))


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("num_beams", {"num_beams": 2}),
        ("penalty_alpha", {"penalty_alpha": 0.6, "top_k": 4}),
        ("dola_layers", {"dola_layers": "low"}),
        ("force_words_ids", {"force_words_ids": [[9]]}),
        ("attention_mask", {"attention_mask": torch.tensor([[1, 1, 0, 1, 1, 1, 1]])}),
        ("attention_mask", {"inputs": PROMPT.repeat(2, 1), "attention_mask": MASK * torch.tensor([[1], [0]])}),
        ("inputs_embeds", {"inputs_embeds": torch.zeros(1, 7, 48, dtype=torch.float64)}),
        ("use_cache", {"use_cache": False}),
        ("return_dict_in_generate", {"return_dict_in_generate": True}),
        ("method", {"method": "magic"}),
        ("nodes", {"nodes": 0}),
        ("numerics", {"numerics": "precise"}),
        ("seed", {"do_sample": True, "seed": -1}),
        ("at_once", {"at_once": 0}),
        ("at_once", {"at_once": "4"}),
        ("cache_bytes", {"cache_bytes": 100}),
    ],
)
def test_what_it_cannot_do_is_named(field, options):
    given = {"attention_mask": MASK, "inputs": PROMPT, "max_new_tokens": 9, **options}
    with pytest.raises(SpectraError) as error:
        model_of("llama").generate(given.pop("inputs"), custom_generate=spectra.generate, **given)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("field", "options"),
    [
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


@pytest.mark.parametrize("family", FAMILIES)
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


def test_padding_on_the_right_stays_where_it_is():
    model, right, mask = model_of("llama", torch.float32), PADDED.clone(), LEFT.flip(1)
    for row, marks in enumerate(LEFT):
        right[row] = PADDED[row].roll(int(marks.sum()))
    options = {"max_new_tokens": 24, "do_sample": False}
    truth = model.generate(PADDED, attention_mask=LEFT, **options)
    out = model.generate(right, attention_mask=mask, custom_generate=spectra.generate, **options)
    assert torch.equal(out[:, :7], right)
    assert torch.equal(out[:, 7:], truth[:, 7:])


def test_several_samples_of_a_prompt_have_seeds_of_their_own():
    model = model_of("llama")
    options = {"do_sample": True, "temperature": 0.9, "top_k": 20}
    several = ours(model, seed=3, num_return_sequences=4, **options)
    assert several.shape[0] == 4
    for number, row in enumerate(several):
        assert torch.equal(ours(model, seed=3 + number, **options)[0], row)
    assert len({tuple(row.tolist()) for row in several}) > 1


def test_a_filled_cache_is_named():
    model = model_of("llama")
    cache = model(PROMPT[:, :-1], use_cache=True).past_key_values
    with pytest.raises(SpectraError) as error:
        ours(model, past_key_values=cache)
    assert error.value.field == "past_key_values"


class OddOnly(LogitsProcessor):
    """Reads the tokens: forbids the parity of the last one."""

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        scores[:, int(input_ids[0, -1]) % 2 :: 2] = float("-inf")
        return scores


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


@pytest.mark.parametrize("family", FAMILIES)
def test_processors_and_criteria_of_ones_own(family):
    model = model_of(family)
    for options in (
        {"logits_processor": LogitsProcessorList([OddOnly()])},
        {"stopping_criteria": StoppingCriteriaList([EndsInFive()])},
        {"logits_processor": [OddOnly()], "stopping_criteria": [EndsInFive()], "repetition_penalty": 1.2},
        {"no_repeat_ngram_size": 2, "min_new_tokens": 9, "eos_token_id": [1, 2, 3, 4, 5, 6, 7, 8]},
        {"bad_words_ids": [[3], [5, 6]], "suppress_tokens": [9, 10]},
    ):
        assert torch.equal(ours(model, **options), stock(model, **options)), options


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


@pytest.mark.parametrize("family", FAMILIES)
def test_a_grammar_is_asked_about_visited_nodes_only(family):
    model, grammars = model_of(family), (Grammar(), Grammar())
    outputs = [
        which(model, logits_processor=LogitsProcessorList([grammar]))
        for which, grammar in zip((stock, ours), grammars, strict=True)
    ]
    assert torch.equal(*outputs)
    assert grammars[1].calls == grammars[0].calls == outputs[0].shape[1] - PROMPT.shape[1]


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


def test_tokens_that_may_follow_a_prefix():
    model = model_of("llama")

    def allowed(_, ids):
        return [token for token in range(VOCABULARY) if token % 5 == int(ids[-1]) * 3 % 5]

    assert torch.equal(ours(model, prefix_allowed_tokens_fn=allowed), stock(model, prefix_allowed_tokens_fn=allowed))


def test_stop_strings_through_their_criteria():
    words, model = letters(), model_of("llama")
    plain = stock(model)[0, PROMPT.shape[1] :].tolist()
    word = words.decode(plain[6:8])
    criteria = StoppingCriteriaList([StopStringCriteria(words, [word])])
    out = ours(model, stopping_criteria=criteria)[0, PROMPT.shape[1] :].tolist()
    assert out == stock(model, stopping_criteria=criteria)[0, PROMPT.shape[1] :].tolist()
    assert words.decode(out).endswith(word)
    assert len(out) < len(plain)


def test_several_end_of_sequence_ids():
    model = model_of("llama")
    plain = stock(model)[0, PROMPT.shape[1] :].tolist()
    for ids in ([plain[5]], [plain[12], plain[9]], list(range(0, VOCABULARY, 3))):
        assert torch.equal(ours(model, eos_token_id=ids), stock(model, eos_token_id=ids))


def test_max_length_and_no_room():
    model = model_of("llama")
    assert torch.equal(
        ours(model, max_length=12, max_new_tokens=None), stock(model, max_length=12, max_new_tokens=None)
    )
    with pytest.raises((SpectraError, ValueError)):
        ours(model, max_length=5, max_new_tokens=None)


def test_the_users_model_is_left_as_it_was():
    model = make("gpt2").double()
    model.train()
    ours(model)
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert "past_key_values" not in vars(model)


def test_datastores_that_fit_a_bound_tokenizer(tmp_path):
    model = model_of("llama")
    store = tmp_path / "store"
    store.mkdir()
    with pytest.raises(SpectraError, match=r"datastores: stores hold token ids; bind the tokenizer too"):
        ours(model, datastores=[store])
    bound = partial(spectra.generate, tokenizer=letters(), datastores=[store])
    with pytest.raises(SpectraError, match=r"datastore: .*store has no card\.json"):
        ours(model, bound)
    with pytest.raises(SpectraError, match="datastore"):
        ours(model, partial(spectra.generate, tokenizer=letters()), method="spectra-retrieval")  # none of ours fits
