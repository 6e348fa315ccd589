"""A build that is killed at any moment goes on to the same store; full disks and other builds in the way are named."""

import os
import resource
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count
from pathlib import Path

import numpy as np
import pytest
import torch
from damage import flip
from stores import build, index_hashes, rows, write_rows
from words import save_model

from spectra.cli.datastore import main
from spectra.datastore import card
from spectra.datastore import store as stores_
from spectra.datastore.build import build as build_
from spectra.datastore.build import finish, gather, score
from spectra.datastore.build.workdir import SCORE, Workdir
from spectra.datastore.card import read_card
from spectra.datastore.examine import problems
from spectra.datastore.store import Store
from spectra.errors import SpectraError
from spectra.io.exchange import exchange

KEPT = ("--keep", "12")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("corpus") / "rows.jsonl", rows(24))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch):
    """Progress is counted every 8 texts."""
    monkeypatch.setattr(gather, "CHUNK", 4)
    monkeypatch.setattr(gather, "CHECKPOINT", 2)


@pytest.fixture(scope="module")
def wanted(model, corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "store"
    assert build(corpus, out, model, *KEPT) == 0
    return index_hashes(out)


def in_child(work) -> int:
    """Wait status of a forked process that does `work`; its output is dropped."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 99
        try:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - until the process ends
            torch.set_num_threads(1)
            code = work()
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


def die_at(monkeypatch, moment: int):
    """SIGKILL just before the `moment`-th sync or rename of this process."""
    left = [moment]

    def deadly(real):
        def call(*arguments, **named):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    monkeypatch.setattr(os, "fsync", deadly(os.fsync))
    monkeypatch.setattr(Path, "rename", deadly(Path.rename))
    monkeypatch.setattr(Path, "replace", deadly(Path.replace))


def killed_build(monkeypatch, moment: int, *arguments) -> bool:
    """Whether it was killed rather than done."""

    def work():
        die_at(monkeypatch, moment)
        return build(*arguments)

    status = in_child(work)
    assert status == 0 or os.WIFSIGNALED(status), status
    return status != 0


def test_killed_at_every_moment_it_resumes_to_the_same_store(model, corpus, wanted, tmp_path, monkeypatch, cases):
    def killed(moment: int) -> Path | None:
        """The store, or None where the build was done before."""
        out = tmp_path / str(moment) / "store"
        return out if killed_build(monkeypatch, moment, corpus, out, model, *KEPT) else None

    moments = tidied = 0
    for moment in range(0, 200, cases(5, 1)):
        if (out := killed(moment)) is None:
            break
        moments += 1
        if out.exists():  # killed while tidying up
            assert index_hashes(out) == wanted
            continue
        for folder in {path.parent for path in out.parent.rglob("*.marisa")}:
            if not (folder / "card.json").exists():
                with pytest.raises(SpectraError):
                    Store.open(folder)
        assert build(corpus, out, model, *KEPT) == 0, f"moment {moment}"
        assert index_hashes(out) == wanted, f"moment {moment}"
        assert [path.name for path in out.parent.iterdir()] == ["store"]
    assert moments > 10, "the build has syncs in every phase"
    for late in range(moment - 8, moment):
        shutil.rmtree(tmp_path / str(late), ignore_errors=True)
        if (out := killed(late)) is None or not out.exists():
            continue
        assert index_hashes(out) == wanted
        assert build(corpus, out, model, *KEPT) == 2, "it is there"
        assert index_hashes(out) == wanted
        assert [path.name for path in out.parent.iterdir()] == ["store"]
        tidied += 1
    assert tidied > 1


def test_killed_again_and_again_it_still_gets_there(model, corpus, wanted, tmp_path, monkeypatch):
    out = tmp_path / "store"
    kills = 0
    while killed_build(monkeypatch, 18, corpus, out, model, *KEPT):
        kills += 1
        assert kills < 60
        if out.exists():
            break
    assert kills >= 2
    assert index_hashes(out) == wanted


def killed_while_scoring(monkeypatch, batches: int, *arguments) -> None:
    def work():
        scored = [0]
        real = score.perplexities

        def mortal(*given):
            scored[0] += 1
            if scored[0] > batches:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given)

        monkeypatch.setattr(score, "perplexities", mortal)
        return build(*arguments)

    assert os.WIFSIGNALED(in_child(work))


def test_scores_are_not_computed_twice(model, corpus, wanted, tmp_path, monkeypatch):
    out = tmp_path / "store"
    killed_while_scoring(monkeypatch, 3, corpus, out, model, *KEPT)
    done = sum(path.stat().st_size for path in out.parent.rglob("*.scores")) // SCORE.itemsize
    scored = []
    real = score.perplexities
    monkeypatch.setattr(score, "perplexities", lambda m, texts, c: scored.extend(texts) or real(m, texts, c))
    assert build(corpus, out, model, *KEPT) == 0
    assert done > 0
    assert len(scored) == sum(read_card(out)["perplexity"]["scored"]) - done
    assert index_hashes(out) == wanted


@pytest.fixture(scope="module")
def unfinished(model, corpus, tmp_path_factory):
    """What a build left that was stopped before its last phase, all scores known."""

    def stopped(*_):
        raise KeyboardInterrupt

    out = tmp_path_factory.mktemp("unfinished") / "store"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(build_, "finish", stopped)
        assert build(corpus, out, model, *KEPT) == 130
    return Workdir(out, np.dtype("u1")).folder


@pytest.mark.parametrize("name", ["read.json", "tokens.bin", "candidates.bin", "0.scores"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_damaged_work_is_named_and_no_store_is_made_of_it(
    model, corpus, wanted, tmp_path, capsys, unfinished, name, damage
):
    """Texts were missing from the store without a word, or the build ended with a traceback."""
    shutil.copytree(unfinished, tmp_path / ".store.work")
    file = tmp_path / ".store.work" / name
    size = file.stat().st_size
    if damage == "flip":
        flip(file, size // 2, 4)
    else:
        os.truncate(file, size // 2 if damage == "cut" else 0)
    code = build(corpus, tmp_path / "store", model, *KEPT)
    if name == "0.scores" and damage != "flip":  # what is missing is scored again
        assert code == 0
        assert index_hashes(tmp_path / "store") == wanted
        return
    assert code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"{file} is damaged; remove {file.parent}, and the same command begins anew")
    assert not (tmp_path / "store").exists()
    shutil.rmtree(file.parent)
    assert build(corpus, tmp_path / "store", model, *KEPT) == 0
    assert index_hashes(tmp_path / "store") == wanted


def test_a_replacement_killed_half_way_leaves_the_old_or_the_new(model, corpus, wanted, tmp_path, monkeypatch):
    out = tmp_path / "store"
    assert build(corpus, out, model, "--keep", "3") == 0
    old = index_hashes(out)
    assert build(corpus, out, model, *KEPT) == 2, "not without --force"
    for moment in range(0, 200, 6):
        if not killed_build(monkeypatch, moment, corpus, out, model, *KEPT, "--force"):
            break
        assert index_hashes(out) in (old, wanted)
    assert index_hashes(out) == wanted


@pytest.fixture
def replacement(model, corpus, tmp_path):
    """A store, and the work on another one of its name that is ready to take the place."""
    assert build(corpus, tmp_path / "store", model, *KEPT) == 0
    work = Workdir(tmp_path / "store", np.dtype("u2"))
    assert build(corpus, work.store, model, "--keep", "3") == 0
    return work


def killed_placing(monkeypatch, work, moment):
    def place():
        die_at(monkeypatch, moment)
        finish.put_in_place(work)
        return 0

    return in_child(place) != 0


def test_a_store_that_is_replaced_is_there_at_every_moment(replacement, monkeypatch):
    moment = 0
    while killed_placing(monkeypatch, replacement, moment):
        kept = {Store.open(folder).card["kept"]["texts"] for folder in (replacement.out, replacement.store)}
        assert kept == {12, 3}
        moment += 1
        if Store.open(replacement.out).card["kept"]["texts"] == 3:
            exchange(replacement.store, replacement.out)
    assert moment > 3
    assert Store.open(replacement.out).card["kept"]["texts"] == 3


def test_where_folders_cannot_be_exchanged_it_is_told_how_to_get_the_store_back(replacement, monkeypatch):
    monkeypatch.setattr(finish, "exchange", lambda one, other: False)
    assert killed_placing(monkeypatch, replacement, 3)  # between the two renames
    with pytest.raises(SpectraError, match=r"was being replaced .*; build it again, or rename \S*\.store\.old to it"):
        Store.open(replacement.out)
    (replacement.out.parent / ".store.old").rename(replacement.out)
    assert Store.open(replacement.out).card["kept"]["texts"] == 12


def test_a_replacement_that_goes_on_is_not_undone_where_folders_cannot_be_exchanged(replacement, monkeypatch):
    """A build that began between the two renames put the old store back, and the first one failed."""
    monkeypatch.setattr(finish, "exchange", lambda one, other: False)
    reading, writing = os.pipe()
    again, go = os.pipe()
    rename = Path.rename

    def place():
        def slow(path, to):
            if path == replacement.store:
                os.write(writing, b"x")
                os.read(again, 1)
            return rename(path, to)

        monkeypatch.setattr(Path, "rename", slow)
        finish.put_in_place(replacement)
        return 0

    with ThreadPoolExecutor() as pool:
        placed = pool.submit(in_child, place)
        os.read(reading, 1)
        restored = pool.submit(finish.restore, replacement.out)
        try:
            with pytest.raises(TimeoutError):
                restored.result(0.2)
        finally:
            os.write(go, b"x")
        assert placed.result() == 0
        restored.result()
    assert Store.open(replacement.out).card["kept"]["texts"] == 3
    assert [path.name for path in replacement.out.parent.iterdir()] == ["store"]


def test_a_reader_of_a_store_that_is_replaced_has_the_old_or_the_new(replacement, monkeypatch):
    """Its card and all its files, whatever of them was read before."""
    left = [0]

    def replaced_at(real):
        def call(*arguments, **named):
            left[0] -= 1
            if left[0] == -1:
                exchange(replacement.store, replacement.out)
            return real(*arguments, **named)

        return call

    both = (Store.open(folder) for folder in (replacement.out, replacement.store))
    contexts = {store.card["kept"]["texts"]: len(store) for store in both}
    assert len(contexts) == len(set(contexts.values())) == 2
    for module, name in ((card, "parse_json"), (card, "_check_files"), (card, "file_sha256"), (stores_, "_mapped")):
        monkeypatch.setattr(module, name, replaced_at(getattr(module, name)))
    for moment in count():
        left[0] = moment
        store = Store.open(replacement.out)
        assert contexts[store.card["kept"]["texts"]] == len(store)
        if left[0] >= 0:
            break
    assert moment > 10
    for earlier in range(moment):
        left[0] = earlier
        assert problems(replacement.out) == []


@pytest.fixture
def add(model, tmp_path):
    """Adds some rows to a store in place; returns the exit code."""
    more = write_rows(tmp_path / "more.jsonl", rows(8, seed=5))
    fixed = ("--model", str(model), "--dtype", "fp32", "--device", "cpu")
    return lambda store, *named: main(["add", str(store), "--corpus", str(more), "--in-place", *fixed, *named])


def files(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in store.iterdir()}


CAN_EXCHANGE = pytest.mark.parametrize("can", [True, False], ids=["exchanged", "renamed"])


@CAN_EXCHANGE
def test_adding_in_place_killed_at_any_moment_and_repeated_adds_once(
    model, corpus, add, tmp_path, monkeypatch, can, cases
):
    if not can:
        monkeypatch.setattr(finish, "exchange", lambda one, other: False)
    store = tmp_path / "there" / "store"
    assert build(corpus, tmp_path / "base", model, *KEPT) == 0

    def anew():
        shutil.rmtree(store.parent, ignore_errors=True)
        shutil.copytree(tmp_path / "base", store)

    def dies(moment):
        die_at(monkeypatch, moment)
        return add(store)

    anew()
    assert add(store) == 0
    grown = files(store)
    early = range(0, 30, cases(10, 1))
    for moment in chain(early, count(30, cases(2, 1))):  # from 30 on the store is written and put in place
        anew()
        if in_child(lambda moment=moment: dies(moment)) == 0:
            break
        assert add(store) == 0
        assert files(store) == grown, f"moment {moment}"
        assert [path.name for path in store.parent.iterdir()] == ["store"]
    assert moment > 40


def test_what_was_added_last_is_not_added_again_but_with_other_settings(model, corpus, add, tmp_path, capsys):
    store = tmp_path / "store"
    assert build(corpus, store, model, *KEPT) == 0
    assert add(store) == 0
    grown = files(store)
    assert add(store) == 0
    assert files(store) == grown
    assert "has this corpus already" in capsys.readouterr().err
    seen = read_card(store)["seen"]["texts"]
    assert add(store, "--keep", "14") == 0
    assert read_card(store)["kept"]["texts"] == 14
    assert read_card(store)["seen"]["texts"] > seen


@CAN_EXCHANGE
def test_what_a_build_killed_after_its_end_left_is_in_nobodys_way(model, corpus, add, tmp_path, monkeypatch, can):
    if not can:
        monkeypatch.setattr(finish, "exchange", lambda one, other: False)
    out = tmp_path / "new" / "store"

    def dies_tidying(work, *arguments):
        def mortal():
            monkeypatch.setattr(Workdir, "drop", lambda _: os.kill(os.getpid(), signal.SIGKILL))
            return work(*arguments)

        assert os.WIFSIGNALED(in_child(mortal))

    dies_tidying(build, corpus, out, model, *KEPT)
    dies_tidying(add, out)
    grown = files(out)
    assert add(out) == 0
    assert files(out) == grown
    assert [path.name for path in out.parent.iterdir()] == ["store"]


@CAN_EXCHANGE
def test_a_store_behind_a_link_is_replaced_where_it_is(model, corpus, add, tmp_path, monkeypatch, can):
    if not can:
        monkeypatch.setattr(finish, "exchange", lambda one, other: False)
    there, link = tmp_path / "other disk" / "store", tmp_path / "link"
    link.symlink_to(there)
    assert build(corpus, link, model, *KEPT) == 0
    base = index_hashes(there)
    assert add(link) == 0
    assert index_hashes(there) != base
    assert link.readlink() == there
    assert [path.name for path in there.parent.iterdir()] == ["store"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "more.jsonl", "other disk"]


def test_a_link_that_leads_to_itself_is_refused(model, corpus, tmp_path, capsys):
    link = tmp_path / "link"
    link.symlink_to(link)
    assert build(corpus, link, model, *KEPT) == 2
    assert "out: cannot write" in capsys.readouterr().err


def limited(size: int, *arguments) -> tuple[int, Path]:
    """Exit code of a build that may write no file beyond `size` bytes, as on a full disk."""

    def work():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return build(*arguments)

    return os.waitstatus_to_exitcode(in_child(work))


@pytest.mark.parametrize("size", [0, 700, 3000, 4500])
def test_a_full_disk_is_named_and_the_work_is_kept(model, corpus, wanted, tmp_path, size):
    out = tmp_path / "store"
    assert limited(size, corpus, out, model, *KEPT) == 2
    assert not out.exists()
    assert build(corpus, out, model, *KEPT) == 0
    assert index_hashes(out) == wanted


def test_the_message_names_out(model, corpus, tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert build(corpus, tmp_path / "store", model) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "out: cannot write" in err
    assert "No space left on device" in err


def test_a_file_in_the_way_is_named(model, corpus, tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert build(corpus, tmp_path / "file" / "store", model) == 2
    assert "out: cannot write" in capsys.readouterr().err


def test_scores_of_other_settings_are_not_dropped_unasked(model, corpus, wanted, tmp_path, monkeypatch, capsys):
    out = tmp_path / "store"
    killed_while_scoring(monkeypatch, 1, corpus, out, model, *KEPT)
    assert build(corpus, out, model, "--keep", "5") == 2
    assert "other settings" in capsys.readouterr().err
    assert build(corpus, out, model, "--keep", "5", "--force") == 0
    assert read_card(out)["kept"]["texts"] == 5


def test_a_store_that_another_process_finished_meanwhile_is_not_replaced(model, corpus, wanted, tmp_path, monkeypatch):
    out = tmp_path / "store"
    described = build_.describe

    def late(*given):
        recipe = described(*given)
        with monkeypatch.context() as patch:
            patch.setattr(build_, "describe", described)
            assert build(corpus, out, model, *KEPT) == 0
        return recipe

    monkeypatch.setattr(build_, "describe", late)
    assert build(corpus, out, model, "--keep", "3") == 2
    assert index_hashes(out) == wanted
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_two_builds_do_not_share_a_folder(model, corpus, tmp_path, capsys):
    import fcntl

    (tmp_path / ".store.work").mkdir()
    with (tmp_path / ".store.work" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert build(corpus, tmp_path / "store", model) == 2
    assert "another process" in capsys.readouterr().err
