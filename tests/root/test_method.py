"""A method of one's own: what is no drafter, no budget or no target is refused in a line."""

import numpy as np
import pytest
import torch
from tiny import make, target_of

import spectra
from spectra import AdaptiveBudget, FixedBudget, Guess, Limits, Method, Source, SpectraError, decode, make_method
from spectra.batch.decode_many import decode_many
from spectra.batch.request import Request
from spectra.tree import TokenTree

MINE = Source("mine")


class Drafter:
    """Guesses the same tokens at every step."""

    def __init__(self, tokens=(1, 2), **attributes):
        self.tokens = tokens
        vars(self).update(attributes)

    def begin(self, prompt):
        pass

    def grow(self, tree, tokens):
        tree.insert(Guess(self.tokens, MINE))

    def observe(self, tokens, outcome):
        pass


class WithoutObserve:
    def begin(self, prompt):
        pass

    def grow(self, tree, tokens):
        pass


@pytest.fixture(scope="module")
def model():
    return make("llama")


@pytest.fixture(scope="module")
def target(model):
    return target_of(model)


FIXED = FixedBudget(8)


@pytest.mark.parametrize(
    ("drafters", "budget", "max_nodes", "said"),
    [
        (Drafter(), FIXED, 8, "drafters: a Drafter is no list of them; give one"),
        ((one for one in [Drafter()]), FIXED, 8, "drafters: a generator is no list of them; give one"),
        ([Drafter], FIXED, 8, "drafters: Drafter is a class; give an object, `Drafter(...)`"),
        (
            [WithoutObserve()],
            FIXED,
            8,
            "drafters: a WithoutObserve has no function observe; give one that has begin, grow",
        ),
        (
            [Drafter(held={})],
            FIXED,
            8,
            "drafters: held of a Drafter would be called and is no function; name it otherwise",
        ),
        ([Drafter(end=3)], FIXED, 8, "drafters: end of a Drafter would be called"),
        ([Drafter(top_k=-1)], FIXED, 8, "top_k: -1 is out of range"),
        ([Drafter(top_k="3")], FIXED, 8, "top_k: '3' is not a whole number"),
        ([Drafter()], 8, 8, "budget: a int has no function choose; give `FixedBudget(8)`"),
        ([Drafter()], FixedBudget, 8, "budget: FixedBudget is a class"),
        ([Drafter()], FIXED, 8.0, "max_nodes: 8.0 is not a whole number; give a whole number from 0 to 1024"),
        ([Drafter()], FIXED, -1, "max_nodes: -1 is out of range"),
        ([Drafter()], FIXED, None, "max_nodes: None is not a whole number"),
    ],
)
def test_what_a_method_cannot_be_made_of(drafters, budget, max_nodes, said):
    with pytest.raises(SpectraError) as refused:
        Method("mine", drafters, budget, max_nodes)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("nodes", [None, "8", -1])
def test_a_number_of_nodes_that_is_set_later_is_checked(target, nodes):
    """It was a TypeError, and -1 an error of the prompt."""
    method = Method("mine", [Drafter()], FIXED, 8)
    method.max_nodes = nodes
    for answers in (decode(target, [3, 7], method), decode_many(target, [Request([3, 7], method)])):
        with pytest.raises(SpectraError) as refused:
            next(answers)
        assert refused.value.field == "max_nodes"


def test_a_budget_says_what_it_cannot_take(target):
    for make_budget, said in (
        (lambda: FixedBudget("8"), "max_nodes: '8' is not a whole number"),
        (lambda: FixedBudget(-1), "max_nodes: -1 is out of range"),
        (lambda: AdaptiveBudget(target.cost, 2.5), "max_nodes: 2.5 is not a whole number"),
        (lambda: AdaptiveBudget(target, 8), "cost: a HuggingFaceTarget has no function seconds; give `target.cost`"),
        (lambda: AdaptiveBudget(target.cost, 8, temperature="1"), "temperature: '1' is not a number"),
    ):
        with pytest.raises(SpectraError) as refused:
            make_budget()
        assert str(refused.value).startswith(said)


class Chosen:
    """A budget that gives what a function makes of the grown tree."""

    def __init__(self, choose):
        self.choose = choose

    def observe(self, grown, emitted):
        pass


@pytest.mark.parametrize(
    ("choose", "said"),
    [
        (lambda grown: None, "budget: a NoneType is none; give `tree.subset(nodes)`"),
        (lambda grown: [0, 1], "budget: a list is none; give `tree.subset(nodes)`"),
        (lambda grown: TokenTree(9), "budget: its tree has another root than the grown one; give `tree.subset(nodes)`"),
    ],
)
def test_what_a_budget_may_not_choose(target, choose, said):
    """A tree under another token would change the text."""

    def method():
        return Method("mine", [Drafter()], Chosen(choose), 8)

    for answers in (
        lambda: decode(target, [3, 7], method()),
        lambda: decode_many(target, [Request([3, 7], method()), Request([5, 7], method())]),
    ):
        with pytest.raises(SpectraError) as refused:
            list(answers())
        assert str(refused.value).replace("of request 0: ", "").startswith(said)


def test_what_is_no_target_no_name_and_no_resources(model, target):
    method = Method("mine", [Drafter()], FIXED, 8)
    for work, said in (
        (
            lambda: list(decode(model, [1], method)),
            "target: a LlamaForCausalLM has no function start; give `load_target",
        ),
        (lambda: list(decode_many(model, [])), "target: a LlamaForCausalLM has no function group; give `load_target"),
        (lambda: list(decode(target, [1], method, limits=0)), "limits: a int is none; give `Limits(256)`"),
        (lambda: make_method("spectra", model), "target: a LlamaForCausalLM has no function start; give `load_target"),
        (lambda: make_method(method, target), 'method: a Method is none; give `"spectra"`'),
        (
            lambda: make_method("spectra", target, ["datastores/chat"]),
            "resources: a list is none; give `load_resources",
        ),
        (lambda: make_method("spectra", target, sampling=0.8), "sampling: a float is none; give `Sampling("),
        (
            lambda: make_method("spectra", target, settings={"order": 4}),
            "settings: a dict is none; give `MethodSettings(",
        ),
        (
            lambda: spectra.generate(model, torch.tensor([[1]]), method=method),
            'method: a Method is none; give `"spectra"`',
        ),
    ):
        with pytest.raises(SpectraError) as refused:
            work()
        assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "tokens", [(1, 2), [1, 2], np.array([1, 2]), torch.tensor([1, 2])], ids=lambda one: type(one).__name__
)
def test_a_guess_may_be_a_list_or_an_array(target, tokens):
    steps = decode(target, [3, 7, 3], Method("mine", [Drafter(tokens)], FIXED, 8), limits=Limits(4))
    first, *_ = steps
    assert first.tree.tokens == (3, 1, 2)


def test_a_node_that_is_not_there_cannot_be_asked_about():
    for node in (-1, 1):
        with pytest.raises(IndexError, match="is none of this tree of 1"):
            TokenTree(0).ask(node)
