"""Batches that try to break the promise: whatever comes together, each text is its own and the target is free after."""

from collections import deque

import pytest
import torch
from batches import WAYS, alone, dice_of, random_prompts, random_request, target_by
from broken_drafter import Broken
from tiny import VOCABULARY, model_of

import spectra
from spectra import (
    AdaptiveBudget,
    FixedBudget,
    Limits,
    Method,
    Request,
    Sampling,
    SpectraError,
    decode,
    decode_many,
    make_method,
)
from spectra.target.prefix import Prefix


@pytest.fixture(scope="module")
def known():
    return {}


def together(target, requests, **options):
    texts = [[] for _ in requests]
    for number, step in decode_many(target, requests, **options):
        texts[number] += step.tokens
    return texts


def request_of(target, prompt, *, most=12, preset="spectra-core", temperature=0.0, seed=0, **others):
    sampling = Sampling(temperature, seed=seed)
    options = {name: others.pop(name) for name in ("criteria",) if name in others}
    limits = Limits(most, others.pop("eos", frozenset()), **options)
    return Request(prompt, make_method(preset, target, sampling=sampling), sampling, limits, options=others)


def test_sixty_four_at_once_and_lengths_far_apart(known):
    target, dice = target_by("native bf16", "llama", known), dice_of("many")
    lengths = [1, 2, 300, 63, 64, 65] + [dice.randrange(1, 90) for _ in range(58)]
    prompts = [[dice.randrange(VOCABULARY) for _ in range(length)] for length in lengths]

    def requests():
        return [
            request_of(target, prompt, most=1 + number % 20, temperature=0.8 * (number % 2), seed=number)
            for number, prompt in enumerate(prompts)
        ]

    assert together(target, requests(), at_once=64) == [alone(target, one) for one in requests()]


@pytest.mark.parametrize("family", ["qwen2", "llama-g3", pytest.param("llama-mha", marks=pytest.mark.all_cases)])
@pytest.mark.parametrize("way", WAYS)
def test_other_families_with_windows_and_groups_of_heads(way, family, known):
    target = target_by(way, family, known)
    dice = dice_of(f"{way} {family}")
    prompts = random_prompts(dice)
    made = [random_request(dice, target, prompts) for _ in range(6)]
    for text, (fresh, label) in zip(together(target, [one() for one, _ in made]), made, strict=True):
        assert text == alone(target, fresh()), label


def test_one_ends_at_its_first_token_and_the_others_go_on(known):
    target = target_by("torch exact", "llama", known)
    first = alone(target, request_of(target, [5, 6, 7]))[0]

    def requests():
        return [
            request_of(target, [5, 6, 7], eos=frozenset([first])),
            request_of(target, [5, 6, 7], most=1),
            request_of(target, [9, 9, 9], criteria=lambda tokens: True),
            request_of(target, [9, 9, 9]),
        ]

    got = together(target, requests())
    assert got == [alone(target, one) for one in requests()]
    assert list(map(len, got)) == [1, 1, 1, 12]


@pytest.mark.parametrize("way", ["torch exact", "torch fast"])
def test_what_fails_in_one_sequence_ends_the_batch_and_frees_the_target(way, known):
    target = target_by(way, "llama", known)

    def fails(tokens):
        if len(tokens) > 6:
            raise RuntimeError("criteria of one")
        return False

    def processor(ids, scores):
        raise RuntimeError("processor of one")

    bad = {
        "criteria of one": lambda: request_of(target, [1, 2, 3], criteria=fails),
        "processor of one": lambda: request_of(target, [1, 2, 3], processors=[processor]),
    }
    for text, request in bad.items():
        with pytest.raises(RuntimeError, match=text) as error:
            together(target, [request_of(target, [4, 5]), request(), request_of(target, [6])])
        assert error.value.__notes__ == ["raised in request 1"]
        with target.held():
            pass
    assert together(target, [request_of(target, [4, 5])]) == [alone(target, request_of(target, [4, 5]))]


@pytest.mark.parametrize("where", ["begin", "grow", "observe"])
def test_whose_drafter_fails_is_named(where, known):
    """A StopIteration was `generator raised StopIteration`."""
    target = target_by("torch exact", "llama", known)

    def answered(error):
        method = Method("own", [Broken(where, error, at=1)], FixedBudget(4), 4)
        return together(target, [request_of(target, [4, 5]), Request([1, 2], method, limits=Limits(12))])

    with pytest.raises(LookupError) as failed:
        answered(LookupError("mine"))
    assert failed.value.__notes__ == ["raised in request 1"]
    with pytest.raises(SpectraError, match=r"^field: of request 1: wrong; mend it$"):
        answered(SpectraError("field", "wrong; mend it"))
    with pytest.raises(
        SpectraError, match=r"^method: of request 1: .*a drafter of it \(Broken\) raised StopIteration;"
    ):
        answered(StopIteration())
    with pytest.raises(KeyboardInterrupt) as stopped:
        answered(KeyboardInterrupt())
    assert not hasattr(stopped.value, "__notes__")


def test_those_who_share_a_prefix_object(known):
    """It serves one of them; the others read their own prompt."""
    target, prefix = target_by("native bf16", "llama", known), Prefix()
    prompt = [dice_of(7).randrange(VOCABULARY) for _ in range(30)]
    assert together(target, [request_of(target, prompt, prefix=prefix)])
    requests = [request_of(target, [*prompt, last], prefix=prefix, most=9 + last) for last in (1, 2, 3)]
    truth = [alone(target, request_of(target, [*prompt, last], most=9 + last)) for last in (1, 2, 3)]
    assert together(target, requests) == truth


def test_a_prefix_that_is_larger_than_its_next_turn_counts_whole(known):
    """It is used as it is, and took four times the bytes that were allowed."""
    target, prefix = target_by("torch fast", "llama", known), Prefix()
    together(target, [request_of(target, [5] * 100, most=200, prefix=prefix)])
    requests = [request_of(target, [5] * 9, prefix=prefix), request_of(target, [6])]
    with pytest.raises(SpectraError, match=f"cache_bytes: request 0 needs {prefix.size:,} bytes"):
        together(target, requests, cache_bytes=prefix.size - 1)
    order = [number for number, _ in decode_many(target, requests, cache_bytes=prefix.size)]
    assert order == sorted(order)  # the other one does not fit beside it


@pytest.mark.parametrize("way", ["native bf16", "torch exact"])
@pytest.mark.parametrize("kind", [tuple, deque, bytes, lambda prompt: list(map(bool, prompt))])
def test_a_prompt_of_another_kind_of_list_reads_as_a_list_does(kind, way, known):
    target = target_by(way, "llama", known)
    prompt = [1, 0, 1, 1] * 5
    text = alone(target, request_of(target, prompt))
    assert together(target, [request_of(target, kind(prompt)) for _ in range(2)], cache_bytes=2**30) == [text, text]
    assert alone(target, request_of(target, kind(prompt))) == text


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    ("way", "family"), [("native bf16", "llama"), ("native fp32", "llama"), ("native bf16", "gemma3")]
)
def test_the_default_dtype_of_torch_changes_nothing(way, family, kind, known):
    """The library writes fp32, whatever a tensor would be by default."""
    target = target_by(way, family, known)

    def requests():
        return [request_of(target, [5, 6, 7] * size, temperature=0.8) for size in (2, 9)]

    texts = together(target, requests())
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(kind)
        assert together(target, requests()) == texts
        assert alone(target, requests()[1]) == texts[1]
    finally:
        torch.set_default_dtype(before)


def test_an_exact_batch_under_autocast_reads_as_without(known):
    target = target_by("torch exact", "llama", known)
    texts = together(target, [request_of(target, [5, 6, 7]), request_of(target, [8, 9])])
    with torch.autocast("cpu", torch.bfloat16):
        assert together(target, [request_of(target, [5, 6, 7]), request_of(target, [8, 9])]) == texts


def narrow(target):
    class Narrow(AdaptiveBudget):
        def choose(self, tree):
            return tree.subset([node for node in range(1, len(tree)) if tree.depths[node] == 1][:1])

    return Method("narrow", make_method("spectra-core", target).drafters, Narrow(target.cost, 9), 9)


def counted(target):
    def walk(tree, scored):
        return [], [len(tree) % VOCABULARY]

    return Method("counted", make_method("spectra-core", target).drafters, AdaptiveBudget(target.cost, 9), 9, walk)


@pytest.mark.parametrize("made", [narrow, counted])
def test_trees_that_are_chosen_or_walked_by_ones_own_rules_are_those_of_decode(made, known):
    """Their nodes were ranked with those of the others: another choice, and another text where it hangs on the tree."""
    target = target_by("native bf16", "llama", known)
    prompts = [[5, 6, 7, 8] * 6, [9, 8, 9, 7] * 6]

    def steps_of(steps):
        return [(step.tokens, step.tree.tokens) for step in steps]

    truth = [steps_of(decode(target, prompt, made(target), limits=Limits(20))) for prompt in prompts]
    got = [[], [], []]
    requests = [Request(prompt, made(target), limits=Limits(20)) for prompt in prompts]
    for number, step in decode_many(target, [*requests, request_of(target, [4, 5], preset="spectra", most=20)]):
        got[number].append((step.tokens, step.tree.tokens))
    assert got[:2] == truth
    assert max(len(tree) for _, tree in truth[0]) > 1


def test_a_bad_request_that_is_seen_late_frees_the_target(known):
    target = target_by("torch exact", "llama", known)
    with pytest.raises(SpectraError, match="prompt: of request 1: it holds no token"):
        list(decode_many(target, iter([request_of(target, [1]), request_of(target, [])])))
    with target.held():
        pass


IDS = torch.tensor([[0, 0, 5, 6], [7, 8, 9, 9]])
MASK = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])


def generated(**options):
    given = {"attention_mask": MASK, "max_new_tokens": 9, "do_sample": False, "pad_token_id": 0, **options}
    return model_of("llama").generate(given.pop("inputs", IDS), custom_generate=spectra.generate, **given)


def test_several_samples_of_padded_rows():
    sampled = generated(do_sample=True, num_return_sequences=3, seed=5, temperature=0.9)
    assert sampled.shape == (6, 13)
    for number, row in enumerate(sampled):
        own = IDS[number // 3][MASK[number // 3].bool()][None]
        mask = torch.ones_like(own)
        one = generated(inputs=own, attention_mask=mask, do_sample=True, seed=5 + number, temperature=0.9)
        assert torch.equal(one[0, own.shape[1] :], row[4:])


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("input_ids", {"inputs": IDS[:0], "attention_mask": MASK[:0]}),
        ("attention_mask", {"attention_mask": MASK * torch.tensor([[1], [0]])}),
        ("attention_mask", {"attention_mask": MASK[:, :3]}),
        ("attention_mask", {"attention_mask": torch.ones(3, 4)}),  # torch spoke of tensor a and tensor b
        ("attention_mask", {"attention_mask": MASK * 2}),  # the positions that transformers made of it were named
        ("attention_mask", {"attention_mask": MASK * float("nan")}),
        ("at_once", {"at_once": 2.5}),
        ("cache_bytes", {"cache_bytes": -1}),
        ("prompt", {"inputs": IDS + 60}),
        ("prompt", {"max_new_tokens": 600}),
    ],
)
def test_bad_input_of_generate_is_named(field, options):
    with pytest.raises(SpectraError) as error:
        generated(**options)
    assert error.value.field == field
    assert "\n" not in str(error.value)


def test_mixed_stopping_criteria_end_each_row_at_its_own_place():
    def ends(ids, scores, **_):
        return torch.tensor([int(row[-1]) % 4 == 0 for row in ids])

    def is_long(ids, scores, **_):
        return torch.tensor([len(row) > 10 for row in ids])

    options = {"stopping_criteria": [ends, is_long], "eos_token_id": 63}
    ours = generated(**options)
    theirs = model_of("llama").generate(
        IDS, attention_mask=MASK, max_new_tokens=9, do_sample=False, pad_token_id=0, **options
    )
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("rows", [1, 2])
def test_criteria_of_generate_that_run_out_of_values_are_named(rows):
    def runs_out(ids, scores, **_):
        raise StopIteration

    with pytest.raises(SpectraError, match="stopping_criteria: of row 0: one raised StopIteration"):
        generated(inputs=IDS[:rows], attention_mask=MASK[:rows], stopping_criteria=[runs_out])


@pytest.mark.parametrize("rows", [1, 2])
def test_a_processor_that_runs_out_of_values_is_named(rows):
    """It was a RuntimeError, `generator raised StopIteration`, that names nobody."""

    def runs_out(ids, scores):
        raise StopIteration

    with pytest.raises(SpectraError, match=r"^logits_processor: of row 0: one raised StopIteration; give one"):
        generated(inputs=IDS[:rows], attention_mask=MASK[:rows], logits_processor=[runs_out])
