"""What a plain step reads, counted by hand, the tables that `bench latency` makes of it, and runs by other steps."""

import json
import time

import pytest
import torch
from compiled import needs_native
from tiny import make, target_of

from spectra.bench.report.merge import NEEDED, merge
from spectra.bench.run.rows import ROWS
from spectra.bench.steps import bandwidth_table, cost_table, measure
from spectra.budget.step_cost import StepCost
from spectra.target import bandwidth, preflight
from spectra.target.bandwidth import copy_bandwidth, step_and_read_seconds, token_bytes, weight_bytes
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.load import wrap_model
from spectra.target.preflight import time_sizes


def test_every_weight_counts_once_and_a_table_does_not():
    heads = {"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 16}
    layer = 2 * 48 * 96 + 2 * 48 * 48 + 3 * 48 * 64 + 2 * 48
    for tied in (False, True):
        model = make("llama", tie_word_embeddings=tied, **heads)
        assert weight_bytes(target_of(model)) == 4 * (2 * layer + 48 + 64 * 48)  # a tied table is read as the head
    assert sum(p.nbytes for p in make("llama").parameters()) == 4 * (2 * layer + 48 + 2 * 64 * 48)


def test_keys_and_values_count_as_they_are_stored():
    target = target_of(make("llama").to(torch.bfloat16))
    assert token_bytes(target) == 2 * 2 * 3 * 16 * 2


def test_a_copy_reads_and_writes(monkeypatch):
    clock = iter([0.0, 4.0, 10.0, 12.0, 20.0, 23.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    assert copy_bandwidth(torch.device("cpu"), 1000) == 4000.0  # the best of them took 2 s for four


def test_the_tables(monkeypatch):
    costs = {256: StepCost(((1, 0.002), (4, 0.003))), 1024: StepCost(((1, 0.004), (4, 0.004)))}
    lines = cost_table(costs, [1, 4]).splitlines()
    assert lines[2:] == ["| 256 | 2.0 (1.00) | 3.0 (1.50) |", "| 1024 | 4.0 (1.00) | 4.0 (1.00) |"]
    for name, value in (("weight_bytes", 7_000_000), ("token_bytes", 1000), ("copy_bandwidth", 8e9)):
        monkeypatch.setattr(bandwidth, name, lambda _, value=value: value)
    lines = bandwidth_table(target_of(make("llama")), costs).splitlines()
    assert lines[2:4] == ["| 256 | 0.007 | 3.6 | 45% |", "| 1024 | 0.008 | 2.0 | 25% |"]
    assert "8.0 GB/s" in lines[-1]
    monkeypatch.setattr(bandwidth, "step_and_read_seconds", lambda _, context: (0.002, 0.001))
    line = bandwidth_table(target_of(make("llama")), costs).splitlines()[-1]
    assert "in 1.00 ms; a plain step at 256 tokens takes 2.00 ms, 2.00 times as long" in line


def test_a_step_and_its_reading_take_turns():
    assert step_and_read_seconds(target_of(make("llama")), 8) is None  # torch's step
    needs_native()
    target = wrap_model(make("llama"), numerics="exact", step="native")
    reads = []
    read = target.native.read_seconds
    target.native.read_seconds = lambda: reads.append(read()) or reads[-1]
    step, alone = step_and_read_seconds(target, 8)
    assert len(reads) == bandwidth.TURNS and sorted(reads)[len(reads) // 2] == alone and 0 < alone < step


def test_measuring_ends_in_time():
    """What was not reached costs as much a row as what was."""
    seconds = time_sizes(target_of(make("llama")), (1, 2, 4, 8), limit=0.0)
    assert seconds == {size: size * seconds[1] for size in (1, 2, 4, 8)} and seconds[1] > 0
    target = target_of(make("llama"))
    calls = []
    forward = target.forward
    target.forward = lambda *args, **options: calls.append(len(args[1])) or forward(*args, **options)
    time_sizes(target, (1, 2), 3, limit=60.0)
    assert calls[1:] == [1, 2, 2, 1, 1, 2]  # up and down, after the reading of the context


@pytest.mark.parametrize(
    ("today", "again"),
    [
        ({}, False),
        ({1: 0.92, 32: 0.95}, False),  # another day
        ({1: 0.8}, True),
        ({16: 0.75}, True),  # what went on beside was at another width
        ({1: 1.5, 8: 1.5}, False),  # busy today
    ],
)
def test_a_cost_that_was_taken_on_a_busy_machine_is_measured_again(today, again, monkeypatch):
    """It was judged by a step of one row: where the wide ones had been disturbed, budgets took rows to be cheap."""
    kept = StepCost(((1, 0.010), (8, 0.020), (16, 0.030), (32, 0.050), (128, 0.2)))
    new = StepCost(((1, 0.008),))
    target = target_of(make("llama"), ExecutionPlan(cost=kept))
    monkeypatch.setattr(
        preflight,
        "time_sizes",
        lambda _, sizes, **__: {size: today.get(size, 1.0) * kept.seconds(size) for size in sizes},
    )
    monkeypatch.setattr(preflight, "measure_cost", lambda *_, **__: new)
    preflight.refresh_cost(target)
    assert target.cost == (new if again else kept)


def test_one_token_is_measured_even_where_it_is_not_asked_for():
    costs = measure(target_of(make("llama")), [8], [4])
    assert [count for count, _ in costs[8].table] == [1, 4]


def test_runs_by_other_steps_stand_side_by_side(tmp_path):
    words = {"task": "a", "id": "1", "method": "autoregressive", "model": "m"}
    same = dict.fromkeys(NEEDED, 1) | words | {"identical": True, "sources": {"model": 1}}
    for name, step in (("one", {}), ("two", {"step": "graphs"}), ("three", {"step": "flash"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / ROWS).write_text(json.dumps(same | step) + "\n")
    sections = merge([tmp_path / name for name in ("one", "two", "three")])
    assert list(sections) == ["step eager", "step graphs", "step flash"]
