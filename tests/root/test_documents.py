"""README and docs: every command can be typed, every block of Python runs, every link leads somewhere."""

import json
import re
import shlex
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from inspect import getdoc
from itertools import pairwise
from pkgutil import resolve_name
from types import FunctionType

import pytest
import torch
from drafting import decode_by
from examples import FENCED, OTHERS, PAGES, REDIRECTED, ROOT, blocks, commands, name_of, text_of
from fakes_engine import FakeEngine
from programs import PARSERS
from tiny import make, target_of

import app
import spectra
from spectra.methods.preset import Preset, Setup

LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"`(?:python )?((?:assets|docs|spectra|tests|visual)/[\w./-]+\w)/?(?:`| -k (\"[\w ]+\"|\w+))")
INSTALLED = {"tests/js/node_modules"}
"""What is there once `make lint` has run."""
PYTHON = {
    "docs/drafter.md", "docs/page.md", "docs/python.md", "docs/serving.md", "docs/tour.md",
    "assets/hub/README.md",  # tests/root/test_hub.py
}  # fmt: skip
SHOWN = {
    ("docs/architecture.md", "mermaid"),  # tests/root/test_architecture.py
    ("docs/benchmarks/gpu-rehearsal.md", "text"),  # what a command printed
    ("docs/drafter.md", "text"),
    ("docs/guides.md", "text"),  # tests/root/test_real.py
    ("docs/measuring.md", "json"),  # tests/bench/test_paper.py
}
"""Blocks that are neither Python nor command lines, and where each is read."""
FENCE = re.compile(r"^.*?(?:```|~~~)(.*)", re.MULTILINE)


def program(arguments):
    """`python ARGUMENTS` as far as it can be checked without running it."""
    if arguments[0] != "-m":
        assert (ROOT / arguments[0]).is_file()
        if arguments[0] == "app.py":
            app.build_parser().parse_args(arguments[1:])
        return
    name, arguments = arguments[1], arguments[2:]
    if name == "pytest":
        assert all((ROOT / one).exists() or one.startswith("--") for one in arguments)
    elif name == "spectra.serving":  # flags that are not its own go to vLLM
        PARSERS[name]().parse_known_args(arguments)
    else:
        try:
            PARSERS[name]().parse_args(arguments)
        except SystemExit as end:  # --version ends well
            assert not end.code


@pytest.mark.parametrize("command", commands(), ids=str)
def test_commands_can_be_typed(command):
    words = command.words
    words = words[: next((at for at, word in enumerate(words) if word in REDIRECTED), len(words))]
    match words:
        case ["python" | "python3", *arguments]:
            program(arguments)
        case ["spectra", *arguments]:
            program(["-m", "spectra", *arguments])
        case ["spectra-demo", *arguments]:
            program(["app.py", *arguments])
        case ["accelerate", "launch", *arguments]:
            program(arguments[arguments.index("-m") :])
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        case ["sh", script, *_]:
            assert script == "out/carry/setup.sh"  # what `make carry` writes
        case ["pip", "install", *arguments]:
            files = [name for flag, name in pairwise(arguments) if flag == "-r"]
            assert all((ROOT / name).is_file() for name in files)
        case _:
            assert words[0] == "echo", f"no test knows how to check {shlex.join(words)}"


MADE = re.compile(r"`(?:[A-Z_]+=\S+ )*make ([\w-]+)`")
COMMANDS_OF = re.compile(r"`(?:python -m )?(spectra(?:\.[a-z]+)?) ([a-z][a-z-]*)\b[^`]*`")
MODULES_OF = re.compile(r"`python -m (spectra[.\w]*|visual[.\w]*)")


def subcommands(name):
    return {one for action in PARSERS[name]()._actions if isinstance(action.choices, dict) for one in action.choices}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=name_of)
def test_what_sentences_name_without_arguments_is_there(page):
    """Targets of make, programs and their commands."""
    text = " ".join(FENCED.sub("", text_of(page)).split())
    targets = re.findall(r"^([\w-]+):", text_of(ROOT / "Makefile"), re.MULTILINE)
    assert not set(MADE.findall(text)) - set(targets)
    assert not set(MODULES_OF.findall(text)) - {*PARSERS, "spectra.X"}
    asked = {(name, command) for name, command in COMMANDS_OF.findall(text) if subcommands(name)}
    assert not [one for one in asked if one[1] not in subcommands(one[0])]


def test_the_commands_are_found():
    found = Counter(command.words[0] for command in commands())
    assert found["python"] > 60 and found["make"] >= 6
    said = {command.line for command in commands()}
    assert said >= {"spectra-demo --host 0.0.0.0", "PYTHONPATH=. python tests/tools/hidden_match.py RECORDING"}


HOSTS = {"HOME", "PYTHONPATH", "SPACE_ID", "SPACES_ZERO_GPU", "GRADIO_ANALYTICS_ENABLED"}
"""Variables that a user does not set: a Space or the system does, or a process for those that it starts."""


def test_every_variable_is_on_the_page_of_the_command_line():
    code = "".join(text_of(file) for top in ("spectra", "visual") for file in (ROOT / top).rglob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', code + text_of(ROOT / "app.py")))
    assert read > HOSTS
    makefile = text_of(ROOT / "Makefile")
    named = set(re.findall(r"\$[({](?:(?:if|or) \$\()?([A-Z_]+)\b", makefile))
    read |= named - set(re.findall(r"^(\w+) := ", makefile, re.MULTILINE))
    page = text_of(ROOT / "docs" / "command-line.md")
    assert [name for name in sorted(read - HOSTS) if f"`{name}`" not in page] == []


def test_the_package_is_installed_with_extras_that_it_has():
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    asked = re.findall(
        r"pip install (?:-\S+ )*'?([\w-]*spectra[\w-]*|\.)(?:\[([\w,-]+)\])?", "".join(map(text_of, [*PAGES, *OTHERS]))
    )
    assert {name for name, _ in asked} == {project["name"], "."}  # the latter in a checkout
    assert {one for _, extras in asked for one in extras.split(",") if one} <= project["optional-dependencies"].keys()


def test_every_page_with_python_has_a_test():
    assert {name_of(page) for page in [*PAGES, *OTHERS] if blocks(page, "python")} == PYTHON


def test_every_block_is_of_a_kind_that_a_test_reads():
    """One of `bash`, of `py` or in a list would be looked at by none."""
    kinds = set()
    for page in [*PAGES, *OTHERS]:
        found = [kind for kind, _ in FENCED.findall(text_of(page))]
        assert FENCE.findall(text_of(page)) == [each for kind in found for each in (kind, "")], page
        kinds |= {(name_of(page), kind) for kind in found}
    assert {(page, kind) for page, kind in kinds if kind not in ("sh", "python")} == SHOWN


def test_the_reference_has_everything_that_is_exported():
    """Each by the place where it is defined; what stands there is what `import spectra` gives."""
    text = text_of(ROOT / "docs" / "reference.md")
    shown = {name: resolve_name(name) for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    assert {name.rpartition(".")[2]: thing for name, thing in shown.items()} == {
        name: getattr(spectra, name) for name in spectra.__all__ if name != "METHODS"
    }
    assert "`METHODS`" in text
    assert not [name for name, thing in shown.items() if not getdoc(thing)]


def test_the_reference_has_every_function_of_what_is_exported():
    """The site leaves out what has no docstring."""
    classes = [thing for thing in (getattr(spectra, name) for name in spectra.__all__) if isinstance(thing, type)]
    own = {f"{one.__name__}.{name}": thing for one in classes for name, thing in vars(one).items() if name[0] != "_"}
    members = {name: thing for name, thing in own.items() if isinstance(thing, FunctionType | classmethod | property)}
    assert "Drafter.begin" in members and not [name for name, thing in members.items() if not thing.__doc__]


def anchors(page):
    """Of every title, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", FENCED.sub("", text_of(page)), re.MULTILINE)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title) for title in titles)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=name_of)
def test_files_and_tests_that_are_named_are_there(page):
    for path, asked in NAMED.findall(text_of(page)):
        assert (ROOT / path).exists() or path in INSTALLED, path
        for word in asked.strip('"').split(" or ") if asked else ():
            assert re.search(rf"def test_\w*{word}", text_of(ROOT / path)), f"{path} -k {word}"


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=name_of)
def test_links_lead_somewhere(page):
    for link in LINK.findall(text_of(page)):
        path, _, anchor = link.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_site_has_every_page_and_every_file_of_docs_is_linked():
    docs = ROOT / "docs"
    pages = [str(page.relative_to(docs)) for page in PAGES if docs in page.parents]
    assert sorted(re.findall(r"^ +- .*: (\S+\.md)$", text_of(ROOT / "mkdocs.yml"), re.MULTILINE)) == sorted(pages)
    linked = {(page.parent / link).resolve() for page in PAGES for link in LINK.findall(text_of(page))}
    others = [path for path in docs.rglob("*.*") if path.suffix not in (".md", ".py", ".pyc")]
    assert others and not [name_of(path) for path in others if path not in linked]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_titles_are_titles_on_the_site_too(page):
    """GitHub takes one that follows a table or a paragraph at once; the site reads it as a part of that."""
    lines = FENCED.sub("", text_of(page)).splitlines()
    assert not [line for before, line in pairwise(lines) if re.match("#{1,6} ", line) and before.strip()]


def run(name, replace=()):
    """The blocks of a page, one after the other in one namespace; replace: pairs of texts."""
    namespace = {"__name__": "__main__"}
    for block in blocks(ROOT / name, "python"):
        for old, new in replace:
            assert old in block
            block = block.replace(old, new)
        exec(compile(block, name, "exec"), namespace)


@pytest.fixture
def loaded(smollm, monkeypatch):
    """`load_target()` gives the model that is loaded already."""
    monkeypatch.setattr(spectra, "load_target", lambda: smollm, raising=False)
    return smollm


@pytest.mark.real
def test_the_blocks_of_python_md(loaded, capsys):
    run("docs/python.md")
    said = capsys.readouterr().out
    assert "tau " in said and "tokens of the prompt were in the cache, 1 answers before" in said


@pytest.mark.real
def test_the_blocks_of_tour_md(loaded, capsys):
    run("docs/tour.md")
    assert "'model'" in capsys.readouterr().out


@pytest.mark.real
def test_a_drafter_in_25_lines(loaded, capsys):
    run("docs/drafter.md")
    said = capsys.readouterr().out.splitlines()
    assert any(line.endswith("['pairs', 'model']") for line in said), "docs/drafter.md tells of such a line"
    (block,) = blocks(ROOT / "docs/drafter.md", "python")
    drafter = block[block.index("PAIRS =") : block.index("target =")]
    assert len([line for line in block.splitlines() if line.strip()]) <= 30 and drafter.count("\n") <= 25


def test_the_drafter_is_offered_by_one_line(monkeypatch):
    """The line and the functions that docs/drafter.md shows make a preset like any other, in one's own program too."""
    text = text_of(ROOT / "docs/drafter.md")
    (block,) = blocks(ROOT / "docs/drafter.md", "python")
    namespace = {"Preset": Preset}
    exec(block[: block.index("target =")], namespace)
    (function,) = blocks(ROOT / "docs/drafter.md", "text")
    (line,) = re.findall(r'^    ("pairs": Preset.*),$', text, re.MULTILINE)
    exec(f"{function}\npresets = {{{line}}}", namespace)
    model = make("llama")
    target = target_of(model)
    pairs = namespace["presets"]["pairs"].build(Setup("pairs", target))
    fewer = namespace["presets"]["pairs"].build(Setup("pairs", target, nodes=2))
    assert (pairs.max_nodes, fewer.max_nodes) == (8, 2)
    plain = spectra.make_method("autoregressive", target)
    one, other = (
        [token for step in decode_by(target, [3, 7, 3, 7], method, limits=spectra.Limits(20)) for token in step.tokens]
        for method in (pairs, plain)
    )
    assert one == other
    monkeypatch.setitem(spectra.METHODS, "pairs", namespace["presets"]["pairs"])
    asked = {"max_new_tokens": 20, "custom_generate": spectra.generate, "method": "pairs"}
    assert model.generate(torch.tensor([[3, 7, 3, 7]]), **asked)[0].tolist() == [3, 7, 3, 7, *one]


def test_the_drafter_tells_what_it_learned():
    """By the function that docs/drafter.md shows: the step view has its figures."""
    (block,) = blocks(ROOT / "docs/drafter.md", "python")
    (function,) = re.findall(r"`(def held\(self\): .*?)`", text_of(ROOT / "docs/drafter.md"))
    body = block[: block.index("target =")]
    namespace = {}
    exec(f"{body.rstrip()}\n\n    {function}\n", namespace)
    method = spectra.Method("pairs", [namespace["Pairs"]()], spectra.FixedBudget(8), max_nodes=8)
    first, *_ = decode_by(target_of(make("llama")), [3, 7, 3, 7], method, limits=spectra.Limits(4))
    assert first.held == {"pairs": 2}


@pytest.fixture
def page_url() -> Iterator[str]:
    from browsing import serve

    page, url = serve(FakeEngine())
    yield url.rstrip("/")
    page.close()


def test_the_endpoint_of_the_page_is_asked_as_page_md_says(page_url, capsys):
    """The server comes before capsys: what configures logging anew may close a stderr that is not today's."""
    run("docs/page.md", [("http://127.0.0.1:7860", page_url)])
    assert re.search(r"^method 64 True$", capsys.readouterr().out, re.MULTILINE)


class Reply(BaseHTTPRequestHandler):
    """An OpenAI-compatible server as far as docs/serving.md asks one."""

    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        assert self.path == "/v1/models"
        self.answer({"data": [{"id": "Served-1B"}]})

    def do_POST(self):
        assert self.path == "/v1/chat/completions"
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(
            {"choices": [{"message": {"content": f"{asked['model']} heard {asked['messages'][0]['content']}"}}]}
        )

    def log_message(self, *_):
        pass


@contextmanager
def openai_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reply)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_server_is_asked_as_serving_md_says(capsys):
    with openai_server() as url:
        run("docs/serving.md", [("http://127.0.0.1:8000", url)])
    assert capsys.readouterr().out == "Served-1B heard Name three rivers.\n"
