"""What is known of models that several threads hand over at once."""

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from spectra.target.known_models import learned_of


class Model:
    def __init__(self, config):
        self.config = config

    def modules(self):
        return [self]


@pytest.fixture
def interleaved():
    """Threads take turns after a few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("interleaved")
def test_models_that_threads_bring_at_once_are_each_known_and_take_turns_by_config():
    """Others came while a thread looked for one that shares the config: it failed, or found none."""
    configs = [SimpleNamespace() for _ in range(100)]
    models = [Model(config) for config in configs for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        known = list(pool.map(learned_of, models))
    assert len({id(one) for one in known}) == len(models)
    for locks in ([one.turn for one in known], [one.decodes for one in known]):
        assert [len({id(lock) for lock in locks[at : at + 4]}) for at in range(0, len(locks), 4)] == [1] * 100
