"""What is known of models that several threads hand over at once."""

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

from spectra.target.known_models import learned_of


class Model:
    """Its modules are slow to tell."""

    def __init__(self, config):
        self.config = config

    def modules(self):
        time.sleep(0.2)
        return [self]


def test_models_of_one_config_take_turns_also_where_threads_bring_them_at_once():
    """Each thread found none beside its own; or, of many models, that the others changed while it looked."""
    config = SimpleNamespace()
    models = [Model(config) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        known = list(pool.map(learned_of, models))
    assert len({id(one.turn) for one in known}) == len({id(one.decodes) for one in known}) == 1
    assert len({id(one) for one in known}) == 3
