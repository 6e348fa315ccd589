"""Shared fixtures: a private cache folder for every test but the `real` ones, and the embedded model for those."""

import gc
import os
from functools import cache
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:  # before torch is loaded: processes that share the cores have one thread each
    os.environ["OMP_NUM_THREADS"] = "1"
    gc.disable()  # until all tests are collected: looking through what is imported meanwhile takes a third of that time
import torch
from chromium import LEFT_OUT, find_chromium

if not torch.cuda.is_available():  # before Triton is loaded: its kernels run on the CPU
    os.environ["TRITON_INTERPRET"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # gradio and its client would tell the Hub that they run
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
BROWSER, REAL = "tests/browser", "real"
ON_GPU = "tests/target/cuda_graphs/test_on_gpu.py"
"""A machine with a GPU has many cores: a process for each kind of model."""
BROWSERS = (f"{BROWSER} 1", f"{BROWSER} 2")


def pytest_addoption(parser):
    parser.addoption("--all-cases", action="store_true", help="every random case (`make test-all`) instead of some")


@cache
def scope_of(file):
    """What stays in one process: half of the files with Chromium, all files with `real` tests, else one file.

    Those with Chromium come first, for they take the longest and wait for the page half of the time; then the files
    with the embedded model, which would be loaded once a process, and whose threads slow each other down.
    """
    if file.startswith(f"{BROWSER}/"):
        names = sorted(path.name for path in Path(__file__).with_name("browser").glob("test_*.py"))
        return BROWSERS[names.index(Path(file).name) % 2]
    return REAL if "mark.real" in Path(__file__).parents[1].joinpath(file).read_text(encoding="utf-8") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """For several processes."""
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition("::")[0]
            return nodeid.partition("-")[0] if file == ON_GPU else scope_of(file)

    return ByScope(config, log)


def pytest_collection_modifyitems(config, items):
    """Without --all-cases, cases marked `all_cases` are left out; with it, a test may take an hour."""
    first = [*BROWSERS, REAL]
    scopes = {item: scope_of(item.nodeid.partition("::")[0]) for item in items}
    items.sort(key=lambda item: first.index(scopes[item]) if scopes[item] in first else len(first))
    if config.getoption("all_cases"):
        for item in items:
            item.add_marker(pytest.mark.timeout(3600))
        return
    left_out = [item for item in items if item.get_closest_marker("all_cases")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_collection_finish():
    """What was imported stays: it is not looked through any more."""
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter, config):
    """Here and not in tests/browser: with several processes, the one that prints loads no other file of tests."""
    browser = config.rootpath / BROWSER
    asked = [(config.invocation_params.dir / name.partition("::")[0]).resolve() for name in config.args]
    if any(browser in (path, *path.parents) or path in browser.parents for path in asked) and find_chromium() is None:
        terminalreporter.write_line(LEFT_OUT)


@pytest.fixture(scope="session")
def cases(request):
    """`cases(some, every)`: the first in `make test`, the second with --all-cases."""
    return lambda some, every: every if request.config.getoption("all_cases") else some


@pytest.fixture(scope="session")
def private_cache(tmp_path_factory):
    """A cache folder with nothing in it but the user's compiled libraries."""
    from spectra.io.cache_home import cache_home

    folder, compiled = tmp_path_factory.mktemp("cache"), cache_home() / "native"
    compiled.mkdir(parents=True, exist_ok=True)
    (folder / "spectra").mkdir()
    (folder / "spectra" / "native").symlink_to(compiled)
    return folder


@pytest.fixture(autouse=True)
def small_world(request, private_cache, monkeypatch):
    """Not for `real` tests: they share the user's own cache, so that the embedded model is converted once, and every
    core. Tiny models are several times faster on one thread, and T(q) need not be exact for them."""
    if request.node.get_closest_marker("real") is not None:
        yield
        return
    monkeypatch.setenv("XDG_CACHE_HOME", str(private_cache))
    monkeypatch.setattr("spectra.target.preflight.COST_SECONDS", 0.25)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def smollm():
    """The embedded SmolLM2-135M-Instruct in bf16 with exact numerics. Only for tests marked `real`."""
    from spectra import load_target

    return load_target(dtype="bf16", numerics="exact")
