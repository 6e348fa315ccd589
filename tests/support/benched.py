"""A tiny model as commands take it: with a tokenizer, a name and a step cost; and each model loaded once."""

import pytest
from tiny import COST, make, model_of
from words import tokenizer

from spectra.methods.resources import Resources
from spectra.service.loading import LoadedModel, ModelOptions
from spectra.target.execution_plan import ExecutionPlan
from spectra.target.huggingface import HuggingFaceTarget


def tiny_target(chat=True, **changes):
    model = make("llama", **changes) if changes else model_of("llama")
    return HuggingFaceTarget(model, tokenizer(chat), name="tiny", plan=ExecutionPlan(cost=COST))


def loaded(*, drafts=(), **changes):
    """The same, loaded: no datastore fits it."""
    return LoadedModel(tiny_target(**changes), Resources(drafts=drafts))


@pytest.fixture(scope="session")
def models():
    """What was loaded, by options."""
    return {}


@pytest.fixture(autouse=True)
def each_model_once(models, monkeypatch):
    """Commands that ask for the same model get the same one: loading and measuring it takes longer than using it."""
    load = ModelOptions.load

    def once(options):
        if options not in models:
            models[options] = load(options)
        return models[options]

    monkeypatch.setattr(ModelOptions, "load", once)
