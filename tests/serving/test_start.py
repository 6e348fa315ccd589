"""`python -m spectra.serving` before vLLM starts, with a vLLM that must not be imported; what `bench` asks of it."""

import asyncio
import json
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stores import build, rows, write_rows
from words import save_model

from spectra.bench.served.client import Server
from spectra.bench.served.load import each, load, markdown
from spectra.bench.tasks import Prompt
from spectra.cli.bench import main as bench
from spectra.cli.serving import main, server_environment
from spectra.serving.settings import ServingSettings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, a store for it, and a model with another vocabulary."""
    folder = tmp_path_factory.mktemp("serving")
    model = save_model(folder / "model")
    assert build(write_rows(folder / "corpus.jsonl", rows(40)), folder / "store", model, "--keep", "1000") == 0
    other = save_model(folder / "other")
    file = other / "tokenizer.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"w7"', '"v7"'), encoding="utf-8")
    return folder


@pytest.fixture
def vllm(tmp_path, monkeypatch):
    """A package of that name which must not be imported here."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").write_text("raise RuntimeError('vLLM was imported')")
    monkeypatch.syspath_prepend(tmp_path)


def start(*flags):
    return main([*map(str, flags), "--print"])


def test_flags_that_are_not_ours_go_to_vllm(place, vllm, capsys):
    store = place / "store"
    flags = ("--model", place / "model", "--datastore", store, "--k", 5, "--spectra-tokens", 77)
    assert start(*flags, "--tensor-parallel-size", 2, "--port=8000") == 0
    printed = capsys.readouterr()
    assert "method spectra" in printed.err and printed.err.count("\n") == 1
    command = shlex.split(printed.out)
    assert command[-3:] == ["--tensor-parallel-size", "2", "--port=8000"]
    speculative = json.loads(command[command.index("--speculative-config") + 1])
    assert speculative["method"] == "custom_class" and speculative["num_speculative_tokens"] == 5
    module, name = speculative["model"].rsplit(".", 1)
    assert hasattr(__import__(module, fromlist=[name]), name)
    settings = ServingSettings.of(json.loads(command[command.index("--additional-config") + 1]))
    assert settings.stores == (str(store),) and settings.tokens == 77 and len(settings.tokenizer) == 64


@pytest.mark.parametrize("named", [[], ["--model", "embedded"]])
def test_the_embedded_model_is_a_folder_for_vllm_also_where_it_is_named(place, vllm, capsys, monkeypatch, named):
    monkeypatch.setattr("spectra.target.embedded.embedded_folder", lambda: place / "model")
    assert start(*named, "--method", "plain") == 0
    assert str(place / "model") in shlex.split(capsys.readouterr().out)


@pytest.mark.parametrize(("method", "own"), [("plain", None), ("ngram", "ngram")])
def test_other_methods_are_vllms_own(place, vllm, capsys, method, own):
    assert start("--model", place / "model", "--method", method) == 0
    out = capsys.readouterr().out
    assert "additional-config" not in out
    assert (own is None) == ("speculative-config" not in out) and (own or "") in out


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        (["--k", "0"], "k:"),
        (["--k", "2000"], "k:"),
        (["--k", "60", "--model", "{model}"], None),
        (["--method", "eagle"], "method:"),
        (["--model", "{place}/nothing"], "model:"),
        (["--model", "{model}", "--datastore", "{place}/nothing"], "datastore:"),
        (["--model", "{model}", "--method", "ngram", "--datastore", "{place}/nothing"], "datastore:"),
        (["--model", "{other}", "--datastore", "{place}/store"], "datastore: store was built for the tokenizer"),
        (["--model", "{other}", "--datastore", "{place}/store"], "build one with the --model that is given here"),
        (["--model", "{model}", "--speculative-config", "{{}}"], "speculative-config:"),
        (["--model", "{model}", "--spectra-requests", "0"], "spectra_requests:"),
        (["--model", "{model}", "--method", "suffix"], "arctic_inference:"),
        (["--k", "many"], "'many' is not a whole number"),
    ],
)
def test_what_is_wrong_is_one_line(place, vllm, capsys, flags, field):
    known = {"place": str(place), "model": str(place / "model"), "other": str(place / "other")}
    try:
        code = start(*(flag.format(**known) for flag in flags))
    except SystemExit as stop:
        code = stop.code
    err = capsys.readouterr().err
    assert code == (0 if field is None else 2)
    assert err.count("\n") == 1 and (field or "") in err


def test_without_vllm_the_package_is_named(place, capsys):
    assert start("--model", place / "model") == 2
    assert "vllm: its package is missing here; pip install 'spectra-decoding[serve]'" in capsys.readouterr().err


def test_importing_the_proposer_loads_neither_vllm_nor_torch():
    code = "import sys, spectra.serving.vllm; print(sorted({'vllm', 'torch', 'transformers'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_vllm_finds_the_project():
    assert server_environment()["PYTHONPATH"].split(":")[0] == str(ROOT)


def serve(answer):
    """A server of one connection after another; `answer(path, body)` gives the parts of a chunked body, or raises."""

    async def handle(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length) or b"null")
        try:
            async for part in answer(head.split()[1], body):
                if part is None:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                else:
                    writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                await writer.drain()
            writer.write(b"0\r\n\r\n")
        except ConnectionError:
            answered.append("gone")
        writer.close()

    answered: list[str] = []
    return handle, answered


async def chatter(path, body):
    """Says "a b" slowly, the events cut in the middle; counts like vLLM."""
    yield None
    if path == "/metrics":
        yield b'# HELP x\nvllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 7.0\n'
        yield b'vllm:spec_decode_num_draft_tokens_total{engine="0"} 20.0\nvllm:spec_decode_num_draft_tokens_total 1\n'
        return
    for text in ("a", " b"):
        event = f"data: {json.dumps({'choices': [{'delta': {'content': text}}]})}\n\n".encode()
        yield event[:9]
        await asyncio.sleep(0.02)
        yield event[9:]
    yield f"data: {json.dumps({'choices': [], 'usage': {'completion_tokens': body['max_tokens']}})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def apart(function, *arguments):
    """In a thread of its own: the browser that other tests keep open has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def with_server(answer, work):
    async def run():
        handle, answered = serve(answer)
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await work(Server(port, "m")), answered

    return apart(asyncio.run, run())


def test_a_run_counts_tokens_times_and_the_servers_own_figures():
    prompts = [Prompt("mbpp", (f"Prompt {number}",)) for number in range(5)]
    row, _ = with_server(chatter, lambda server: load(server, prompts, 2, 6))
    assert row["tokens"] == 30 and len(row["requests"]) == 5 and row["drafts"] == 0
    assert all(request["text"] == "a b" and request["first"] > 0.015 for request in row["requests"])
    # both pauses of the server together: a busy machine may read the first piece late, and the second at once
    assert all(
        request["each"] >= 0 and 0.035 < request["first"] + 5 * request["each"] < 5 for request in row["requests"]
    )
    assert 0.1 < row["seconds"] < 5  # three rounds of two
    metrics, _ = with_server(chatter, lambda server: server.metrics())
    assert (
        metrics["vllm:spec_decode_num_draft_tokens_total"] == 21 and metrics["vllm:spec_decode_num_drafts_total"] == 7
    )


def test_a_request_that_is_left_closes_its_connection():
    left = asyncio.Event()

    async def forever(path, body):
        yield None
        try:
            while True:
                yield b"data: {}\n\n"
                await asyncio.sleep(0.01)
        finally:
            left.set()

    async def leave(server):
        assert await server.chat([], 5, leave=0.1) is None
        await asyncio.wait_for(left.wait(), 5)

    with_server(forever, leave)


def test_no_more_than_the_clients_are_under_way():
    under_way = []

    async def work(item):
        under_way.append(item)
        await asyncio.sleep(0.001)
        most.append(len(under_way))
        under_way.remove(item)
        return 2 * item

    most: list[int] = []
    assert apart(asyncio.run, each(list(range(9)), 3, work)) == [2 * item for item in range(9)]
    assert max(most) == 3


def row(method, clients, tokens, texts, **more):
    requests = [{"id": str(i), "tokens": 9, "first": 0.5, "each": 0.02, "text": text} for i, text in enumerate(texts)]
    return {"method": method, "clients": clients, "repeat": 0, "tokens": tokens, "seconds": 2.0, "requests": requests,
            "drafts": 0, "drafted": 0, "accepted": 0, "preemptions": 0, **more}  # fmt: skip


def test_the_table_compares_with_plain_and_with_the_faster_ngram():
    rows = [
        row("plain", 1, 100, "ab"),
        row("ngram:5", 1, 120, "ax"),
        row("ngram:8", 1, 110, "ab"),
        row("spectra", 1, 180, "ab", drafts=10, drafted=40, accepted=20),
        row("plain", 4, 200, "xb"),
    ]
    lines = markdown(rows, ["plain", "ngram:5", "ngram:8", "suffix", "spectra"]).splitlines()
    spectra = next(line for line in lines if line.startswith("| 1 | spectra"))
    cells = [cell.strip() for cell in spectra.split("|")][1:-1]
    assert cells == ["1", "spectra", "90.0", "1.80", "1.50", "500, 500", "20, 20", "4.0", "50%", "3.00", "2 of 2"]
    assert next(line for line in lines if line.startswith("| 4 | plain")).endswith("| 1 of 2 |")
    assert any(line.startswith("| 1 | suffix | not measured") for line in lines)
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(
    ("flags", "field"),
    [(["--methods", "eagle"], "methods:"), (["--concurrency", "1,x"], "concurrency:"), (["--limit", "0"], "limit:")],
)
def test_a_bad_benchmark_is_refused_before_a_server_starts(tmp_path, capsys, flags, field):
    (tmp_path / "mt_bench_question.jsonl").write_text('{"turns": ["Hi"], "category": "a"}\n')
    more = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--tasks", "mt-bench"]
    assert bench(["serve", *more, *flags]) == 2
    assert field in capsys.readouterr().err


def test_a_server_that_does_not_start_says_why(tmp_path, capsys):
    (tmp_path / "mt_bench_question.jsonl").write_text('{"turns": ["Hi"], "category": "a"}\n')
    more = ["--data", str(tmp_path), "--out", str(tmp_path / "out"), "--tasks", "mt-bench", "--python", sys.executable]
    assert apart(bench, ["serve", *more, "--flags", "--method eagle"]) == 2
    assert "it ended at once" in (err := capsys.readouterr().err) and "'eagle' is unknown" in err
    assert bench(["serve", *more[:3], str(tmp_path / "mute"), *more[4:6], "--python", "/bin/false"]) == 2
    assert "it ended at once: no word; see " in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--device-map", "--weights=int8", "--numerics", "--draft"])
def test_model_options_of_other_commands_name_what_vllm_calls_them(flag, capsys):
    assert main([flag, "auto"]) == 2
    err = capsys.readouterr().err
    name = flag.removeprefix("--").split("=")[0].replace("-", "_")
    assert err.startswith(f"spectra.serving: {name}: vLLM has a way of its own; ") and err.count("\n") == 1
