"""Several sequences at once: each text is the one it has alone, whoever comes and goes beside it."""

import sys
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from weakref import WeakSet

import pytest
import torch
from batches import DRAFTS, WAYS, alone, dice_of, random_prompts, random_request, target_by
from drafting import random_tree
from tiny import VOCABULARY
from uncollected import uncollected

from spectra import (
    AdaptiveBudget,
    Limits,
    Method,
    Request,
    Sampling,
    SpectraError,
    TargetBusyError,
    decode,
    decode_many,
    make_method,
)
from spectra.batch.decode_many import decode_queue
from spectra.batch.learned import DraftingWorth, PassTime, Trust
from spectra.batch.queue import RequestQueue
from spectra.budget.step_cost import StepCost
from spectra.drafters.copies import Copies
from spectra.method import Asked
from spectra.methods.resources import Resources
from spectra.target.cache import SlabCache
from spectra.target.prefix import Prefix
from spectra.tree import TokenTree

FAMILIES = ("llama", "gpt2", "gemma3")
CASES = [(way, family) for way in WAYS for family in FAMILIES]


@pytest.fixture(scope="module")
def known():
    return {}


def together(target, requests, **options):
    texts = {number: [] for number in range(len(requests))}
    for number, step in decode_many(target, requests, **options):
        texts[number] += step.tokens
    return list(texts.values())


def check_case(number, target):
    dice = dice_of(number)
    prompts = random_prompts(dice)
    made = [random_request(dice, target, prompts) for _ in range(dice.choice((2, 3, 5, 9)))]
    options = {"at_once": dice.choice((2, 3, 4, 16))}
    if dice.random() < 0.3:
        with closing(target.group()) as group:
            options["cache_bytes"] = group.cache_bytes(180, 30, 400) * dice.choice((1, 2, 3))
    got = together(target, [fresh() for fresh, _ in made], **options)
    for text, (fresh, label) in zip(got, made, strict=True):
        assert text == alone(target, fresh()), f"case {number}: {label} {options}"


@pytest.mark.parametrize(("way", "family"), CASES)
def test_random_batches(way, family, cases, known):
    target = target_by(way, family, known)
    assert target.joins == (way != "torch fast")
    for number in range(cases(1, 84)):
        check_case(f"{way} {family} {number}", target)


@pytest.mark.parametrize(("way", "family"), [case for case in CASES if case[0] != "torch fast"])
def test_rows_have_the_bits_that_they_have_alone(way, family, known):
    target, dice = target_by(way, family, known), dice_of(family)
    prompts = [[dice.randrange(VOCABULARY) for _ in range(length)] for length in (3, 63, 64, 130)]
    with closing(target.group()) as group, torch.inference_mode():
        sessions = [group.start(prompt, 9, 40, Sampling()) for prompt in prompts]
        parts = [one.part(random_tree(dice, size)) for one, size in zip(sessions, (1, 9, 30, 2), strict=True)]
        alone = [target.forward(part.cache, part.tokens, part.chains, part.rows) for part in parts]
        for some in (parts, parts[1:3], parts[::-1]):
            for part, scores in zip(some, target.forward_together(some), strict=True):
                assert torch.equal(scores.logits, alone[parts.index(part)])


def requests_of(target, prompts, preset="autoregressive", most=6):
    return [Request(prompt, make_method(preset, target), limits=Limits(most)) for prompt in prompts]


def test_they_come_and_go_in_order(known):
    target = target_by("torch fast", "llama", known)
    taken = []

    def endless():
        for number in range(10):
            taken.append(number)
            yield requests_of(target, [[number, 5]], most=2 + number % 3)[0]

    steps, most = decode_many(target, endless(), at_once=3), 0
    running = set()
    for number, step in steps:
        running.add(number)
        most = max(most, len(running))
        assert max(taken) <= number + 5
        if step.finish:
            running.discard(number)
    assert (most, taken) == (3, list(range(10)))


def test_a_request_is_made_when_there_is_a_place_for_it(known):
    """So one may ask about the answers before it."""
    target, texts = target_by("torch fast", "llama", known), {}

    def each_from_the_last():
        yield requests_of(target, [[1, 5]])[0]
        for number in range(2):
            yield requests_of(target, [[*texts[number], 5]])[0]

    for number, step in decode_many(target, each_from_the_last(), at_once=1):
        texts.setdefault(number, []).extend(step.tokens)
    assert texts[2] == alone(target, requests_of(target, [[*texts[1], 5]])[0])


def test_the_queue_knows_when_nobody_waits(known):
    """Then all are done when the last one is, and tokens are worth most to that one."""
    target = target_by("torch fast", "llama", known)
    requests = requests_of(target, [[number, 5] for number in range(3)])
    with closing(target.group()) as group:
        each = group.cache_bytes(2, 6, 1)
        for given, limits, known_at_once in (
            (requests, {"at_once": 3}, True),
            (requests, {"at_once": 2}, False),
            (iter(requests), {"at_once": 3}, False),  # there may be a fourth
            (iter(requests), {"at_once": 4}, True),
            (requests, {"at_once": 3, "cache_bytes": 2 * each}, False),
            (iter(requests), {"at_once": 4, "cache_bytes": 2 * each}, False),
        ):
            queue = RequestQueue(target, group, given, **{"cache_bytes": None} | limits)
            running = queue.running()
            assert queue.no_more() == known_at_once
            while running:
                for one in running.values():
                    one.finish = "stopped"
                running = queue.running()
            assert queue.no_more()


def test_at_the_end_a_token_is_weighed_wherever_it_counts(known, monkeypatch):
    """Accepted guesses saved several times what they did, and sequences with trees of a fixed size had the weight 1."""
    target, decoder = target_by("native bf16", "llama", known), sys.modules[decode_many.__module__]
    promised, plains, others, learn, share = [], [], [], DraftingWorth.learn, decoder.share

    def learned(worth, drafting, forward, plain, mean):
        promised.append(mean)
        plains.append(plain)
        learn(worth, drafting, forward, plain, mean)

    def shared(rankings, *rest, **options):
        others.append((options["others"], [one.worth for one in rankings]))
        return share(rankings, *rest, **options)

    monkeypatch.setattr(DraftingWorth, "asks", lambda _: True)
    monkeypatch.setattr(DraftingWorth, "learn", learned)
    monkeypatch.setattr(decoder, "share", shared)
    monkeypatch.setattr(PassTime, "beyond", lambda *_: 0.0)
    most = (6, 6, 30, 90)
    presets = ("spectra-core", "spectra-core", "spectra-paper-core", "spectra-core")
    requests = [requests_of(target, [[5, 6, 7] * 9], *each)[0] for each in zip(presets, most, strict=True)]
    longest, rows, fixed = Counter(), Counter(), Counter()
    for number, step in decode_many(target, requests):
        longest[step.index] = max(longest[step.index], len(step.tree) - 1)
        rows[step.index] += len(step.tree)
        fixed[step.index] += len(step.tree) if number == 2 else 1
    assert max(promised) > 0 and all(mean <= longest[at] for at, mean in enumerate(promised))
    cost = target.cost.seconds
    assert plains == pytest.approx([cost(fixed[at]) / cost(rows[at]) for at in range(len(plains))])
    mean = sum(most) / 4
    assert others[0] == (pytest.approx((30 / mean) ** 2), pytest.approx([(each / mean) ** 2 for each in (6, 6, 90)]))


def test_who_does_not_fit_in_memory_waits(known):
    target = target_by("torch fast", "llama", known)
    with closing(target.group()) as group:
        each = group.cache_bytes(2, 6, 1)
        session = group.start([1, 5], 6, 1, Sampling())
        session.score(random_tree(dice_of(1), 1), [1, 5])
        assert sum(slab.nbytes for slab in session.cache.slabs) == each
    order = [
        number
        for number, _ in decode_many(target, requests_of(target, [[n, 5] for n in range(4)]), cache_bytes=2 * each)
    ]
    assert order == [0, 1] * 6 + [2, 3] * 6
    with pytest.raises(SpectraError, match=r"cache_bytes: request 1 needs"):
        list(decode_many(target, requests_of(target, [[1], [1, 2, 3, 4]]), cache_bytes=each))


@pytest.mark.parametrize("way", ["native bf16", "torch exact", "torch fast"])
def test_the_memory_of_those_who_ended_is_free_when_the_next_begin(way, known, monkeypatch):
    """All of them end in the same step. Nothing waits for the garbage collector."""
    target, caches, slots_for = target_by(way, "llama", known), WeakSet(), SlabCache.slots_for
    with closing(target.group()) as group:
        each = group.cache_bytes(30, 6, 1)
    held = []

    def watched(cache, kind, states):
        found = slots_for(cache, kind, states)
        caches.add(cache)
        held.append(sum(slab.nbytes for one in caches for slab in one.slabs))
        return found

    monkeypatch.setattr(SlabCache, "slots_for", watched)
    requests = requests_of(target, [[first] * 30 for first in range(12)])
    with uncollected():
        assert list(map(len, together(target, requests, cache_bytes=4 * each))) == [6] * 12
        assert not caches
    assert max(held) == 4 * each


def test_a_group_lets_go_of_the_prefixes_of_those_who_ended(known):
    """Conversations one after the other, without a pause between them, kept all their caches."""
    target, caches = target_by("native bf16", "llama", known), WeakSet()
    with uncollected(), closing(target.group()) as group:
        for _ in range(4):
            session = group.start([5] * 20, 6, 1, Sampling(), prefix=Prefix())
            caches.add(session.cache)
            session.close()
            del session
            assert not caches


@pytest.mark.parametrize("preset", ["spectra-draft", "specinfer"])
def test_the_caches_of_a_draft_model_go_with_their_sequences(preset, known):
    """They stayed as long as the requests did."""
    target, draft, caches = target_by("native bf16", "llama", known), DRAFTS()[0], WeakSet()
    new_cache = draft.model.new_cache

    def watched(capacity):
        cache = new_cache(capacity)
        caches.add(cache)
        return cache

    draft.model.new_cache = watched
    methods = [make_method(preset, target, Resources(drafts=[draft])) for _ in range(6)]
    requests = [Request([5, 6, 7], method, limits=Limits(6)) for method in methods]
    with uncollected():
        assert all(len(caches) <= 2 for _ in decode_many(target, requests, at_once=2))
        assert not caches


@pytest.mark.parametrize(
    ("way", "family"), [("native bf16", "llama"), ("native bf16", "gpt2"), ("torch exact", "llama")]
)
def test_what_prompts_share_is_computed_once(way, family, known, monkeypatch):
    target, dice = target_by(way, family, known), dice_of(3)
    first = [dice.randrange(VOCABULARY) for _ in range(40)]
    prompts = [[*first, 1], [*first, 2], [*first, 1], [*first, 9, 1]]
    truth = [alone(target, one) for one in requests_of(target, prompts)]
    rows, forward = [], target.forward

    def counted(cache, tokens, *rest, prefill=False):
        rows.append(len(tokens) if prefill else 0)
        return forward(cache, tokens, *rest, prefill=prefill)

    monkeypatch.setattr(target, "forward", counted)
    assert together(target, requests_of(target, prompts)) == truth
    assert sum(rows) == (41 if target.rows_alone else 81)


def test_what_prompts_share_is_held_once(known):
    """In whole blocks of attention; whoever has it may leave, and its cache may go on, before those who read it."""
    target, dice = target_by("native bf16", "llama", known), dice_of(7)
    first = [dice.randrange(VOCABULARY) for _ in range(150)]
    prompts = [[*first, *last] for last in ([1], [2], [3, 4])] + [[*first[:80], 5], [*first[:130], 6], first[:60]]
    with closing(target.group()) as group:
        slot = group.cache_bytes(1, 0, 0)
        conversation = Prefix()
        held = [group.start(prompts[0], 20, 8, Sampling(), prefix=conversation)]
        assert group.held_bytes() == held[0].cache.capacity * slot
        for prompt, shared in zip(prompts[1:], (128, 128, 64, 128, 0), strict=True):
            before = group.held_bytes()
            assert group.shared_bytes(prompt) == shared * slot
            held.append(group.start(prompt, 20, 8, Sampling()))
            assert held[-1].cache.shared == shared
            assert group.held_bytes() - before == group.cache_bytes(len(prompt), 20, 8) - shared * slot
        all_bytes = group.held_bytes()
        held[0].close()
        assert group.held_bytes() == all_bytes  # others read it
        other = group.start([*first[:70], *range(20)], 20, 8, Sampling(), prefix=conversation)  # writes from 70 on
        assert conversation.reused == 70
        texts = [[] for _ in prompts]
        for _ in range(6):
            for one, text, prompt in zip(held[1:], texts[1:], prompts[1:], strict=True):
                tree = TokenTree((text or prompt)[-1])
                text.append(group.score([Asked(one, tree, [*prompt, *text])])[0].pick(0))
                one.keep([])
        for one in [*held, other]:
            one.close()
        assert group.held_bytes() == 0
    for text, request in zip(texts[1:], requests_of(target, prompts)[1:], strict=True):
        assert text == alone(target, request)


def test_those_who_share_a_beginning_fit_into_less_memory(known):
    target = target_by("native bf16", "llama", known)
    prompts = [[*([7] * 128), number, 5] for number in range(4)]
    truth = [alone(target, one) for one in requests_of(target, prompts)]
    with closing(target.group()) as group:
        limit = group.cache_bytes(130, 6, 1) + 3 * group.cache_bytes(2, 6, 1)
    for less, most in ((0, 4), (1, 3)):
        texts, running, at_once = {number: [] for number in range(4)}, set(), 0
        for number, step in decode_many(target, requests_of(target, prompts), cache_bytes=limit - less):
            running.add(number)
            at_once = max(at_once, len(running))
            running -= {number} if step.finish else set()
            texts[number] += step.tokens
        assert (list(texts.values()), at_once) == (truth, most)


def test_who_is_alone_gets_the_trees_of_decode(known):
    target = target_by("native fp32", "llama", known)
    (request,), (same,) = (requests_of(target, [[5, 6, 7] * 9], "spectra-core", 30) for _ in range(2))
    own = list(decode(target, same.prompt, same.method, limits=same.limits))
    assert [step.tree for _, step in decode_many(target, [request])] == [step.tree for step in own]


def test_the_owner_has_the_target_to_itself(known):
    target = target_by("torch fast", "llama", known)
    steps = decode_many(target, requests_of(target, [[1], [2]]))
    next(steps)
    with pytest.raises(TargetBusyError):
        next(decode_many(target, requests_of(target, [[1]])))
    steps.close()
    assert len(together(target, requests_of(target, [[1], [2]]))) == 2
    assert list(decode_many(target, [])) == []


def test_bad_input_is_named_before_anything_is_decoded(known):
    target = target_by("torch fast", "llama", known)
    method = make_method("spectra-core", target)
    for field, text, requests, options in (
        ("prompt", "of request 1: it holds no token", requests_of(target, [[1], []]), {}),
        ("prompt", "of request 0: it holds token ids outside", requests_of(target, [[64]]), {}),
        ("method", "requests 0 and 1 share a SpectraCore", [Request([1], method), Request([2], method)], {}),
        ("method", "of request 0: a str is none; give `make_method", [Request([1], "spectra")], {}),
        ("sampling", "of request 0: a float is none; give `Sampling", [Request([1], method, 0.8)], {}),
        ("limits", "of request 0: a int is none; give `Limits", [Request([1], method, limits=24)], {}),
        ("requests", "a Request is no list of them", requests_of(target, [[1]])[0], {}),
        ("requests", "a NoneType is no list of them", None, {}),
        ("requests", "number 0 is a list; give", [[1, 2, 3]], {}),
        ("requests", "number 0 is a str; give", "a text", {}),
        ("requests", "number 1 is a dict; give", [*requests_of(target, [[1]]), {"prompt": [1]}], {}),
        ("options", "of request 0: a list is none; give a dict", [Request([1], method, options=[1])], {}),
        ("options", "of request 0: 'top_k' is none; give", [Request([1], method, options={"top_k": 3})], {}),
        ("options", "of request 0: 'use_cache' is", [Request([1], method, options={"use_cache": True})], {}),
        ("prefix", "of request 0: a int is none; give `Prefix", [Request([1], method, options={"prefix": 5})], {}),
        ("processors", "of request 0: it is no list", [Request([1], method, options={"processors": print})], {}),
        ("processors", "of request 0: it is no list", [Request([1], method, options={"processors": [5]})], {}),
        ("at_once", "out of range", [], {"at_once": 0}),
        ("cache_bytes", "out of range", [], {"cache_bytes": 0}),
    ):
        with pytest.raises(SpectraError, match=text) as error:
            next(decode_many(target, requests, **options))
        assert error.value.field == field
    with pytest.raises(SpectraError, match="method: a str is none; give"):
        next(decode(target, [1], "spectra"))
    for name, odd in (("prefix", []), ("processors", 5)):
        with pytest.raises(SpectraError, match=f"^{name}: "):
            next(decode(target, [1], method, **{name: odd}))
    with pytest.raises(SpectraError, match="requests: number 1 is a list"):
        list(decode_many(target, iter([*requests_of(target, [[1]]), [2]])))
    assert together(target, requests_of(target, [[1]]))


class MadeWhenAsked(Sequence):
    """Holds no request: each look makes a new one, and drafters of the last look are gone."""

    def __init__(self, target):
        self.target = target

    def __len__(self):
        return 20

    def __getitem__(self, number):
        if number >= len(self):
            raise IndexError
        return requests_of(self.target, [[number, 5]], "spectra-core", most=2)[0]


def test_requests_are_those_that_were_checked(known):
    """Drafters made where others had been were taken for shared; a deque that grew ended in a RuntimeError."""
    target = target_by("torch fast", "llama", known)
    assert {number for number, _ in decode_many(target, MadeWhenAsked(target))} == set(range(20))
    for at_once in (1, 4):
        requests, seen = deque(requests_of(target, [[1], [2]])), set()
        for number, _ in decode_many(target, requests, at_once=at_once):
            seen.add(number)
            requests.append("no request")
        assert seen == {0, 1}


def test_a_method_asks_less_where_many_share_a_step(known):
    target = target_by("torch fast", "llama", known)
    kinds = {
        together: [type(one).__name__ for one in make_method("spectra-core", target, together=together).drafters]
        for together in (1, 8, 16)
    }
    assert kinds[1] == kinds[8] == ["SpectraCore", "Recycling"]
    assert kinds[16] == ["Copies"]  # a row must promise T(32) / T(16) - 1 = 0.29
    with pytest.raises(SpectraError, match="together"):
        make_method("spectra-core", target, together=0)


class Told(AdaptiveBudget):
    """Notes what it was told at each step."""

    def __init__(self, cost, nodes):
        super().__init__(cost, nodes)
        self.said = []

    def observe(self, grown, emitted):
        self.said.append(self.least)
        super().observe(grown, emitted)


def test_drafters_know_how_likely_a_guess_must_be(known):
    """While they share a pass, and where all of them adapt: alone a sequence weighs its own rows."""
    target = target_by("native bf16", "llama", known)
    cost = StepCost(((1, 1.0), (64, 40.0)))
    for fixed in (False, True):
        told = [Told(cost, 8) for _ in range(3)]
        methods = [Method("copies", [Copies(judge=budget)], budget, 8) for budget in told]
        lengths = zip(methods, (6, 6, 18), strict=True)
        requests = [Request([5, 6], method, limits=Limits(most)) for method, most in lengths]
        if fixed:
            requests += requests_of(target, [[3, 4]], "prompt-lookup", most=18)
        list(decode_many(target, requests))
        first, second, third = [budget.said for budget in told]
        assert (max(first + third) > 0) == (not fixed)
        assert fixed or first[0] == pytest.approx(second[0])
        assert fixed or third[0] < first[0]  # it will be the last, and a token of it is worth more
        assert third[-1] == 0
        assert all(budget.least == 0 for budget in told)  # who leaves may go on alone


def test_chances_that_are_not_trusted_yet_are_judged(known, monkeypatch):
    """In the beginning a batch doubts. Where a row cost nearly what a token does it doubted forever."""
    target, judged = target_by("native bf16", "llama", known), []
    monkeypatch.setattr(Trust, "learn", lambda _, grown, emitted: judged.extend(grown.probability[1:]))
    budgets = [AdaptiveBudget(StepCost(((1, 1.9), (64, 1.9 + 63 * 0.9))), 8) for _ in range(4)]
    methods = [Method("copies", [Copies(judge=budget)], budget, 8) for budget in budgets]
    list(decode_many(target, [Request([5, 6, 7] * 9, method, limits=Limits(6)) for method in methods]))
    assert max(judged) > 0.9


@pytest.mark.parametrize("most", [(1, 1, 1, 1), (1, 16, 16, 16)])
def test_a_dear_row_does_not_hide_the_cheap_ones_behind_it(most, known):
    """A batch whose first sequence may have few nodes took the next row's price for that of all rows."""
    target = target_by("torch exact", "llama", known)
    budgets = [AdaptiveBudget(StepCost(((1, 1.0), (4, 1.0), (5, 1.5), (64, 1.6))), nodes) for nodes in most]
    methods = [Method("copies", [Copies(judge=budget)], budget, budget.max_nodes) for budget in budgets]
    requests = [Request([5, 6, 7] * 20, method, limits=Limits(60)) for method in methods]
    assert sum(len(step.tree) > 1 for _, step in decode_many(target, requests)) > 0


class Forgiving(RequestQueue):
    """Who fails leaves."""

    def failed(self, number, error):
        self._running.pop(number).session.close()


def test_a_sequence_that_fails_while_it_drafts_is_not_counted(known, monkeypatch):
    """What the pass takes beyond its rows was that of a pass with it, and the sum with T could be 0."""

    def breaks(tree, tokens):
        if len(tokens) > 4:
            raise RuntimeError

    monkeypatch.setattr(PassTime, "beyond", lambda _, sequences, plain: -0.5 * plain)
    target, cost = target_by("native bf16", "llama", known), StepCost(((1, 0.5), (2, 1.0), (64, 32.0)))
    copies = [Copies(), Copies()]
    monkeypatch.setattr(copies[1], "grow", breaks, raising=False)
    methods = [Method("copies", [one], AdaptiveBudget(cost, 8), 8) for one in copies]
    requests = [Request([5, 6, 7], method, limits=Limits(12)) for method in methods]
    with closing(target.group()) as group:
        queue = Forgiving(target, group, requests, at_once=2, cache_bytes=None)
        written = Counter()
        for number, step in decode_queue(target, group, queue):
            written[number] += len(step.tokens)
    assert written == {0: 12, 1: 2}


def test_what_a_pass_takes_beyond_its_rows_is_seen_however_busy_the_machine_is():
    for busy in (1.0, 2.5):
        passes = PassTime()
        assert passes.beyond(4, 0.018) == 0
        for number in range(200):
            rows = 4 + number % 7
            passes.learn(0.010 + 0.002 * rows, busy * (0.010 + 0.002 * rows + 0.012), 4)
        assert passes.beyond(4, 0.018) == pytest.approx(0.012, rel=0.2)
        assert passes.beyond(8, 0.026) == pytest.approx(2 * passes.beyond(4, 0.018))
    fast = PassTime()
    fast.learn(0.02, 0.01, 2)  # one pass says nothing of what rows take: a tenth is not theirs
    assert fast.beyond(2, 0.02) == pytest.approx(0.02 / 9)


def test_rows_that_others_on_the_machine_made_dearer_are_seen_to_be():
    """Who shares the cores slows the arithmetic of a row more than the reading of weights: nodes were taken that cost
    twice what T says."""
    passes = PassTime()
    for number in range(200):
        rows = 8 + 4 * (number % 2)
        passes.learn(0.0125 + 0.0007 * rows, 0.0107 + 0.00185 * rows, 8)
    plain, wider = 0.0181, 0.0209
    beyond = passes.beyond(8, plain)
    assert (wider + beyond) / (plain + beyond) == pytest.approx(0.0329 / 0.0255, rel=0.05)
    assert passes.beyond(2, 0.001) == -0.0005  # whatever was seen, a pass without guesses takes some time


def test_a_pass_that_was_kept_waiting_and_slow_seconds_say_nothing_of_rows():
    """After one pass of 259 ms no guess was scored for hundreds; a machine that was slow for a while, and had wide
    passes then or none, made rows seem dear or free."""
    waited, slowed = PassTime(), PassTime()
    for number in range(200):
        rows = 16 + 4 * (number % 3)
        seconds = 0.006 + 0.00075 * rows
        waited.learn(0.0047 + 0.00075 * rows, 0.259 if number == 182 else seconds, 16)
        slow = number // 50 % 2
        rows += 8 * slow
        slowed.learn(0.0047 + 0.00075 * rows, (0.006 + 0.00075 * rows) * (1.5 if slow else 1), 16)
    assert waited.beyond(16, 0.0167) == pytest.approx(0.0013, abs=0.0015)
    assert slowed.beyond(16, 0.0167) == pytest.approx(0.0013, abs=0.001)


def test_wide_passes_that_were_quicker_by_chance_are_no_reason_to_think_all_of_them_free():
    """The line through such passes falls, which says nothing of a machine."""
    passes = PassTime()
    for t, seconds in ((0.01, 0.02), (0.03, 0.005)) * 100:
        passes.learn(t, seconds, 1)
    assert 0 < passes.beyond(1, 0.01) < 0.02


def test_chances_are_trusted_by_what_they_promised():
    trust, tree = Trust(), TokenTree(9)
    node = tree.add(0, 1, "mine")
    begins = trust.share
    for chance in (None, 0.4):  # nobody said what it is worth, or that it is likely
        tree.probability[node] = chance
        trust.learn(tree, [2])
        assert trust.share == begins < 1
    tree.probability[node] = 0.5
    for _ in range(1000):
        trust.learn(tree, [1])
    assert trust.share == 1
    for _ in range(1000):
        trust.learn(tree, [2])
    assert trust.share < 0.01


def test_doubt_does_not_last_for_want_of_guesses_that_are_scored():
    """It was learned from scored guesses only: where a few passes went wrong none was scored any more, for good."""
    trust, tree = Trust(), TokenTree(9)
    for parent, chance in ((0, 0.8), (1, 0.6)):
        tree.probability[tree.add(parent, 1, "mine")] = chance
    for _ in range(50):
        trust.learn(tree, [2])
    assert trust.share < 0.2
    for _ in range(200):
        trust.learn(tree, [1])  # the first was right, scored or not; the second is not judged
    assert trust.share > 0.95


def test_drafters_rest_where_they_do_not_pay():
    worth, asked = DraftingWorth(), []
    for step in range(160):
        asked.append(worth.asks())
        # 1 ms of drafting, 2 ms for rows; from step 60 on a token a sequence is accepted, which saves 8 ms
        if asked[-1]:
            worth.learn(0.001, 0.010, 0.8, 1.0 if step >= 60 else 0.0)
    assert asked[:24] == [True] * 24
    assert [step for step in range(24, 88) if asked[step]] == [31, 47, 79, 87]
    assert all(asked[88:])


def test_drafters_go_on_where_it_is_a_tie():
    """What a few steps say is mostly chance: where drafting saved as much as it took it rested seven steps of ten."""
    worth, asked = DraftingWorth(), []
    for step in range(400):
        asked.append(worth.asks())
        # 1 ms of drafting, 2 ms for rows; every third step a token a sequence is accepted, which saves 8 ms
        if asked[-1]:
            worth.learn(0.001, 0.010, 0.8, float(step % 3 == 0))
    assert all(asked)


def test_those_who_draft_nothing_teach_nothing_about_drafting(known):
    """Who joined after steps of plain decoding alone was asked for no guess for up to 32 steps."""
    target = target_by("torch exact", "llama", known)
    prompt, offered = [5, 6, 7] * 9, []
    plain = [requests_of(target, [prompt], most=most)[0] for most in (60, 40)]
    for number, step in decode_many(target, [*plain, *requests_of(target, [prompt], "spectra-core")], at_once=2):
        offered += [step.offered] if number == 2 else []
    assert offered[0]


def test_where_drafting_does_not_pay_for_three_it_may_for_two(known, monkeypatch):
    """A row more is cheaper beside few: the last of a batch went on without guesses for up to 32 steps."""
    target, first = target_by("torch exact", "llama", known), []

    def asks(worth):
        first.append(worth)
        return worth is not first[0]

    monkeypatch.setattr(DraftingWorth, "asks", asks)
    prompts, offered = [[5, 6, 7] * 9, [5, 6, 7] * 8, [5, 6]], {2: [], 3: []}
    requests = [
        requests_of(target, [prompt], "spectra-core", most=most)[0]
        for prompt, most in zip(prompts, (30, 30, 4), strict=True)
    ]
    running = {0, 1, 2}
    for number, step in decode_many(target, requests):
        if len(running) in offered:
            offered[len(running)].append(step.offered)
        running -= {number} if step.finish else set()
    assert max(offered[3]) == 0 and max(offered[2][1:]) > 0


def test_texts_stay_the_same_where_drafters_rest(known, monkeypatch):
    target = target_by("torch exact", "llama", known)
    prompts = [[5, 6, 7, 5, 6, 7, 5], [9, 8], [3, 4, 3, 4, 3], [1]]
    presets = ("spectra-core", "spectra-paper-core", "spectra-no-text", "spectra-core")

    def requests():
        return [
            Request(prompt, make_method(name, target), limits=Limits(24), explain=True)
            for prompt, name in zip(prompts, presets, strict=True)
        ]

    truth = [alone(target, one) for one in requests()]
    rests = count()
    monkeypatch.setattr(DraftingWorth, "asks", lambda self: next(rests) % 5 == 3)
    sizes = {number: [] for number in range(4)}
    texts = {number: [] for number in range(4)}
    for number, step in decode_many(target, requests()):
        sizes[number].append(len(step.tree))
        texts[number] += step.tokens
    assert list(texts.values()) == truth
    assert sizes[0][:3] == [1, 1, 1] and max(sizes[0]) > 1
    assert max(sizes[1][:3]) > 1  # of a fixed size
