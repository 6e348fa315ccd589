"""What `python app.py` refuses before a model is loaded: an address that it cannot listen on."""

import errno
import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from ipv6 import takes_ipv6

import app
from spectra.errors import SpectraError
from spectra.service.engine import Engine
from spectra.service.loading import ModelOptions
from spectra.target.choices import EMBEDDED

LOAD = Engine.load
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "load", lambda *a, **k: pytest.fail("a model was loaded first"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    assert app.main([str(argument) for argument in arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("app.py: ") and err.count("\n") == 1
    return err.removeprefix("app.py: ")


def test_a_port_that_is_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert refused(capsys, "--port", port).startswith(f"port: {port} is in use; give another one")


def test_a_port_that_a_user_may_not_open(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(line: socket.socket, address: tuple[str, int]) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(app.socket, "socket", type("Line", (socket.socket,), {"bind": bind}))
    assert refused(capsys, "--port", 80) == "port: 80 is not open to this user; give one above 1023\n"


@pytest.mark.parametrize(
    ("there", "device", "expected"),
    [(True, None, app.GPU_DEFAULTS), (True, "cuda:0", app.GPU_DEFAULTS), (True, "cpu", app.DEFAULTS),
     (False, None, app.DEFAULTS)],
)  # fmt: skip
def test_on_a_gpu_the_page_begins_with_a_model_that_people_know(
    monkeypatch: pytest.MonkeyPatch, there: bool, device: str | None, expected: tuple[str, ...]
) -> None:
    asked = []

    def load(*models: str, options: ModelOptions) -> None:
        asked.append(models)
        raise SpectraError("model", "none of them can be reached")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr("spectra.target.load.try_device", torch.device)
    monkeypatch.setattr(Engine, "load", load)
    assert app.main([*(["--device", device] if device else []), "--port", "7999"]) == 2
    assert asked == [expected] and expected[-1 if there and device != "cpu" else 0] == EMBEDDED


@pytest.mark.parametrize("options", [("--step", "flash"), ("--step", "graphs", "--device-map", "auto")])
def test_steps_that_the_device_does_not_take_are_refused_before_the_page_and_a_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "visual.page", None)
    said = f"step: {options[1]} takes a CUDA GPU, and the device is cpu; use auto or eager"
    assert refused(capsys, *options, "--port", 7999) == f"{said}\n"


def test_native_steps_are_refused_on_a_gpu_before_a_model_is_looked_for(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    said = "step: native steps run on a CPU, and the device is cuda; use auto or eager"
    assert refused(capsys, "--step", "native", "--port", 7999) == f"{said}\n"


@pytest.mark.parametrize("has_room", [True, False])
def test_where_a_gpu_has_no_room_for_the_first_model_no_larger_one_is_fetched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], has_room: bool
) -> None:
    asked, pages = [], []

    def load(options: ModelOptions) -> Any:
        asked.append(options.model)
        if not has_room and options.model != EMBEDDED:
            raise SpectraError("model", "it does not fit into the GPU's memory")

    def build(engine: Engine, *_: Any, **__: Any) -> None:
        pages.append((engine.chosen, engine.models))
        raise SpectraError("port", "no page is wanted")

    monkeypatch.setattr(Engine, "load", LOAD)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(ModelOptions, "load", load)
    monkeypatch.setattr(Engine, "__init__", lambda *_: None)
    monkeypatch.setattr(Engine, "prepare", lambda _: None)
    monkeypatch.setattr("visual.page.build_page", build)
    assert app.main(["--port", "7999"]) == 2
    first, *_, last = app.GPU_OFFERED
    assert asked == ([first] if has_room else [first, last]) and last == EMBEDDED
    assert pages == [(asked[-1], list(app.GPU_OFFERED))]
    assert capsys.readouterr().err.startswith(f"{first} comes from the hub")


@pytest.mark.parametrize("host", ["", " ", "999.1.1.1", "192.0.2.1", "x" * 300, "a\0b", "\udcff"])
def test_a_host_that_is_none(capsys: pytest.CaptureFixture[str], host: str) -> None:
    assert refused(capsys, "--host", host, "--port", 7999).startswith("host: ")


def test_an_endpoint_that_is_blank(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--endpoint", "", "--port", 7999).startswith("endpoint: ")


def test_a_servers_model_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "--endpoint-model", "a", "--port", 7999).startswith("endpoint-model: ")


@takes_ipv6
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_is_asked_for_its_port(capsys: pytest.CaptureFixture[str], host: str) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        assert refused(capsys, "--host", host, "--port", port).startswith(f"port: {port} is in use")


def test_an_installed_copy_has_the_name_of_its_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.spec_from_file_location("spectra_demo", app.__file__)
    assert found is not None and found.loader is not None
    installed = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "spectra_demo", installed)  # where dataclasses look their module up
    found.loader.exec_module(installed)
    assert installed.main(["--host", ""]) == 2
    assert capsys.readouterr().err.startswith("spectra-demo: host: ")
    assert installed.build_parser().format_usage().startswith("usage: spectra-demo ")


@pytest.mark.parametrize("missing", ["gradio", "plotly", "httpx"])
def test_where_the_packages_of_the_page_are_not_installed_one_line_says_how_to_get_them(missing: str) -> None:
    """A plain `pip install spectra-decoding` brings the command too, without gradio and starlette."""
    gone = f"sys.modules.update(dict.fromkeys([{missing!r}, 'starlette']))"
    code = f"import sys; {gone}; import app; sys.exit(app.main(['--port', '7999']))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"app.py: {missing}: the page takes its package; pip install 'spectra-decoding[demo]'\n"


def test_a_gpu_that_is_lent_takes_its_package(monkeypatch):
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    monkeypatch.setitem(sys.modules, "spaces", None)
    with pytest.raises(SpectraError, match=r"^device: SPACES_ZERO_GPU .*pip install spaces, or unset it$"):
        app.lender()


def test_a_package_that_finds_no_gpu_to_lend_is_one_line(monkeypatch, capsys, tmp_path):
    """As on a machine of one's own, where the variable is set to try it."""
    (tmp_path / "spaces.py").write_text("assert False, 'its address must be set'")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "spaces", raising=False)
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    said = "SPACES_ZERO_GPU says that a GPU is lent by the call, but not here (its address must be set)"
    assert refused(capsys, "--model", "embedded", "--port", 7999) == f"device: {said}; unset it\n"


def test_native_steps_are_refused_where_a_gpu_is_lent(monkeypatch, capsys):
    """Else the page would start, and refuse every race."""
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    said = "step: native steps run on a CPU, and the GPU is lent by the call; use auto or eager"
    assert refused(capsys, "--step", "native", "--port", 7999) == f"{said}\n"


def test_a_folder_of_answers_is_refused_where_a_gpu_is_lent(monkeypatch, capsys, tmp_path):
    """It was left out without a word."""
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    monkeypatch.setenv("SPECTRA_REMEMBER", str(tmp_path / "memory"))
    said = "remember: nothing learned in a call to a lent GPU outlives it; leave it out"
    assert refused(capsys, "--port", 7999) == f"{said}; the environment has SPECTRA_REMEMBER\n"
