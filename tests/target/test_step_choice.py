"""Which way steps go: tried on the model, refused by name where it is not available, exact where that was asked for."""

import inspect
from contextlib import nullcontext
from functools import partial
from itertools import pairwise

import pytest
import torch
from drafting import Scripted, decode_by, method_of
from recording import Counting, PlainFlash, attend_row_by_row, record
from tiny import COST, VOCABULARY, make, model_of, target_of

from spectra import Limits, Sampling, load_target
from spectra.budget.step_cost import StepCost
from spectra.cli.main import main
from spectra.errors import SpectraError
from spectra.target import attention, load, step_choice
from spectra.target.choices import GPU_STEPS
from spectra.target.cuda_graphs import static_attention
from spectra.target.cuda_graphs.capture import CudaCapture, launched
from spectra.target.cuda_graphs.steps import StaticSteps
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import Execution
from spectra.target.load import wrap_model
from spectra.target.preflight import choose_chunk
from spectra.target.step_choice import captured_plan, captured_steps, choose_step, obstacle
from spectra.verify.picks import Chooser

PROMPT = [5, 9, 33, 2, 17, 40, 21]
COUNTS = (1, 16, 40)


@pytest.fixture
def timed(monkeypatch):
    """T(q) by what the steps attend with, in place of a measurement; few row counts."""
    static_attention.register()
    seconds = {"flash": 1.0, "masked": 2.0, "exact": 2.0}

    def cost(target):
        return StepCost(((1, seconds[target.steps.attend]),))

    monkeypatch.setattr(step_choice, "measure_cost", cost)
    monkeypatch.setattr(step_choice, "COUNTS", COUNTS)
    return seconds


def tried(target, kernels=PlainFlash, capture=record):
    captured = "exact" if target.plan.exact else "masked"
    attend = {"flash": "flash", "flash-eager": "flash", "graphs": captured}[target.plan.step]
    return StaticSteps(attend, launched if target.plan.step == "flash-eager" else capture, kernels)


def eager(seconds=3.0, **plan):
    return ExecutionPlan(cost=StepCost(((1, seconds),)), **plan)


@pytest.mark.parametrize("family", ["gemma3", pytest.param("llama", marks=pytest.mark.all_cases)])
def test_auto_is_the_fastest_that_agrees(family, timed):
    for slow, expected in ((3.0, "flash"), (0.5, "eager")):
        target = target_of(model_of(family), eager(slow))
        choose_step(target, "auto", tried)
        assert target.plan.step == expected
        assert (target.steps is None) == (expected == "eager")
        assert not target.plan.note
    assert target.plan == eager(0.5)
    timed["flash"] = 2.5
    target = target_of(model_of(family), eager())
    choose_step(target, "auto", tried)
    assert (target.plan.step, target.plan.counts, target.steps.attend) == ("graphs", COUNTS, "masked")
    assert target.facts["step"] == "graphs"


def test_a_remembered_plan_gets_its_steps_again(timed, monkeypatch):
    """As the next start has it: no other way to take steps under the name of the one that was measured."""
    monkeypatch.setattr(step_choice, "obstacle", lambda target: "")
    monkeypatch.setattr(load, "cuda_steps", tried)
    monkeypatch.setattr(load, "refresh_cost", lambda target: None)
    for step in GPU_STEPS:
        plan = captured_plan(eager(), step)
        monkeypatch.setattr(load, "recall_plan", lambda path, plan=plan: plan)
        target = wrap_model(make("llama"), numerics="fast", step=step)
        assert target.plan == plan and target.steps.attend == ("masked" if step == "graphs" else "flash")


def test_what_memory_was_too_short_for_is_tried_again_at_the_next_start(timed, monkeypatch):
    def full(function):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(step_choice, "obstacle", lambda target: "")
    monkeypatch.setattr(load, "native_steps", lambda *_: None)
    monkeypatch.setattr(load, "measure_execution", lambda target, _: target.use(Execution(eager())))
    for capture, expected in ((full, "flash-eager"), (record, "flash")):
        make_steps = partial(tried, capture=capture)
        monkeypatch.setattr(load, "choose_step", partial(choose_step, make=make_steps))
        monkeypatch.setattr(load, "cuda_steps", make_steps)
        assert wrap_model(make("llama"), numerics="fast").plan.step == expected


def test_what_is_named_is_taken_however_slow(timed):
    for step in ("graphs", "flash"):
        target = target_of(model_of("llama"), eager(0.1))
        choose_step(target, step, tried)
        assert (target.plan.step, target.facts["step"]) == (step, step)
        assert ExecutionPlan.from_dict(target.plan.to_dict()) == target.plan
    assert target.facts["flash"].startswith("torch ")
    assert target_of(model_of("llama")).facts["step"] == "eager"


class Deaf(PlainFlash):
    """Reads one token too few of every context."""

    def __init__(self, query, value, length):
        super().__init__(query, value, length - 1)


def frozen(function):
    """Answers for ever what it was captured with."""
    result = function()
    return lambda: result


def refuses(function):
    raise RuntimeError("no graphs on this device")


@pytest.mark.parametrize(
    ("step", "options", "words"),
    [
        ("flash", {"kernels": Deaf}, "logits differ"),
        ("flash", {"kernels": lambda *_: None}, "no flash kernel"),
        ("graphs", {"capture": frozen}, "logits differ"),
        ("graphs", {"capture": refuses}, "no graphs on this device"),
    ],
)
def test_what_disagrees_is_refused(step, options, words, timed):
    target = target_of(model_of("llama"), eager())
    with pytest.raises(SpectraError, match=words) as error:
        choose_step(target, step, partial(tried, **options))
    assert error.value.field == "step"
    assert (target.plan, target.steps) == (eager(), None)
    choose_step(target, "auto", partial(tried, **options))
    assert target.plan.step == ("graphs" if step == "flash" else "flash-eager")


@pytest.fixture
def as_on_gpu(monkeypatch):
    """Attention row by row, in eager steps and in captured ones."""
    monkeypatch.setattr(static_attention, "attend_by_position", attend_row_by_row)

    def attended(query, key, value, scaling, window, metadata):
        return attend_row_by_row(query, key, value, scaling, window, metadata.table(query.device))

    monkeypatch.setattr(attention, "attended", attended)


def exact_target():
    static_attention.register()
    target = target_of(make("llama-g3", max_position_embeddings=1024).to(torch.bfloat16))
    assert not choose_chunk(target)
    return target


def test_captured_steps_are_exact(monkeypatch, cases, as_on_gpu):
    """In 16 bits a token's logits have the same bits by a captured plain step, a captured tree step, an eager one."""
    seen = []
    choose = Chooser.choose

    def spy(self, scores, row_of, tree, tokens):
        seen.append((row_of, scores.logits.clone()))
        return choose(self, scores, row_of, tree, tokens)

    monkeypatch.setattr(Chooser, "choose", spy)

    def run(method):
        seen.clear()
        steps = list(decode_by(target, PROMPT, method, sampling=Sampling(), limits=Limits(cases(40, 62))))
        rows = [
            logits[row_of[node]]
            for step, (row_of, logits) in zip(steps, seen, strict=True)
            for node in [0, *step.path][: len(step.tokens)]
        ]
        return [token for step in steps for token in step.tokens], torch.stack(rows)

    target = exact_target()
    truth, ordinary = run("autoregressive")
    choose_step(target, "graphs", tried)
    assert (target.plan.numerics, target.plan.step, target.steps.attend) == ("exact", "graphs", "exact")
    tokens, plain = run("autoregressive")
    assert tokens == truth
    assert torch.equal(plain, ordinary)
    for kind in cases(("chaos",), ("chaos", "branches")):
        drafter = Scripted(kind, truth, len(PROMPT), vocabulary=VOCABULARY)
        tokens, rows = run(method_of([drafter], 30))
        assert tokens == truth
        assert torch.equal(rows, plain)
    assert not target.steps.broken


def test_exact_numerics_do_without_flash(timed, as_on_gpu):
    target = exact_target()
    choose_step(target, "auto", tried)
    assert target.plan.step in ("graphs", "eager")
    assert target.plan.exact


def test_graphs_that_round_in_their_own_way_are_refused(timed, as_on_gpu):
    made = []

    def own_way(function):
        replay, factor = record(function), 1 + len(made) % 2 / 128
        made.append(factor)
        return lambda: replay() * factor

    with pytest.raises(SpectraError, match="neighbours"):
        choose_step(exact_target(), "graphs", partial(tried, capture=own_way))


def test_a_capture_that_breaks_while_a_model_is_checked_is_the_reason(timed, as_on_gpu, monkeypatch):
    monkeypatch.setattr(step_choice, "measure_cost", lambda target: COST)  # and captures nothing more
    capture = Counting()
    choose_step(exact_target(), "graphs", partial(tried, capture=capture))
    for last in (0, capture.made - 1):
        made = []

        def breaks(function, last=last, made=made):
            made.append(function)
            if len(made) > last:
                raise RuntimeError("no room for this one")
            return record(function)

        with pytest.raises(SpectraError, match="no room for this one"):
            choose_step(exact_target(), "graphs", partial(tried, capture=breaks))


def test_row_counts_that_are_captured():
    assert all(b <= 1.5 * a or a < 3 for a, b in pairwise(step_choice.COUNTS))
    assert captured_plan(ExecutionPlan(), "graphs").counts == step_choice.COUNTS
    exact = captured_plan(ExecutionPlan("exact", chunk=16), "graphs")
    assert (exact.counts, exact.chunk, exact.step) == ((16,), 16, "graphs")
    assert captured_steps(exact, record).attend == "exact"
    assert captured_steps(captured_plan(ExecutionPlan(), "flash"), record).attend == "flash"


def test_a_cpu_has_eager_steps_and_says_why():
    target = wrap_model(make("llama"), numerics="fast", step="eager")
    assert (target.plan.step, target.steps) == ("eager", None)
    assert "GPU" in obstacle(target)
    for step in ("graphs", "flash"):
        with pytest.raises(SpectraError, match=r"GPU.*use auto or eager") as error:
            wrap_model(make("llama"), step=step)
        assert error.value.field == "step"
        with pytest.raises(SpectraError, match=r"GPU.*use auto or eager"):
            load_target("anything", device="cpu", step=step)
    for unknown in (wrap_model, load_target):
        with pytest.raises(SpectraError, match="step: 'quick' is unknown"):
            unknown(make("llama"), step="quick")


def test_flash_and_exact_exclude_each_other(monkeypatch):
    monkeypatch.setattr(step_choice, "obstacle", lambda target: "")
    with pytest.raises(SpectraError, match="not exact"):
        step_choice.wanted_step(target_of(model_of("llama"), ExecutionPlan(cost=COST)), "flash", "exact")


def test_the_command_line_names_the_step(capsys):
    assert main(["generate", "hello", "--device", "cpu", "--step", "graphs"]) == 2
    assert capsys.readouterr().err.startswith("spectra: step: graphs takes a CUDA GPU")


def test_a_cuda_graph_is_warmed_up_and_captured_on_one_stream(monkeypatch):
    """The calls to torch.cuda, in their order and by their signatures; what they do takes a GPU."""
    done = []

    class Stream:
        def __init__(self, device=None):
            self.name = "side" if device else "here"

        def wait_stream(self, other):
            done.append(f"{self.name} waits for {other.name}")

    class Graph:
        def replay(self):
            done.append("replay")

    def graph(*arguments, **options):
        bound = inspect.signature(real.__init__).bind(None, *arguments, **options).arguments
        assert isinstance(bound["cuda_graph"], Graph)
        done.append(f"record on {bound['stream'].name} in {bound['pool']}, {bound['capture_error_mode']}")
        return nullcontext()

    real = torch.cuda.graph
    for name, stand_in in {
        "graph": graph, "CUDAGraph": Graph, "Stream": Stream, "device": nullcontext, "stream": nullcontext,
        "current_stream": Stream, "graph_pool_handle": lambda: "the pool",
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, stand_in)
    result = torch.ones(2)
    replay = CudaCapture(torch.device("cuda"))(lambda: done.append("run") or result)
    runs = ["side waits for here", "run", "run", "here waits for side", "record on side in the pool, thread_local"]
    assert done == [*runs, "run"]
    assert replay() is result
    assert done[-1] == "replay"


def refuses(function):
    raise RuntimeError("operation not permitted when stream is capturing")


def test_a_flash_kernel_is_launched_by_itself_where_nothing_can_be_captured(timed):
    for capture, expected in ((record, "flash"), (refuses, "flash-eager")):
        target = target_of(model_of("llama"), eager())
        choose_step(target, "auto", partial(tried, capture=capture))
        assert target.plan.step == expected
        session = target.start(PROMPT, 1, 8, Sampling())
        session.close()
        assert target.steps.flashed


def test_a_flash_kernel_by_itself_is_asked_for_by_name_and_decodes_the_same_tokens(timed):
    target = target_of(model_of("llama"), eager())
    truth = [token for step in decode_by(target, PROMPT, "autoregressive", limits=Limits(16)) for token in step.tokens]
    choose_step(target, "flash-eager", tried)
    assert target.plan.step == "flash-eager"
    for method in ("autoregressive", "spectra-paper-core"):
        steps = decode_by(target, PROMPT, method, limits=Limits(16))
        assert [token for step in steps for token in step.tokens] == truth
    assert target.steps.flashed and not target.steps.broken
    with pytest.raises(SpectraError, match=r"flash attention is not exact|takes a CUDA GPU"):
        step_choice.wanted_step(target, "flash-eager", "exact")
