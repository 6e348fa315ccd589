"""Answers of several threads on one target: texts as alone, each with its own end and its own error, nothing left."""

import sys
import threading
import time
import weakref
from contextlib import suppress
from copy import deepcopy
from functools import partial
from types import SimpleNamespace

import pytest
from batches import alone, dice_of, random_prompts, random_request, target_by
from broken_drafter import Broken
from tiny import VOCABULARY, target_of
from uncollected import Held, uncollected

from spectra import AdaptiveBudget, FixedBudget, Limits, Method, Sampling, SpectraError, TargetBusyError, make_method
from spectra.budget.step_cost import StepCost
from spectra.service import shared_decoding
from spectra.service.engine import together_on
from spectra.service.shared_decoding import SharedDecoding, SharedQueue
from spectra.service.worker_thread import WorkerThread
from spectra.target.cache import SlabCache
from spectra.target.group import HuggingFaceGroup
from spectra.target.huggingface import HuggingFaceTarget
from spectra.target.prefix import Prefix


@pytest.fixture(scope="module")
def known():
    return {}


@pytest.fixture
def target(known):
    return target_by("native bf16", "llama", known)


def steps_of(shared, target, prompt=(1, 2, 3), tokens=40, preset="autoregressive", **options):
    return shared.decode(list(prompt), make_method(preset, target), limits=Limits(tokens), **options)


def workers():
    return [thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)]


def all_at_once(work, things):
    """What `work` returns of each, or its error, each in a thread of its own."""
    results = {}

    def one(number, thing):
        try:
            results[number] = work(thing)
        except Exception as error:  # noqa: BLE001 - looked at by the test
            results[number] = error

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(things)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return [results[number] for number in range(len(things))]


def check_all_is_over(target):
    end = time.monotonic() + 5
    while workers() and time.monotonic() < end:
        time.sleep(0.01)
    assert not workers()
    with target.held():
        pass


@pytest.mark.parametrize("way", ["native bf16", "torch fast"])
def test_every_answer_reads_as_it_does_alone(way, known, cases):
    target = target_by(way, "llama", known)
    for case in range(cases(2, 40)):
        dice = dice_of(f"shared {way} {case}")
        prompts = random_prompts(dice)
        made = [random_request(dice, target, prompts) for _ in range(dice.choice((2, 5, 9)))]
        shared = SharedDecoding(target, at_once=dice.choice((2, 4, 16)))

        def decoded(one, shared=shared):
            request = one[0]()
            steps = shared.decode(request.prompt, request.method, sampling=request.sampling, limits=request.limits)
            return [token for step in steps for token in step.tokens]

        texts = all_at_once(decoded, made)
        for text, (fresh, label) in zip(texts, made, strict=True):
            assert text == alone(target, fresh()), f"{case}: {label}"
    check_all_is_over(target)


def test_who_decodes_alone_says_so_and_others_are_counted(target):
    shared = SharedDecoding(target)
    first = steps_of(shared, target)
    next(first)
    assert first.others == 0 and first.steps == type(first.steps)()  # nothing is done ahead
    others = [steps_of(shared, target, tokens=6) for _ in range(2)]
    assert all_at_once(lambda one: len(list(one)), others) == [6, 6]
    assert len(list(first)) == 39
    assert first.others >= 1 and all(other.others >= 1 for other in others)
    last = steps_of(shared, target)
    assert len(list(last)) == 40 and last.others == 0
    check_all_is_over(target)


def test_one_that_is_left_leaves_the_others(target):
    shared = SharedDecoding(target, at_once=2)
    kept, left, waiting = (steps_of(shared, target) for _ in range(3))
    next(kept), next(left)
    began = threading.Thread(target=lambda: list(waiting))
    began.start()
    left.close()
    left.close()
    assert next(left, None) is None
    assert len(list(kept)) == 39
    began.join(10)
    assert not began.is_alive()
    never = steps_of(shared, target)
    never.close()
    assert list(never) == []
    check_all_is_over(target)


def test_no_step_comes_after_those_that_were_let_go(target):
    """Who was left while a step was done got that step, and not the one before."""
    begun, left = threading.Event(), threading.Event()

    class Waits(Guesses):
        def grow(self, tree, tokens):
            begun.set()
            assert left.wait(10)

    steps = SharedDecoding(target).decode([1, 2, 3], Method("own", [Waits()], FixedBudget(4), 4))
    taken = threading.Thread(target=lambda: got.extend(steps))
    closed = threading.Thread(target=steps.close)
    got = []
    taken.start()
    assert begun.wait(10)
    closed.start()
    end = time.monotonic() + 10
    while not steps.left and time.monotonic() < end:
        time.sleep(0.001)
    left.set()
    for thread in (taken, closed):
        thread.join(10)
        assert not thread.is_alive()
    assert got == []
    check_all_is_over(target)


def test_an_error_is_its_owners(target):
    shared = SharedDecoding(target)
    long = [1] * 600
    answers = all_at_once(
        lambda prompt: [token for step in steps_of(shared, target, prompt) for token in step.tokens],
        [[1, 2, 3], [], [1, 2, 3], [64], long],
    )
    assert answers[0] == answers[2] and len(answers[0]) == 40
    for error, text in zip((answers[1], answers[3], answers[4]), ("no token", "outside", "do not fit"), strict=True):
        assert isinstance(error, SpectraError) and error.field == "prompt" and text in str(error)
    check_all_is_over(target)


@pytest.mark.parametrize("where", ["begin", "grow", "observe"])
def test_what_fails_in_one_answer_is_its_own_and_the_others_go_on(target, where):
    shared = SharedDecoding(target)
    truth = [token for step in steps_of(shared, target) for token in step.tokens]

    def decoded(breaks):
        method = make_method("autoregressive", target)
        method.drafters = [Broken(where)] if breaks else []
        return [token for step in shared.decode([1, 2, 3], method, limits=Limits(40)) for token in step.tokens]

    answers = all_at_once(decoded, [False, True, False, True])
    assert answers[0] == answers[2] == truth
    assert [str(error) for error in (answers[1], answers[3])] == ["broken drafter"] * 2
    check_all_is_over(target)
    assert isinstance(all_at_once(decoded, [True])[0], LookupError)  # alone
    check_all_is_over(target)


class Guesses:
    """A drafter of one guess at each step, and a budget of it."""

    max_nodes = 4

    def __init__(self, guess=5, error=None):
        self.guess, self.error, self.steps = guess, error, 0

    def begin(self, prompt):
        """Nothing to learn."""

    def observe(self, *_):
        """Nothing to learn."""

    def grow(self, tree, tokens):
        tree.add(0, self.guess, "own")

    def choose(self, tree):
        self.steps += 1
        if self.steps == 3 and self.error is not None:
            raise self.error
        return None if self.steps == 3 else tree


@pytest.mark.parametrize(
    ("guesses", "says"),
    [
        (Guesses(VOCABULARY), "drafter: own guessed token 64"),
        (Guesses(error=LookupError("broken budget")), "broken budget"),
        (Guesses(), "budget: a NoneType is none"),
        (Guesses(error=StopIteration()), "StopIteration was raised"),  # and the answer seemed to be whole
        (Guesses(error=SystemExit()), "SystemExit was raised"),
        (Guesses(error=KeyboardInterrupt()), "KeyboardInterrupt was raised"),  # of a thread that gets no Ctrl-C
    ],
)
def test_a_budget_or_a_guess_that_fails_ends_its_own_answer(target, guesses, says):
    """The others that decode beside it got the error too."""
    shared, sampling = SharedDecoding(target), Sampling(0.8)
    adaptive = AdaptiveBudget(target.cost, 4, temperature=0.8)

    def decoded(fails):
        method = make_method("spectra-core", target, sampling=sampling)
        if fails:
            method = Method("own", [guesses], adaptive if guesses.guess == VOCABULARY else guesses, 4)
        steps = shared.decode([1, 2, 3], method, sampling=sampling, limits=Limits(40))
        return [token for step in steps for token in step.tokens]

    truth = decoded(False)
    answers = all_at_once(decoded, [False, True, False])
    assert answers[0] == answers[2] == truth
    assert isinstance(answers[1], Exception) and says in str(answers[1])
    check_all_is_over(target)


def test_a_drafter_that_ends_its_thread_when_it_begins_ends_its_own_answer(target):
    shared = SharedDecoding(target)

    def decoded(breaks):
        method = make_method("autoregressive", target)
        method.drafters = [Broken("begin", SystemExit())] if breaks else []
        return [token for step in shared.decode([1, 2, 3], method, limits=Limits(40)) for token in step.tokens]

    answers = all_at_once(decoded, [False, True, False])
    assert answers[0] == answers[2] == decoded(False)
    assert "SystemExit was raised" in str(answers[1])
    check_all_is_over(target)


def test_a_drafter_that_ends_its_thread_leaves_nobody_waiting(target):
    class Ends(Guesses):
        def grow(self, tree, tokens):
            raise SystemExit

    steps = SharedDecoding(target).decode([1, 2, 3], Method("own", [Ends()], FixedBudget(4), 4))
    answer = all_at_once(list, [steps])[0]
    assert isinstance(answer, RuntimeError) and "SystemExit" in str(answer)
    check_all_is_over(target)


def asked_from_within(target, act):
    """Three answers, the second with a criterion that does this at its third step; and what that says."""
    shared, calls = SharedDecoding(target), []

    def decoded(acts):
        def asks(ids):
            if acts and len(calls) < 3:
                calls.append(ids)
                if len(calls) == 3:
                    act(shared, steps)
            return False

        limits = Limits(40, criteria=asks)
        steps = shared.decode([1, 2, 3], make_method("spectra-core", target), limits=limits)
        return [token for step in steps for token in step.tokens]

    truth = decoded(False)
    answers = all_at_once(decoded, [False, True, False])
    assert answers[0] == answers[2] == truth
    check_all_is_over(target)
    return answers[1], truth


def test_a_criterion_that_closes_its_own_answer_ends_it(target):
    """The worker waited for itself, and all others for the worker."""
    answer, truth = asked_from_within(target, lambda shared, steps: steps.close())
    assert len(answer) < len(truth) and answer == truth[: len(answer)]


@pytest.mark.parametrize("own", [True, False])
def test_a_criterion_that_asks_for_another_answer_is_refused(target, own):
    """Of another model too: a criterion there could ask back."""

    def asks(shared, steps):
        other = target if own else target_by("torch exact", "llama", {})
        next((shared if own else SharedDecoding(other)).decode([1], make_method("spectra-core", other)))

    answer, _ = asked_from_within(target, asks)
    assert isinstance(answer, TargetBusyError) and "from within a shared step" in str(answer)


@pytest.mark.parametrize(("field", "wrong"), [("prefix", 3), ("prefix", "x"), ("prompt", None), ("prompt", 5)])
def test_what_cannot_be_measured_is_named_beside_others_as_alone(target, field, wrong):
    shared, method = SharedDecoding(target), make_method("autoregressive", target)
    first = shared.decode([1, 2, 3], method, limits=Limits(40))
    next(first)
    parts = {"prompt": [1, 2], field: wrong}
    with pytest.raises(SpectraError) as caught:
        next(shared.decode(method=make_method("autoregressive", target), **parts))
    assert caught.value.field == field
    assert sum(len(step.tokens) for step in first) == 39
    check_all_is_over(target)


def test_answers_of_two_models_that_close_each_other_end(target):
    """Each worker waited for the other."""
    targets = [target, target_by("torch exact", "llama", {})]
    both, answers = threading.Barrier(2), {}

    def decoded(number):
        def closes(ids):
            if len(ids) == 6:
                both.wait(20)
                answers[1 - number].close()
            return False

        method = make_method("autoregressive", targets[number])
        limits = Limits(40, criteria=closes)
        answers[number] = SharedDecoding(targets[number]).decode([1, 2, 3], method, limits=limits)
        return [token for step in answers[number] for token in step.tokens]

    assert all(len(answer) < 40 for answer in all_at_once(decoded, range(2)))
    for one in targets:
        check_all_is_over(one)


@pytest.mark.parametrize("error", [LookupError("broken prefix"), SystemExit()], ids=repr)
def test_what_fails_when_a_cache_is_left_is_its_own(target, error):
    """The others that decoded beside it got the error too."""
    shared = SharedDecoding(target)

    def leaves():
        raise error

    def decoded(prefix):
        options = {"prefix": prefix} if prefix else {}
        steps = shared.decode([1, 2, 3], make_method("autoregressive", target), limits=Limits(40), **options)
        return [token for step in steps for token in step.tokens]

    truth = decoded(None)
    answers = all_at_once(decoded, [None, Prefix(on_leave=leaves), None])
    assert answers[0] == answers[2] == truth
    assert isinstance(answers[1], type(error) if isinstance(error, Exception) else RuntimeError)
    check_all_is_over(target)


def test_what_fails_when_a_closed_answers_cache_is_left_is_raised_there(target):
    """Closing said nothing, and a step that was asked for later raised it."""

    def leaves():
        raise LookupError("broken prefix")

    steps = steps_of(SharedDecoding(target), target, prefix=Prefix(on_leave=leaves))
    next(steps)
    with pytest.raises(LookupError, match="broken prefix"):
        steps.close()
    steps.close()
    assert list(steps) == []
    check_all_is_over(target)


def test_closing_says_nothing_of_a_step_that_nobody_takes(target):
    shared, method = SharedDecoding(target), make_method("autoregressive", target)
    beside = steps_of(shared, target)
    next(beside)
    method.drafters = [Broken("observe")]
    steps = shared.decode([1, 2, 3], method, limits=Limits(40))
    next(steps)
    while steps.error is None:
        next(beside)
    steps.close()
    assert list(steps) == []
    beside.close()
    check_all_is_over(target)


@pytest.mark.parametrize("number", [0, -1, None, "x", 1.5, True])
def test_numbers_that_would_let_nobody_in_are_refused(target, number):
    for name in ("at_once", "cache_bytes"):
        with pytest.raises(SpectraError, match=name):
            SharedDecoding(target, **{name: number})
    with pytest.raises(SpectraError, match=r"^target: a .* has no function group"):
        SharedDecoding(number)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("method", "spectra"), ("method", None), ("limits", "x"), ("limits", 0), ("sampling", 3),
     ("sampling", 0), ("options", 1)],
)  # fmt: skip
def test_parts_of_another_kind_are_named(target, field, wrong):
    parts = {"method": make_method("autoregressive", target), field: wrong}
    method = parts.pop("method")
    steps = SharedDecoding(target).decode([1, 2, 3], method, **parts)
    with pytest.raises(SpectraError) as caught:
        next(steps)
    assert caught.value.field == field
    check_all_is_over(target)


@pytest.mark.parametrize("way", ["native fp32", "torch exact"])
def test_a_model_that_gives_no_numbers_to_one_answers_the_others(way):
    target = target_by(way, "llama", {})
    target = target_of(deepcopy(target.model), target.plan) if way == "torch exact" else target
    target.model.model.embed_tokens.weight.data[63] = float("nan")
    target.model.lm_head.weight.data[63] = 0  # hardly ever written

    def decoded(shared, prompt):
        return [token for step in steps_of(shared, target, prompt, preset="spectra-core") for token in step.tokens]

    prompts = [[1, 2], [3, 63, 4], [5, 6]]
    first, last = decoded(SharedDecoding(target), prompts[0]), decoded(SharedDecoding(target), prompts[2])
    assert len(first) == len(last) == 40
    answers = all_at_once(partial(decoded, SharedDecoding(target)), prompts)
    assert answers[0] == first and answers[2] == last
    assert isinstance(answers[1], SpectraError) and "no numbers" in str(answers[1])
    check_all_is_over(target)


@pytest.mark.parametrize("kind", ["keys", "values"])
@pytest.mark.parametrize("way", ["native bf16", "torch exact", "torch fast"])
def test_who_gets_no_memory_in_a_shared_pass_ends_alone(way, kind, known, monkeypatch):
    """A prompt of one token has no prefill: its cache is allocated in the first pass."""
    target = target_by(way, "llama", known)
    slots_for = SlabCache.slots_for

    def short(cache, asked, states):
        if cache.capacity > 300 and asked == kind:
            raise SpectraError("max_new_tokens", "no memory")
        return slots_for(cache, asked, states)

    monkeypatch.setattr(SlabCache, "slots_for", short)

    def decoded(shared, prompt, tokens):
        steps = steps_of(shared, target, prompt, tokens, preset="spectra-core")
        return [token for step in steps for token in step.tokens]

    truth = decoded(SharedDecoding(target), [1, 2, 3], 40)
    shared = SharedDecoding(target)
    asked = [([1, 2, 3], 40), ([7], 400), ([1, 2, 3], 40)]
    answers = all_at_once(lambda one: decoded(shared, *one), asked)
    assert answers[0] == answers[2] == truth
    assert isinstance(answers[1], SpectraError) and "no memory" in str(answers[1])
    check_all_is_over(target)


def test_who_cannot_be_measured_for_lack_of_memory_does_not_end_the_others(known, monkeypatch):
    target = target_by("torch fast", "llama", known)
    slots_for, shared = SlabCache.slots_for, SharedDecoding(target)

    def short(cache, kind, states):
        if cache.capacity < 8:  # the one of one slot that says what a slot takes
            raise SpectraError("max_new_tokens", "no memory")
        return slots_for(cache, kind, states)

    truth = [token for step in steps_of(shared, target) for token in step.tokens]
    monkeypatch.setattr(SlabCache, "slots_for", short)
    first = steps_of(shared, target)
    begun = list(next(first).tokens)

    def decoded(steps):
        return [token for step in steps for token in step.tokens]

    rest, late = all_at_once(decoded, [first, steps_of(shared, target)])
    assert [*begun, *rest] == truth
    assert isinstance(late, SpectraError) and "no memory" in str(late)
    check_all_is_over(target)


def test_what_failed_does_not_stay_in_memory_with_its_error():
    """A cache that was half made, for example."""
    held = []

    def group():
        cache = Held()
        held.append(weakref.ref(cache))
        raise LookupError

    with uncollected():
        steps = SharedDecoding(SimpleNamespace(group=group)).decode([1], None)
        with suppress(LookupError):
            next(steps)
        for worker in workers():
            worker.join(5)
        assert held[0]() is None


def test_an_answer_that_no_thread_can_be_started_for_leaves_the_way_free(target, monkeypatch):
    """It was waited for until the program ended, and so was everything after it."""
    shared, start = SharedDecoding(target), WorkerThread.start

    def none_left(thread):
        monkeypatch.setattr(WorkerThread, "start", start)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(WorkerThread, "start", none_left)
    failed = steps_of(shared, target, tokens=6)
    with pytest.raises(RuntimeError, match="new thread"):
        next(failed)
    assert all_at_once(lambda act: act(), [failed.close, lambda: len(list(steps_of(shared, target, tokens=6)))])[1] == 6
    assert list(failed) == []
    check_all_is_over(target)


def test_a_target_that_somebody_holds_is_busy(target):
    shared = SharedDecoding(target)
    with target.held(), pytest.raises(TargetBusyError):
        next(steps_of(shared, target))
    steps = steps_of(shared, target)
    next(steps)
    with pytest.raises(TargetBusyError), target.held():
        pass
    steps.close()
    check_all_is_over(target)


def test_who_does_not_fit_in_memory_waits_and_the_first_never(target):
    shared = SharedDecoding(target, cache_bytes=1)
    first = steps_of(shared, target, tokens=8)
    next(first)
    assert all_at_once(lambda one: len(list(one)), [first, steps_of(shared, target, tokens=8)]) == [7, 8]
    assert first.others == 0
    check_all_is_over(target)


def test_who_waits_for_room_is_checked_once(target, monkeypatch):
    """It was at every step of the others, and a long prompt takes milliseconds."""
    checked, check = [], shared_decoding.check_request
    monkeypatch.setattr(
        shared_decoding, "check_request", lambda *parts: (checked.append(parts[2].prompt), check(*parts))
    )
    shared = SharedDecoding(target, cache_bytes=1)
    first = steps_of(shared, target)
    next(first)
    waits = threading.Thread(target=lambda: list(steps_of(shared, target, [4, 5])))
    waits.start()
    assert sum(1 for _ in first) == 39
    waits.join(30)
    assert checked == [[1, 2, 3], [4, 5]]
    check_all_is_over(target)


def test_so_many_decode_together_as_leave_a_pass_three_times_its_time_or_the_speed_of_a_reader():
    def most(table, joins=True):
        return together_on(SimpleNamespace(cost=StepCost(table), joins=joins))

    assert most(((1, 1.0), (32, 1.9))) == most(((1, 1.0), (64, 1.9))) == 32
    assert most(((1, 1.0), (9, 3.0), (17, 5.0))) == 9
    assert most(((1, 1.0), (2, 3.5))) == 1
    assert most(((1, 1.0), (16, 1.9)), joins=False) == 3
    assert most(((1, 0.01), (13, 0.05), (14, 0.051))) == 13
    assert most(((1, 0.01),), joins=False) == 5


LONG = dice_of("long prompt").choices(range(VOCABULARY), k=300)


@pytest.fixture
def short_runs(monkeypatch):
    monkeypatch.setattr("spectra.target.session.SHORT_RUN", 8)
    monkeypatch.setattr("spectra.target.session.PREFILL_ROWS", 8)
    monkeypatch.setattr("spectra.target.group.PREFILL_ROWS", 8)


@pytest.fixture
def runs(monkeypatch):
    """Rows of the runs of prompts that are read, as they come."""
    read, forward = [], HuggingFaceTarget.forward

    def noted(self, cache, tokens, chains, rows, *, prefill=False):
        if prefill:
            read.append(len(tokens))
        return forward(self, cache, tokens, chains, rows, prefill=prefill)

    monkeypatch.setattr(HuggingFaceTarget, "forward", noted)
    return read


@pytest.mark.parametrize("way", ["native bf16", "torch exact", "torch fast"])
@pytest.mark.usefixtures("short_runs")
def test_a_long_prompt_does_not_keep_the_others_from_their_steps(way, known, runs, monkeypatch):
    """Whoever came beside a prompt of the longest kind waited twenty seconds for the next token."""
    target = target_by(way, "llama", known)
    shared, order, passes, score = SharedDecoding(target), [], [], HuggingFaceGroup.score

    def scored(group, asked):
        passes.append(len(runs))
        return score(group, asked)

    monkeypatch.setattr(HuggingFaceGroup, "score", scored)

    def noted(steps, name):
        said = []
        for step in steps:
            order.append(name)
            said += step.tokens
        return said

    running = steps_of(shared, target, tokens=60)
    first = next(running).tokens
    reader = steps_of(shared, target, LONG, tokens=9)
    late = steps_of(shared, target, (7, 8, 9), tokens=9)
    pairs = [(running, "running"), (reader, "long"), (late, "late")]
    texts = all_at_once(lambda pair: noted(*pair), pairs)
    assert len(set(passes)) > 9  # between its runs
    texts[0] = [*first, *texts[0]]
    prompts, most = [(1, 2, 3), LONG, (7, 8, 9)], [60, 9, 9]
    truth = [list(steps_of(shared, target, *each)) for each in zip(prompts, most, strict=True)]
    assert texts == [[token for step in steps for token in step.tokens] for steps in truth]
    assert order.index("late") < order.index("long")
    assert reader.others >= 1
    check_all_is_over(target)


@pytest.mark.usefixtures("short_runs")
def test_a_long_prompt_is_read_whoever_comes_meanwhile(target):
    """Shorter ones that came without end kept it from its text."""
    shared, over, answered = SharedDecoding(target, at_once=3), threading.Event(), []

    def comes_again(number):
        dice = dice_of(f"visitor {number}")
        while not over.is_set() and len(answered) < 400:
            answered.append(list(steps_of(shared, target, dice.choices(range(VOCABULARY), k=25), tokens=2)))

    threads = [threading.Thread(target=comes_again, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    list(steps_of(shared, target, LONG, tokens=2))
    over.set()
    for thread in threads:
        thread.join(10)
    assert len(answered) < 200
    check_all_is_over(target)


@pytest.mark.parametrize(("seconds", "together"), [(60, 6), (0, 1)])
def test_prompts_that_came_at_once_are_read_before_the_next_step(target, monkeypatch, seconds, together):
    """The last of twenty waited for a step of the others after each of their prompts."""
    shared, forward, running = SharedDecoding(target), HuggingFaceTarget.forward, SharedQueue.running
    read, between = [], []

    def noted(self, cache, tokens, *others, prefill=False):
        if prefill and len(tokens) == 8:
            end = time.monotonic() + 10
            while not read and len(shared._waiting) < 5 and time.monotonic() < end:
                time.sleep(0.001)
            read.append(tokens)
        return forward(self, cache, tokens, *others, prefill=prefill)

    def told(queue):
        before = len(read)
        found = running(queue)
        between.append(len(read) - before)
        return found

    monkeypatch.setattr(HuggingFaceTarget, "forward", noted)
    monkeypatch.setattr(SharedQueue, "running", told)
    monkeypatch.setattr(sys.modules[SharedDecoding.__module__], "READING_SECONDS", seconds)
    first = steps_of(shared, target, tokens=60)
    next(first)
    prompts = [dice_of(f"at once {number}").choices(range(VOCABULARY), k=9) for number in range(6)]
    _, *texts = all_at_once(list, [first, *(steps_of(shared, target, prompt, tokens=9) for prompt in prompts)])
    assert max(between) == together
    for text, prompt in zip(texts, prompts, strict=True):
        alone = list(steps_of(shared, target, prompt, tokens=9))
        assert [step.tokens for step in text] == [step.tokens for step in alone]
    check_all_is_over(target)


@pytest.mark.usefixtures("short_runs")
def test_who_is_left_while_the_prompt_is_read_ends_between_two_runs(target, runs):
    shared = SharedDecoding(target)
    reader = steps_of(shared, target, LONG)
    began = threading.Thread(target=lambda: list(reader))
    began.start()
    while not runs:
        time.sleep(0.0001)
    reader.close()
    began.join(10)
    assert len(runs) < 38  # those of the whole prompt
    assert list(reader) == []
    check_all_is_over(target)


@pytest.mark.parametrize("way", ["native bf16", "torch exact"])
@pytest.mark.usefixtures("short_runs")
def test_who_could_share_what_is_being_read_waits_for_it(way, known, runs):
    target = target_by(way, "llama", known)
    shared = SharedDecoding(target)
    target.cost.seconds(1)  # measured on first use, by runs that are none of these
    runs.clear()
    requests = [(LONG, 9), ([*LONG, 5, 6], 9), ([9, *LONG[:30]], 9)]
    texts = all_at_once(lambda one: [step.tokens for step in steps_of(shared, target, *one)], requests)
    together = sum(runs)
    assert texts == [[step.tokens for step in steps_of(shared, target, *one)] for one in requests]
    assert together < len(LONG) + 60
    check_all_is_over(target)


@pytest.mark.parametrize("way", ["native bf16", "torch exact", "torch fast"])
@pytest.mark.usefixtures("short_runs")
def test_who_shares_the_first_runs_does_not_wait_for_the_others(way, known, runs):
    """By torch they were shared when the whole prompt was read only, and a short one waited for a long one."""
    group = target_by(way, "llama", known).group()
    short = [*LONG[:20], 5, 6]
    try:
        reader = group.start(LONG, 9, 1, Sampling(), reads=False)
        waits = [group.is_being_read(short)]
        while waits[-1]:
            reader.read_on()
            waits.append(group.is_being_read(short))
        before = sum(runs)
        group.start(short, 9, 1, Sampling())
    finally:
        group.close()
    assert before <= 24 and sum(runs) - before < 8


@pytest.mark.parametrize("way", ["torch exact", "torch fast"])
@pytest.mark.usefixtures("short_runs")
def test_nobody_waits_for_what_is_not_shared(way, known):
    """What steps wrote in the turn before is no prefill's."""
    group, prefix = target_by(way, "llama", known).group(), Prefix()
    try:
        group.start(LONG[:100], 9, 1, Sampling(), prefix=prefix).close()
        reader = group.start(LONG, 9, 1, Sampling(), prefix=prefix, reads=False)
        assert reader.unread and not group.is_being_read([*LONG, 5])
        reader.read_on()
        assert reader.unread and not group.is_being_read([*LONG, 5])
    finally:
        group.close()


@pytest.mark.usefixtures("short_runs")
def test_what_fails_while_a_prompt_is_read_is_its_own(target, monkeypatch):
    shared, forward, read = SharedDecoding(target), HuggingFaceTarget.forward, []

    def fails(self, cache, tokens, *others, prefill=False):
        if prefill and tokens[0] == LONG[80]:
            read.append(tokens)
            raise MemoryError("no room")
        return forward(self, cache, tokens, *others, prefill=prefill)

    monkeypatch.setattr(HuggingFaceTarget, "forward", fails)
    texts = all_at_once(lambda one: list(steps_of(shared, target, *one)), [((1, 2, 3), 40), (LONG, 9)])
    assert len(texts[0]) == 40
    assert isinstance(texts[1], MemoryError) and len(read) == 1
    check_all_is_over(target)
