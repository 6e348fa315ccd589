"""A tiny model in a folder, and an engine that has loaded it."""

import pytest
from words import save_model

from spectra.service.engine import Engine


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(save_model(tmp_path_factory.mktemp("models") / "tiny", longest=400))


@pytest.fixture(scope="module")
def engine(folder):
    return Engine.load(folder)
