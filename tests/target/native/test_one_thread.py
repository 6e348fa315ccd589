"""Torch works with one thread between native steps: those it wakes would wait busily on the cores of the next step."""

import threading

import pytest
import torch
from compiled import needs_native
from drafting import decode_by
from tiny import COST, make, target_of
from transformers import TemperatureLogitsWarper

from spectra import Limits, Sampling
from spectra.target import draft_model
from spectra.target.draft_model import DraftModel
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import Execution
from spectra.target.load import wrap_model
from spectra.target.native.steps import native_steps
from spectra.tree import ROOT, TokenTree
from spectra.verify.picks import probabilities_of


class Watching(TemperatureLogitsWarper):
    def __init__(self, temperature):
        super().__init__(temperature)
        self.threads = []

    def __call__(self, input_ids, scores):
        self.threads.append(torch.get_num_threads())
        return super().__call__(input_ids, scores)


@pytest.mark.parametrize("method", ["autoregressive", "spectra"])
def test_picks_wake_no_threads(method):
    needs_native()
    target = target_of(make("llama"), ExecutionPlan("exact", "native", cost=COST))
    target.use(Execution(target.plan, native_steps(target, "native", {}, None)))
    watching = Watching(0.8)
    torch.set_num_threads(2)
    sampling, limits = Sampling(0.8, seed=1), Limits(12)
    for step in decode_by(target, [1, 2, 3, 1, 2], method, sampling=sampling, limits=limits, processors=[watching]):
        assert torch.get_num_threads() == 2, step
    assert len(watching.threads) >= 12 and set(watching.threads) == {1}


def test_a_draft_model_wakes_no_threads(monkeypatch):
    needs_native()
    threads = []

    def watching(*arguments):
        threads.append(torch.get_num_threads())
        return probabilities_of(*arguments)

    monkeypatch.setattr(draft_model, "probabilities_of", watching)
    torch.set_num_threads(2)
    answer = DraftModel(wrap_model(make("llama"), numerics="fast", step="native")).start(Sampling(0.8))
    assert answer.follow([5, 6], 4)
    answer.probabilities(TokenTree(6), [ROOT])
    assert threads == [1]
    assert torch.get_num_threads() == 2


def test_a_thread_that_begins_during_a_step_has_all_of_its_own():
    needs_native()
    target = target_of(make("llama"), ExecutionPlan("exact", "native", cost=COST))
    target.use(Execution(target.plan, native_steps(target, "native", {}, None)))
    torch.set_num_threads(2)
    seen = []
    with target.one_torch_thread():
        other = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        other.start()
        other.join()
        assert torch.get_num_threads() == 1
    assert [*seen, torch.get_num_threads()] == [2, 2]
