"""`serve` without vLLM: how servers are started, what a stopped run goes on with, and methods that do not start."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spectra.bench.run.rows import ROWS, read_rows
from spectra.bench.served import load
from spectra.bench.served.server import RunningServer, ServerOptions
from spectra.cli.bench import main
from spectra.errors import SpectraError
from spectra.io.resources import shipped


class Servers:
    """In the place of `RunningServer`: notes the commands; of "suffix" no server starts."""

    def __init__(self):
        self.commands, self.stopped = [], 0

    def __call__(self, command, port, log):
        self.commands.append(command)
        self.log = log
        return self

    def __enter__(self):
        if "suffix" in self.commands[-1]:
            raise SpectraError("server", "it ended at once")
        return "a server"

    def __exit__(self, *error):
        self.stopped += 1


@pytest.fixture
def servers(monkeypatch):
    async def measured(server, prompts, clients, tokens):
        requests = [{"id": one.id, "tokens": 9, "first": 0.1, "each": 0.01, "text": "a"} for one in prompts]
        return {"tokens": 20 * clients, "seconds": 2.0, "drafts": 0, "drafted": 0, "accepted": 0, "requests": requests}

    servers = Servers()
    monkeypatch.setattr(load, "RunningServer", servers)
    monkeypatch.setattr(load, "load", measured)
    return servers


@pytest.fixture
def serve(tmp_path, capsys):
    (tmp_path / "mbpp_test.jsonl").write_text('{"text": "Add."}\n{"text": "Subtract."}\n')

    def run(*more):
        common = ["--data", str(tmp_path), "--tasks", "mbpp", "--out", str(tmp_path / "out")]
        with ThreadPoolExecutor(1) as pool:  # the browser that other tests keep open has an event loop in this one
            code = pool.submit(main, ["serve", *common, *more]).result()
        return code, *capsys.readouterr()

    return run


def test_each_method_has_a_server_of_its_own_in_every_repeat(servers, serve, tmp_path):
    arguments = ("--methods", "ngram:5,spectra", "--concurrency", "1,4", "--repeats", "2", "--k", "7")
    code, out, _ = serve(*arguments)
    assert code == 0 and servers.stopped == 6
    asked = [(one[one.index("--method") + 1], one[one.index("--k") + 1]) for one in servers.commands]
    assert asked == [("plain", "7"), ("ngram", "5"), ("spectra", "7")] * 2
    rows = read_rows(tmp_path / "out" / ROWS)
    assert [(row["repeat"], row["method"], row["clients"]) for row in rows] == [
        (repeat, method, clients)
        for repeat in (0, 1)
        for method in ("plain", "ngram:5", "spectra")
        for clients in (1, 4)
    ]
    assert "spectra, 4 at once: 40.0 tokens/s\n" in out
    assert (tmp_path / "out" / "report.md").read_text() in out and "| 4 | spectra | 40.0 | 1.00 |" in out


def test_only_what_is_missing_is_started_again(servers, serve, tmp_path):
    assert serve("--methods", "spectra", "--concurrency", "1")[0] == 0
    lines = (tmp_path / "out" / ROWS).read_text().splitlines(keepends=True)
    (tmp_path / "out" / ROWS).write_text(lines[0])
    servers.commands.clear()
    assert serve("--methods", "spectra", "--concurrency", "1")[0] == 0
    assert [one[one.index("--method") + 1] for one in servers.commands] == ["spectra"]
    assert (tmp_path / "out" / ROWS).read_text() == "".join(lines)
    code, _, err = serve("--methods", "spectra", "--concurrency", "1", "--k", "3")
    assert code == 2 and "holds rows with k 8, this run has 3" in err


def test_a_method_that_does_not_start_is_left_out(servers, serve):
    code, out, _ = serve("--methods", "suffix,spectra", "--concurrency", "1")
    assert code == 0 and "suffix is not measured: server: it ended at once\n" in out
    assert "| 1 | spectra |" in out and "| 1 | suffix |" not in out


def test_without_plain_decoding_there_is_nothing_to_compare_with(servers, serve, monkeypatch):
    def refuse(self):
        raise SpectraError("server", "it ended at once")

    monkeypatch.setattr(Servers, "__enter__", refuse)
    code, _, err = serve("--methods", "spectra")
    assert (code, err) == (2, "spectra.bench: server: it ended at once\n")
    assert len(servers.commands) == 1


@pytest.mark.parametrize("methods", ["eagle", "ngram:", "ngram:many"])
def test_a_method_that_is_none_is_refused(servers, serve, methods):
    code, _, err = serve("--methods", methods)
    assert code == 2 and err.startswith(f"spectra.bench: methods: '{methods}' ") and not servers.commands


def test_an_interpreter_that_is_none_is_named(tmp_path):
    with pytest.raises(SpectraError, match=r"^python: cannot run /nowhere/python \(No such file or directory\); name"):
        RunningServer(ServerOptions(python="/nowhere/python").command(), 8100, tmp_path / "log")


def test_what_starts_a_server():
    stores = [shipped("datastores") / name for name in ("code", "chat")]
    options = ServerOptions("python3", 99, "m", 4, tuple(stores), "--max-model-len 9 --x 'y z'")
    assert options.command("ngram", 6) == [
        *("python3", "-m", "spectra.serving", "--port", "99", "--method", "ngram", "--k", "6", "--model", "m"),
        *("--datastore", str(stores[0]), "--datastore", str(stores[1]), "--max-model-len", "9", "--x", "y z"),
    ]
    assert ServerOptions().command()[1:5] == ["-m", "spectra.serving", "--port", "8100"]
    assert "--method" not in ServerOptions().command() and Path(ServerOptions().python).name.startswith("python")
