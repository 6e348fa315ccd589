"""What a browser, a link or a client may send: a request within its ranges, or a short refusal naming the field."""

import json
from dataclasses import fields
from typing import Any

import pytest
from damage import is_one_short_line, texts, values
from fakes_engine import FakeEngine
from hypothesis import example, given
from hypothesis import strategies as st

from spectra.errors import SpectraError
from spectra.serving.settings import ServingSettings
from spectra.settings import MethodSettings
from visual.asgi import declared
from visual.guard import listener_of, read_data, session_of
from visual.permalink import read_link
from visual.request import MAX_CHARACTERS, RANGES, request_of
from visual.run.run import explain
from visual.wire.events import harmless, send

FIELDS = ("prompt", "method", "max_new_tokens", "temperature", "seed", "top_p")


@given(st.tuples(*[values] * 6))
@example(("x", "spectra", 9, 0, 10**400, 1))
@example(("x", "spectra", 9, "1e999", 1, 1))
@example(("x", "spectra", True, 0, 1, 1))
@example(("\ud800", "spectra", 9, 0, 1, 1))
@example(("x" * 99_999, "spectra", 9, 0, 1, 1))
def test_the_fields_of_a_form(fields: tuple[Any, ...]) -> None:
    try:
        request = request_of(*fields)
    except SpectraError as error:
        assert error.field in FIELDS and is_one_short_line(error)
        return
    assert 0 < len(request.prompt) <= MAX_CHARACTERS and request.prompt.encode()
    assert 1 <= request.max_new_tokens <= 2048 and 0 <= request.sampling.temperature <= 2


@given(st.dictionaries(st.sampled_from([*FIELDS, *(field.name for field in fields(MethodSettings)), "x"]), texts))
@example({"seed": "1" * 5000})
@example({"seed": "nan", "temperature": "-inf", "top_p": "0"})
@example({"method": "__proto__", "prompt": "\ud800"})
def test_a_link(query: dict[str, str]) -> None:
    engine = FakeEngine()
    link = read_link(query, engine, "spectra")
    prompt, method, *numbers = link.form
    for field, value in zip(("max_new_tokens", "temperature", "seed", "top_p"), numbers, strict=True):
        if not isinstance(value, dict):
            RANGES[field].check(field, value)
    assert isinstance(method, dict) or method == link.method in engine.methods
    assert MethodSettings(**link.changed).changed == link.changed  # type: ignore[arg-type]
    assert all(is_one_short_line(line) for line in link.left)
    send({"kind": "x", "prompt": prompt if isinstance(prompt, str) else ""}).encode()


@given(values)
@example({"spectra": {"stores": 5}})
@example({"spectra": {"stores": {"a": 1}}})
@example({"spectra": {"stores": None}})
@example({"spectra": {"tokenizer": 5, "stores": ["a"]}})
@example({"spectra": {"requests": True}})
@example({"spectra": {1: 2}})
def test_additional_config_of_vllm(given_config: Any) -> None:
    for config in (given_config, {"spectra": given_config}):
        try:
            settings = ServingSettings.of(config)
        except SpectraError as error:
            assert is_one_short_line(error)
            continue
        assert ServingSettings.of(settings.to_dict()) == settings
        assert all(isinstance(store, str) for store in settings.stores) and isinstance(settings.tokenizer, str)


@given(st.dictionaries(st.sampled_from(["stores", "tokenizer", "requests", "tokens", "context"]), values))
def test_settings_of_the_server(given_config: dict[str, Any]) -> None:
    test_additional_config_of_vllm.hypothesis.inner_test(given_config)  # type: ignore[attr-defined]


@given(st.dictionaries(texts, values, max_size=3))
def test_no_tag_goes_over_the_wire(message: dict[str, Any]) -> None:
    text = harmless(message)
    assert "<" not in text and "\n" not in text


@given(st.binary(max_size=60), texts, texts)
def test_the_guard_reads_anything(body: bytes, path: str, query: str) -> None:
    assert isinstance(session_of(read_data(body, 100)), str)
    assert isinstance(listener_of(path, query), str)
    assert declared({"headers": [(b"content-length", body)]}) >= 0


@given(texts, texts)
@example("a\nb", "c" * 100_000)
def test_refusals_are_short_lines(field: str, problem: str) -> None:
    error = SpectraError(field or "x", problem)
    assert is_one_short_line(error)
    json.dumps(explain(error)).encode()


def test_an_unknown_error_is_told_without_its_text() -> None:
    explained = explain(OSError("/home/someone/secret"))
    assert "secret" not in explained["text"] and "OSError" in explained["text"]
    with pytest.raises(SpectraError):
        raise SpectraError("x", "\ud800")
