"""Benchmark tables and figures, by hand."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spectra.bench.report.charts import acceptance_by_source, mean_cumulative, tau_by_method, write_figures
from spectra.bench.report.merge import merge, report
from spectra.bench.report.tables import markdown
from spectra.bench.run.rows import ROWS, Rows
from spectra.cli.bench import main
from spectra.errors import SpectraError


def row(method, task="a", prompt="x", *, seconds=1.0, tokens=10, steps=None, repeat=0, processor="cpu", **changes):
    measured = {"steps": steps, "tau": tokens / steps, "mac_tp": tokens / seconds * 2, "queries": 3.0} if steps else {}
    return {
        "task": task, "id": prompt, "category": "", "method": method, "repeat": repeat, "seconds": seconds,
        "new_tokens": tokens, "steps": None, "tau": None, "mac_tp": None, "queries": None, "identical": True,
        "distinct4": 0.5,
        "sources": {"model": steps or 0, "ngram": tokens - (steps or 0)}, "offered": {"ngram": 8},
        "acceptance": {"ngram": 0.25}, "step_tokens": [1, 2], "processor": processor,
    } | measured | changes  # fmt: skip


ROWS_BY_HAND = [
    row("autoregressive", steps=10),
    row("anpd", seconds=0.5, steps=5),
    row("hf-generate", seconds=0.8, identical=False),
    row("autoregressive", "b", "y", steps=10, seconds=2.0),
    row("anpd", "b", "y", steps=4, seconds=9.0),
    row("anpd", "b", "y", steps=4, seconds=1.0, repeat=1),
    row("anpd", "b", "y", steps=4, seconds=0.5, repeat=2),
]


class TestTables:
    def test_layouts_of_the_paper(self):
        text = markdown(ROWS_BY_HAND).splitlines()
        assert "| method | a speedup | a tau | b speedup | b tau | all speedup | all tau |" in text
        assert "| autoregressive | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in text
        assert "| anpd | 2.00 | 2.00 | 2.00 | 2.50 | 2.00 | 2.22 |" in text  # b: the medians, 1 s and 20 tokens/s
        assert "| hf-generate |  |  |  |  |  |  |" in text
        assert "| anpd | 40.0 | 20.0 | 2.00 | 20.0 | 10.0 | 2.00 | 30.0 | 13.3 | 2.00 |" in text
        assert "| hf-generate |  | 12.5 | 1.25 |  |  |  |  | 12.5 | 1.25 |" in text  # all: over what both ran

    def test_all_that_is_known_of_a_task(self):
        text = markdown(ROWS_BY_HAND)
        assert "## b (1 prompts)" in text
        anpd = "| anpd | 20.0 | 1.60 | 2.00 | 2.00 | 2.00 | 3.0 | 40.0 | 1 of 1 | 0.50 | model 50%, ngram 50% |"
        assert anpd in text.splitlines()
        assert "| hf-generate | 12.5 | 1.00 | 1.25 | 1.25 |  |  |  | 0 of 1 | 0.50 |  |" in text.splitlines()
        uncompared = markdown([row("autoregressive", steps=9), row("hf-generate", identical=None)])
        assert "| hf-generate | 10.0 | 1.00 | 1.00 | 1.00 |  |  |  |  | 0.50 |  |" in uncompared.splitlines()

    def test_methods_of_different_prompts_are_compared_on_the_common_ones(self):
        rows = [row("autoregressive", prompt=prompt, steps=10, seconds=s) for prompt, s in (("x", 1.0), ("y", 9.0))]
        rows += [row("anpd", steps=5, seconds=0.5), row("lookahead", prompt="y", steps=5, seconds=3.0)]
        text = markdown(rows)
        assert "| anpd | 2.00 | 2.00 | 2.00 | 2.00 |" in text.splitlines()
        assert "| lookahead |  | 3.3 |" not in text
        assert "| lookahead | 6.7 | 3.3 | 3.00 | 6.7 | 3.3 | 3.00 |" in text.splitlines()
        assert text.count("Prompts: autoregressive 2, anpd 1, lookahead 1. A ratio is over those") == 3
        assert "Prompts: " not in markdown(rows[:2])

    def test_categories_of_a_task(self):
        kinds = [("q", "x"), ("q", "y"), ("r", "z")]
        rows = [row("autoregressive", prompt=prompt, category=kind, steps=10) for kind, prompt in kinds]
        rows += [row("anpd", prompt=prompt, category=kind, steps=5, seconds=0.5) for kind, prompt in kinds]
        assert "| anpd | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 | 2.00 |" in (text := markdown(rows).splitlines())
        assert "| method | q speedup | q tau | r speedup | r tau | all speedup | all tau |" in text
        assert "by category" not in markdown(rows[:2])

    def test_runs_of_two_devices_side_by_side(self, tmp_path):
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            rows = [row("autoregressive", steps=9, processor=name), row("anpd", seconds=0.25, steps=5, processor=name)]
            (tmp_path / name / ROWS).write_text("".join(json.dumps(r) + "\n" for r in rows))
        sections = merge([tmp_path / "one", tmp_path / "two"])
        assert list(sections) == ["one", "two"]
        text = report(sections).splitlines()
        assert "| method | one speedup | one tau | two speedup | two tau |" in text
        assert "| anpd | 4.00 | 2.00 | 4.00 | 2.00 |" in text
        assert "# two" in text
        with pytest.raises(SpectraError, match=r"^folders: .*one and .*one hold the same rows"):
            merge([tmp_path / "one", tmp_path / "one"])
        with pytest.raises(SpectraError, match=r"^folders: no rows in"):
            merge([tmp_path])


class TestMerge:
    @staticmethod
    def saved(folder, *rows):
        folder.mkdir()
        (folder / ROWS).write_text("".join(json.dumps(one) + "\n" for one in rows))
        return folder

    def test_plain_decoding_of_two_runs_of_a_setting_is_one_with_repeats(self, tmp_path):
        plain = [row("autoregressive", steps=10, seconds=seconds) for seconds in (1.0, 3.0)]
        one = self.saved(tmp_path / "one", plain[0], row("anpd", steps=5, seconds=0.5))
        two = self.saved(tmp_path / "two", plain[1], row("lookahead", steps=5, seconds=0.25))
        text = report(merge([one, two])).splitlines()
        assert text[0] == "In several of the folders, counted as repeats: autoregressive."
        assert "| autoregressive | 13.3 | 5.0 | 1.00 | 13.3 | 5.0 | 1.00 |" in text  # Mac-TP of 20 and 6.7; 2 s
        assert any(line.startswith("| anpd | 40.0 | 20.0 | 4.00 |") for line in text)
        assert "repeats" not in report(merge([one]))

    @pytest.mark.parametrize(
        "changes",
        [{"seed": 1}, {"datastores": ["a"]}, {"cost": [[1, 1.0]]}, {"drafts": ["d"]}, {"assistant": "m"}],
    )
    def test_runs_of_other_settings_are_told_apart(self, tmp_path, changes):
        one = self.saved(
            tmp_path / "one", row("autoregressive", steps=10, drafts=["c"] if "drafts" in changes else None)
        )
        two = self.saved(tmp_path / "two", row("autoregressive", steps=10, **changes))
        assert [name.split()[0] for name in merge([one, two])] == [*changes] * 2

    def test_a_run_that_used_no_draft_model_joins_the_one_that_did(self, tmp_path):
        one = self.saved(tmp_path / "one", row("autoregressive", steps=10), row("anpd", steps=5))
        two = self.saved(tmp_path / "two", *(row(name, steps=5, drafts=["d"]) for name in ("autoregressive", "rrs")))
        for folders in ([one, two], [two, one]):
            (rows,) = merge(folders).values()
            assert sorted((row["method"], row["repeat"]) for row in rows) == [
                ("anpd", 0), ("autoregressive", 0), ("autoregressive", 1), ("rrs", 0),
            ]  # fmt: skip
        three = self.saved(tmp_path / "three", row("rrs", steps=4, drafts=["e"]))
        assert list(merge([one, two, three])) == ["drafts None", 'drafts ["d"]', 'drafts ["e"]']

    @pytest.mark.parametrize(
        ("line", "said"), [("{}", "no task, id, category"), ("5", "no JSON object"), ("{", "Expecting property name")]
    )
    def test_damaged_rows_are_named(self, tmp_path, capsys, line, said):
        folder = self.saved(tmp_path / "one", row("autoregressive", steps=10))
        with (folder / ROWS).open("a") as rows:
            rows.write(line + "\n")
        assert main(["report", str(folder)]) == 2
        err = capsys.readouterr().err
        assert err.startswith("spectra.bench: folders: ") and err.count("\n") == 1
        assert f"line 2 is damaged ({said}" in err
        if line == "{}":
            with pytest.raises(SpectraError, match=r"^out: .* line 1 is damaged \(no task, id\)"):
                (tmp_path / ROWS).write_text("{}\n")
                Rows(tmp_path)

    def test_rows_of_another_benchmark_are_not_called_damaged(self, tmp_path, capsys):
        """A reader was told to remove a row of `batch` that was as it was written."""
        Rows(tmp_path).add({"task": "gsm8k", "id": "1", "batch": 2, "method": "spectra", "seconds": 1.0})
        assert main(["report", str(tmp_path)]) == 2
        err = capsys.readouterr().err
        assert err.startswith("spectra.bench: folders: no rows of `run` in ") and err.count("\n") == 1
        assert "damaged" not in err and "remove" not in err

    @pytest.mark.parametrize(
        "wrong",
        [
            {"seconds": 0}, {"seconds": "1"}, {"seconds": float("inf")}, {"new_tokens": 10**400}, {"steps": 0},
            {"steps": None}, {"tau": []}, {"mac_tp": float("nan")}, {"queries": "x"}, {"identical": 3}, {"method": []},
            {"category": {}}, {"task": 5}, {"distinct4": None}, {"repeat": None}, {"sources": -1},
            {"sources": {"model": None}}, {"offered": {"model": 3}}, {"acceptance": 1}, {"step_tokens": ["x"]},
        ],
        ids=str,
    )  # fmt: skip
    def test_values_that_no_run_writes_are_named(self, tmp_path, capsys, wrong):
        folder = self.saved(tmp_path / "one", row("autoregressive", steps=10), row("anpd", steps=5) | wrong)
        assert main(["report", str(folder)]) == 2
        err = capsys.readouterr().err
        assert err.startswith("spectra.bench: folders: ") and "line 2 is damaged (" in err and err.count("\n") == 1

    def test_counts_of_nothing(self, tmp_path, capsys):
        none = row("autoregressive", steps=10, tokens=0) | {"sources": {"model": 0}, "processor": {"a": []}}
        assert main(["report", str(self.saved(tmp_path / "one", none, none | {"method": "anpd"}))]) == 0
        assert "anpd" in capsys.readouterr().out

    def test_a_folder_where_rows_should_be(self, tmp_path, capsys):
        (tmp_path / ROWS).mkdir()
        assert main(["report", str(tmp_path)]) == 2
        assert capsys.readouterr().err.startswith("spectra.bench: folders: ")

    def test_a_folder_that_cannot_be_looked_into(self, tmp_path, capsys, monkeypatch):
        """It was an error without a field or a fix."""
        forbidden = tmp_path / ROWS
        stat = Path.stat

        def refused(path, **options):
            if path == forbidden:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return stat(path, **options)

        monkeypatch.setattr(Path, "stat", refused)  # as of a folder of another user: root may look into all
        assert main(["report", str(tmp_path)]) == 2
        said = f"spectra.bench: folders: {forbidden} cannot be read (Permission denied); give another folder"
        assert capsys.readouterr().err.splitlines() == [said]

    def test_the_tables_may_go_to_the_folder_of_the_figures(self, tmp_path, capsys):
        folder = self.saved(tmp_path / "one", row("autoregressive", steps=10))
        charts = tmp_path / "new"
        assert main(["report", str(folder), "--charts", str(charts), "--out", str(charts / "all.md")]) == 0
        assert (charts / "all.md").read_text() + "\n" == capsys.readouterr().out


class TestFigures:
    def test_tokens_against_steps(self):
        assert mean_cumulative([[1, 1], [3, 1, 2, 1]]) == [0.0, 2.0, 3.0, 4.0, 4.5]

    def test_acceptance_is_of_all_offers_together(self):
        rows = [row("anpd"), row("anpd", prompt="y", offered={"ngram": 2}, acceptance={"ngram": 1.0})]
        rows.append(row("hf-generate", offered=None, acceptance=None))
        figure = acceptance_by_source(rows)
        assert [(bar["name"], bar["x"], bar["y"]) for bar in figure["data"]] == [("anpd", ["ngram"], [0.4])]

    def test_tau_of_all_tasks_and_of_each(self):
        bars = tau_by_method(ROWS_BY_HAND)["data"]
        assert [bar["name"] for bar in bars] == ["all", "a", "b"]
        assert bars[2]["x"] == ["autoregressive", "anpd"]
        assert bars[2]["y"] == [1.0, 2.5]

    def test_files(self, tmp_path):
        drawn = acceptance_by_source([row("anpd")])
        write_figures(tmp_path / "new", {"a": drawn, "empty": {"data": [], "layout": {}}})
        assert json.loads((tmp_path / "new" / "a.json").read_text()) == drawn
        assert "ngram" in (tmp_path / "new" / "a.html").read_text()
        assert not list(tmp_path.glob("new/empty*"))

    def test_what_a_kill_cut_short_is_written_again(self, tmp_path):
        """plotly leaves a library that is there as it is, and every chart of that folder stayed blank."""
        figures = {"a": acceptance_by_source([row("anpd")])}
        write_figures(tmp_path, figures)
        library = tmp_path / "plotly.min.js"
        whole = library.read_bytes()
        library.write_bytes(whole[:1000])
        write_figures(tmp_path, figures)
        assert library.read_bytes() == whole
        assert sorted(file.name for file in tmp_path.iterdir()) == ["a.html", "a.json", "plotly.min.js"]


def test_a_folder_for_figures_that_cannot_be_one_is_named(tmp_path, capsys):
    """`out` was named, which is another option."""
    (tmp_path / ROWS).write_text(json.dumps(row("autoregressive", steps=9)) + "\n")
    assert main(["report", str(tmp_path), "--charts", str(tmp_path / ROWS)]) == 2
    assert capsys.readouterr().err.startswith("spectra.bench: charts: ")


def test_a_report_does_not_load_torch(tmp_path):
    (tmp_path / ROWS).write_text(json.dumps(row("autoregressive", steps=9)) + "\n")
    code = f"import sys; from spectra.cli.bench import main; main(['report', {str(tmp_path)!r}])"
    code += "; sys.exit(int('torch' in sys.modules))"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=False).returncode == 0
