"""The paper's tables as one command: what is run, going on where it stopped, and the paper's figures beside ours."""

import json

import pytest
from benched import loaded
from examples import ROOT, blocks

from spectra.bench.paper import run
from spectra.bench.paper.figures import COLUMNS, read_figures
from spectra.bench.paper.run import LENGTHS, MODELS, PaperOptions, hub_id
from spectra.bench.paper.tables import ABLATIONS, COMPARED, TABLE_2, paper_tables
from spectra.bench.run.answers import AnswerOptions
from spectra.bench.run.rows import ROWS, read_rows
from spectra.bench.tasks import PromptOptions
from spectra.cli.bench import main
from spectra.errors import SpectraError
from spectra.methods.presets import METHODS, PLAIN
from spectra.service.loading import ModelOptions

CODE = {"humaneval", "mbpp", "classeval"}
SHORT = ("anpd", "spectra-paper-core", "spectra-paper-core-no-forward", "spectra-paper")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Two prompts of chat, one of maths and one of code."""
    place = tmp_path_factory.mktemp("data")
    turns = [{"category": "qa", "turns": ["w5 w6 w5", "w8"]}, {"category": "qa", "turns": ["w7"]}]
    (place / "mt_bench_question.jsonl").write_text("".join(json.dumps(row) + "\n" for row in turns))
    (place / "gsm8k_test.jsonl").write_text('{"question": "w9 w9 w4"}\n')
    (place / "mbpp_test.jsonl").write_text('{"text": "w3 w4 w3"}\n')
    (place / "cnndm.jsonl").write_text('{"article": "w3 w4", "highlights": "w9"}\n')
    return place


@pytest.fixture
def paper(data, tmp_path, models, capsys):
    """Run the command on a tiny model; (exit code, stdout, stderr)."""

    def go(*more):
        models.setdefault(ModelOptions(), loaded())
        code = main(["paper", "--data", str(data), "--out", str(tmp_path / "out"), *more])
        said = capsys.readouterr()
        return code, said.out, said.err

    yield go
    models.pop(ModelOptions(), None)


def figures_file(place, models, **changes):
    data = {"format": "spectra-paper-figures", "version": 1, "source": "a source", "models": models, **changes}
    (place / "figures.json").write_text(json.dumps(data))
    return place / "figures.json"


def cells(text, heading, row):
    """The cells of a row in the table below a heading, by column."""
    lines = text.partition(f"## {heading}")[2].partition("\n## ")[0].splitlines()
    head, own = (next(line for line in lines if line.startswith(f"| {name} |")) for name in ("method", row))
    return {n.strip(): c.strip() for n, c in zip(head.split("|")[2:-1], own.split("|")[2:-1], strict=True)}


class TestPreset:
    def test_tasks_lengths_and_methods(self, paper, tmp_path, monkeypatch):
        ran = []
        monkeypatch.setattr(run, "run_methods", lambda *given: ran.append(given) or [])
        monkeypatch.setattr(run, "merge", lambda folders: {})
        monkeypatch.setattr(run, "paper_tables", lambda *given: "")
        assert paper()[0] == 0
        assert [[prompt.task for prompt in one[1]] for one in ran] == [["mbpp"], ["mt-bench", "mt-bench", "gsm8k"]]
        without_store = {"rest", "lookahead-rest", *(name for name in METHODS if "retrieval" in name), "spectra-paper"}
        for (_, _, methods, out, answers), length in zip(ran, (512, 1024), strict=True):
            assert methods == [method for method in (*COMPARED, *ABLATIONS) if method not in without_store]
            assert out.name == str(length) and answers == AnswerOptions(length, temperature=0.0, seed=0)

    def test_every_task_has_the_length_of_its_kind(self):
        assert {task: length for task, length in LENGTHS.items() if length == 512} == dict.fromkeys(CODE, 512)
        assert set(LENGTHS.values()) == {512, 1024}
        assert set(run.TASKS) <= set(LENGTHS) and len(run.TASKS) == 5

    def test_methods_and_ablations_are_presets_and_stand_in_a_table(self):
        assert {*COMPARED, *ABLATIONS, *TABLE_2} <= set(METHODS)
        assert set(ABLATIONS) <= set(TABLE_2) <= {*COMPARED, *ABLATIONS}

    def test_a_model_by_its_short_name(self, paper, models):
        hub = ModelOptions(model="meta-llama/Llama-2-7b-chat-hf")
        models[hub] = loaded()
        code, out, _ = paper("--model", "Llama-2-7B", "--tasks", "gsm8k", "--max-new-tokens", "3", "--methods", "anpd")
        del models[hub]
        assert code == 0 and "| anpd |" in out

    def test_what_names_a_model(self, tmp_path, monkeypatch):
        assert all(hub_id(name) == full and full.count("/") == 1 for name, full in MODELS.items())
        monkeypatch.chdir(tmp_path)
        (tmp_path / "vicuna-7b").mkdir()
        for name in (None, "embedded", "some/model", "vicuna-7b"):
            assert hub_id(name) == name


class TestRun:
    def test_tables_beside_the_papers_figures(self, paper, tmp_path):
        own = {"gsm8k": {"anpd": {"speedup": 1.5, "tau": 2.25, "Mac-TP": 40}, "rest": {"Mic-TP": 31.125}}}
        file = figures_file(tmp_path, {"other/model": {}, "hub/tiny": own}, stated=["a word"])
        more = ("--max-new-tokens", "9", "--methods", ",".join((*SHORT, "rest")), "--figures", str(file))
        code, out, _ = paper(*more)
        assert code == 0
        assert (tmp_path / "out" / "paper.md").read_text() == out
        assert "9 of 9" not in out and "| anpd |" in (tmp_path / "out" / "details.md").read_text()
        first, second, fourth = "Table 1", "Table 2", "Table 4"
        ours = cells(out, first, "anpd")
        assert set(ours) == {f"{task} {c}" for task in ("mt-bench", "gsm8k", "mbpp", "all") for c in ("speedup", "tau")}
        assert all(float(cell) > 0 for cell in ours.values())
        assert cells(out, first, PLAIN)["all speedup"] == "1.00"
        theirs = cells(out, first, "paper: anpd")
        assert {name: cell for name, cell in theirs.items() if cell} == {"gsm8k speedup": "1.50", "gsm8k tau": "2.25"}
        assert cells(out, fourth, "paper: anpd")["gsm8k Mac-TP"] == "40.00"
        assert cells(out, fourth, "paper: rest")["gsm8k Mic-TP"] == "31.12"
        assert not any(cells(out, fourth, "rest").values())
        assert float(cells(out, second, "spectra-paper-core-no-forward")["all tau"]) >= 1
        assert "no-forward" not in out.partition("## Table 2")[0]
        assert "The paper's figures: a source." in out and "only some figures of tiny are" in out and "a word" in out
        assert "- rest: datastore: " in out and "- spectra-paper: datastore: " in out
        assert "- classeval: its file is not there" in out
        rows = read_rows(tmp_path / "out" / "9" / ROWS)
        assert all(row["identical"] for row in rows) and len(rows) == 4 * 4

    def test_without_a_figure_cells_are_empty_and_a_note_says_so(self, paper):
        _, out, _ = paper("--max-new-tokens", "4", "--methods", "anpd", "--tasks", "cnndm", "--limit", "1")
        assert not any(cells(out, "Table 1", "paper: anpd").values())
        assert "no figure of tiny is in the file of figures; `--figures FILE` takes another." in out
        assert "## Table 2" not in out and "Left out" not in out
        assert "new tokens a turn at most: cnndm 1 (4)." in out

    def test_a_killed_run_goes_on_without_a_lost_or_doubled_row(self, paper, tmp_path):
        more = ("--max-new-tokens", "5", "--methods", "anpd", "--tasks", "mt-bench,mbpp")
        paper(*more)
        file = tmp_path / "out" / "5" / ROWS
        whole = file.read_text()
        file.write_text(whole[: whole.index("\n") + 30])  # in the middle of a row
        kept = read_rows(file)
        assert paper(*more)[0] == 0
        again = read_rows(file)
        assert len(kept) == 1 and again[:1] == kept
        names = [(row["task"], row["id"], row["method"]) for row in again]
        assert len(names) == len(set(names)) == len(whole.splitlines()) == 6
        finished = file.read_bytes()
        assert paper(*more)[0] == 0
        assert file.read_bytes() == finished

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (["--model", "llama-9"], "model: 'llama-9' is unknown; choose from llama-2-7b, "),
            (["--methods", "anpb"], "methods: 'anpb' is unknown"),
            (["--methods", "hf-generate"], "methods: 'hf-generate' is unknown"),
            (["--tasks", "xsum"], "tasks: 'xsum' is unknown; choose from mt-bench, gsm8k, humaneval, mbpp, classeval"),
            (["--max-new-tokens", "0"], "max_new_tokens: 0 is out of range"),
            (["--limit", "0"], "limit: 0 is out of range"),
            (["--figures", "none.json"], "figures: none.json: [Errno 2] No such file"),
            (["--tasks", "humaneval"], "data: no HumanEval.jsonl.gz in"),
        ],
    )
    def test_bad_input_is_one_line_before_a_model_is_loaded(self, paper, tmp_path, monkeypatch, more, said):
        monkeypatch.setattr(ModelOptions, "load", lambda options: pytest.fail("it was loaded first"))
        code, out, err = paper(*more)
        assert (code, out) == (2, "")
        assert err.startswith(f"spectra.bench: {said}") and err.count("\n") == 1
        assert not (tmp_path / "out").exists()


class TestFigures:
    def test_what_comes_with_the_project_has_a_source_and_only_known_names(self):
        figures = read_figures(None, LENGTHS)
        assert "ACL 2025" in figures.source and len(figures.stated) == 2
        assert all(hub_id(model) in MODELS.values() for model in figures.models)

    def test_a_file_of_the_form_that_the_page_shows_is_read(self, tmp_path):
        (form,) = blocks(ROOT / "docs/measuring.md", "json")
        for word, own in (("HUB_ID", "hub/tiny"), ("TASK", "gsm8k"), ("METHOD", "anpd"), (": 0", ": 2.5")):
            assert word in form
            form = form.replace(word, own)
        (tmp_path / "figures.json").write_text(form)
        figures = read_figures(tmp_path / "figures.json", LENGTHS)
        assert figures.of("tiny") == {("gsm8k", "anpd", column): 2.5 for column in COLUMNS} and figures.stated

    def test_a_model_is_known_by_its_last_part(self, tmp_path):
        cells = {"all": {"anpd": {"tau": 2}}}
        figures = read_figures(figures_file(tmp_path, {"meta-llama/Llama-2-7b-chat-hf": cells}), LENGTHS)
        for name in ("meta-llama/Llama-2-7b-chat-hf", "/models/Llama-2-7b-chat-hf", "Llama-2-7b-chat-hf"):
            assert figures.of(name) == {("all", "anpd", "tau"): 2.0}
        assert figures.of("Llama-2-13b-chat-hf") == {}

    def test_nothing_is_said_to_be_missing_where_nothing_is(self, tmp_path):
        cell = {"speedup": 1, "tau": 1, "Mac-TP": 30, "Mic-TP": 29.5}
        own = {task: {PLAIN: cell, "anpd": cell} for task in ("gsm8k", "all")}
        row = {
            "task": "gsm8k", "id": "1", "method": PLAIN, "repeat": 0, "seconds": 2.0, "new_tokens": 8, "steps": 8,
            "tau": 1.0, "mac_tp": 4.5, "identical": True, "distinct4": 1.0, "sources": {"model": 8},
        }  # fmt: skip
        rows = [row, row | {"method": "anpd", "steps": 4, "mac_tp": 9.0}]
        figures = read_figures(figures_file(tmp_path, {"tiny": own}), LENGTHS)
        text = paper_tables(rows, ["anpd"], "tiny", figures)
        assert "Empty cells" not in text and "| anpd | 2.00 | 2.00 | 2.00 | 2.00 |" in text
        assert "| paper: anpd | 30.00 | 29.50 | 30.00 | 29.50 |" in text

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"format": "other"}, "it is no spectra-paper-figures of version 1"),
            ({"version": 2}, "it is no spectra-paper-figures of version 1"),
            ({"source": " "}, "source is no text"),
            ({"stated": "one"}, "stated is no list"),
            ({"stated": [1]}, "stated is no text"),
            ({"models": []}, "models is no JSON object"),
            ({"models": {"a/b": 3}}, "a/b is no JSON object"),
            ({"models": {"a/b": {"chess": {}}}}, "a/b: 'chess' is no task"),
            ({"models": {"a/b": {"gsm8k": {"anpb": {}}}}}, "a/b, gsm8k: 'anpb' is no method"),
            ({"models": {"a/b": {"gsm8k": {"anpd": {"mac": 1}}}}}, "a/b, gsm8k, anpd: 'mac' is no column"),
            *(
                ({"models": {"a/b": {"all": {"anpd": {"tau": bad}}}}}, "a/b, all, anpd, tau is no number above 0")
                for bad in (0, -1, True, "2", None, float("nan"), float("inf"), 10**400)
            ),
        ],
    )
    def test_what_is_no_file_of_figures_is_refused(self, tmp_path, changes, said):
        file = figures_file(tmp_path, **{"models": {}, **changes})
        with pytest.raises(SpectraError) as refused:
            PaperOptions(PromptOptions(tmp_path), ModelOptions(), tmp_path, figures=file)
        assert refused.value.field == "figures" and said in str(refused.value)
        for text in ("", "[", "[" * 9999, "\x00"):
            file.write_text(text)
            with pytest.raises(SpectraError, match=r"^figures: "):
                read_figures(file, LENGTHS)
