"""What is remembered: found again, bounded, whole after any stop, shared by processes, of one model only."""

import errno
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest
from drafting import TextMemory, TextStore, decode_by, grown
from tiny import FREE, make, model_of, target_of

from spectra import Limits, Sampling
from spectra.datastore.memory import FILE_BYTES, Memory, open_memory
from spectra.datastore.text_index import TextIndex
from spectra.drafters.remembering import LEAST, Remembering
from spectra.drafters.retrieval import RARELY
from spectra.errors import SpectraError
from spectra.guess import Source
from spectra.method import Outcome
from spectra.methods.presets import make_method
from spectra.methods.resources import Resources, memory_of
from spectra.service.loading import ModelOptions
from spectra.target.execution_plan import ExecutionPlan


def texts(count, length=30, symbols=6, seed=0):
    dice = random.Random(seed)
    return [[dice.randrange(symbols) for _ in range(length)] for _ in range(count)]


def opened(folder, **limits):
    return open_memory(folder, "tokens", "model", **limits)


class TestTextIndex:
    def test_it_counts_what_followed_the_longest_suffix(self):
        dice = random.Random(1)
        for text in texts(20, length=40, symbols=3):
            index, slow = TextIndex([np.asarray(text, np.uint32)]), TextStore(text, order=8)
            for _ in range(20):
                context = [dice.randrange(4) for _ in range(dice.randrange(1, 12))]
                got, want = index.successors(context), slow.successors(context)
                assert (got.match, got.seen, dict(got.pairs)) == (want.match, want.seen, dict(want.pairs))

    def test_nothing_runs_from_one_text_into_the_next(self):
        index = TextIndex([np.array([1, 2], np.uint32), np.array([3, 4], np.uint32)])
        assert index.successors([2]).match == 0
        assert index.successors([2, 3]).match == 1
        assert TextIndex([]).successors([1]).match == 0


FULL = """
import resource, signal, sys
from pathlib import Path
from spectra.datastore.memory import open_memory
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
memory = open_memory(Path(sys.argv[1]), "tokens", "model")
memory.add(range(20))
memory.flush()
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for size in (300, 2000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    memory.add([size] * 600)
    memory.flush()
    print(len(memory), len(list(memory.folder.iterdir())))
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
memory.add([7] * 30)
memory.flush()
print(len(memory), len(list(memory.folder.iterdir())))
"""


class TestMemory:
    def test_a_full_disk_costs_the_new_answer_only(self, tmp_path):
        command = [sys.executable, "-c", FULL, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stdout.splitlines() == ["22 2", "22 2", "53 2"], done.stderr
        assert done.stderr.count("cannot be written") == 2
        assert opened(tmp_path).successors([4, 5]) == (2, 1, [(6, 1)])

    def test_answers_are_found_again_by_this_process_and_the_next(self, tmp_path):
        memory = opened(tmp_path)
        assert memory.successors([1]).match == 0
        answer = list(range(20))
        memory.add(answer)
        memory.flush()
        for one in (memory, opened(tmp_path)):
            assert one.successors([4, 5]) == (2, 1, [(6, 1)])

    def test_short_answers_are_left_out(self, tmp_path):
        memory = opened(tmp_path)
        for length in (7, 8):
            memory.add(list(range(length)))
            memory.flush()
            assert bool(len(memory)) == (length == 8)

    def test_a_file_is_newer_than_all_where_the_clock_was_set_back(self, tmp_path, monkeypatch):
        for _ in range(2):
            memory = opened(tmp_path)
            memory.add([len(list(tmp_path.rglob("*.npy")))] * 20)
            memory.flush()
            monkeypatch.setattr(time, "time_ns", lambda: 5)
        old, new = sorted(int(path.name.partition("-")[0]) for path in tmp_path.rglob("*.npy"))
        assert new == old + 1 > 6

    def test_an_answer_given_twice_is_kept_once(self, tmp_path):
        memory = opened(tmp_path)
        for _ in range(3):
            memory.add(list(range(20)))
        memory.flush()
        assert memory.successors([5]).seen == 1

    def test_every_answer_counts_once_however_the_index_grew(self, tmp_path):
        memory, answers = opened(tmp_path), texts(60, symbols=40)
        for answer in answers:
            memory.add(answer)
        memory.flush()
        one = [[*answer, 40 + number] for number, answer in enumerate(answers)]
        for context in ([3], [7, 1], [12]):
            seen = sum(a[i : i + len(context)] == context for a in one for i in range(30 - len(context)))
            if seen:
                assert memory.successors(context).seen == seen

    def test_the_oldest_go_when_it_is_full(self, tmp_path):
        memory, answers = opened(tmp_path, max_bytes=3 * FILE_BYTES), texts(25, length=4000, symbols=30000)
        for answer in answers:
            memory.add(answer)
        memory.flush()
        files = list(memory.folder.glob("*.npy"))
        assert sum(file.stat().st_size for file in files) <= 3 * FILE_BYTES
        assert memory.successors(answers[-1][:8]).match == 8
        assert memory.successors(answers[0][:8]).match < 8

    def test_a_clock_that_is_set_back_does_not_make_new_answers_the_oldest(self, tmp_path, monkeypatch):
        answers = texts(8, length=4000, symbols=30000)
        memory = opened(tmp_path, max_bytes=2 * FILE_BYTES)
        for answer in answers:
            memory.add(answer)
        memory.flush()
        monkeypatch.setattr("time.time_ns", lambda: 10**9)
        memory = opened(tmp_path, max_bytes=2 * FILE_BYTES)
        for answer in texts(2, length=15000, symbols=30000, seed=1):
            memory.add(answer)
            memory.flush()
            assert memory.successors(answer[:8]).match == 8

    def test_processes_share_it(self, tmp_path):
        mine = opened(tmp_path)
        code = "import sys; from pathlib import Path; from spectra.datastore.memory import open_memory\n"
        code += "m = open_memory(Path(sys.argv[1]), 'tokens', 'model'); m.add(range(100, 130)); m.flush()"
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
        mine.add(list(range(20)))
        mine.flush()
        assert mine.successors([110]).pairs == [(111, 1)]
        assert opened(tmp_path).successors([10]).pairs == [(11, 1)]

    def test_killed_while_it_writes_it_opens(self, tmp_path):
        code = "import sys; from pathlib import Path; from spectra.datastore.memory import open_memory\n"
        code += "m = open_memory(Path(sys.argv[1]), 'tokens', 'model')\n"
        code += "for i in range(10**6):\n m.add(range(i, i + 50)); print(i, flush=True)"
        for lines in (1, 5):
            process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
            for _ in range(lines):
                process.stdout.readline()
            process.kill()
            process.wait()
            process.stdout.close()
        memory = opened(tmp_path)
        memory.add(list(range(5000, 5050)))
        memory.flush()
        assert memory.successors([5005]).pairs == [(5006, 1)]

    def test_it_opens_while_another_process_writes(self, tmp_path):
        """A file that had got its name between two looks was told as a folder that cannot be used."""
        place = opened(tmp_path).folder
        (place / ".1-a.npy.77").symlink_to("gone")  # listed, and not there when it is asked about
        assert len(opened(tmp_path)) == 0

    def test_what_a_killed_process_left_goes_after_an_hour_whatever_the_clock_says(self, tmp_path, monkeypatch):
        place = opened(tmp_path).folder
        old, fresh = place / ".1-a.npy.77", place / ".2-a.npy.78"
        for left in (old, fresh):
            left.write_bytes(b"half")
        hours_ago = old.stat().st_mtime - 7000
        os.utime(old, (hours_ago, hours_ago))
        monkeypatch.setattr(time, "time", lambda: 1e10)  # a clock that jumped
        opened(tmp_path)
        assert fresh.exists() and not old.exists()

    def test_a_damaged_file_is_left_out(self, tmp_path):
        memory = opened(tmp_path)
        memory.add(list(range(20)))
        memory.flush()
        (memory.folder / "0.npy").write_bytes(b"nothing")
        np.save(memory.folder / "1.npy", np.ones((2, 2)))
        assert opened(tmp_path).successors([5]).pairs == [(6, 1)]

    def test_a_file_with_ids_of_no_token_is_left_out(self, tmp_path):
        memory = opened(tmp_path, vocabulary=64)
        memory.add(list(range(20)))
        memory.flush()
        for wrong in (64, 2**31, 2**32 - 2):
            np.save(memory.folder / f"{wrong}.npy", np.array([5, wrong], np.uint32))
        assert opened(tmp_path, vocabulary=64).successors([5]).pairs == [(6, 1)]
        np.save(memory.folder / "3.npy", np.array([5, 63], np.uint32))
        assert opened(tmp_path, vocabulary=64).successors([5]).seen == 2

    def test_what_was_added_last_is_there_when_the_program_has_ended(self, tmp_path):
        code = "import sys; from pathlib import Path; from spectra.datastore.memory import open_memory\n"
        code += "m = open_memory(Path(sys.argv[1]), 'tokens', 'model')\n"
        code += "for i in range(0, 3000, 100): m.add(range(i, i + 50))"
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
        assert opened(tmp_path).successors([2905]).pairs == [(2906, 1)]

    def test_another_model_has_a_memory_of_its_own(self, tmp_path):
        memory = opened(tmp_path)
        memory.add(list(range(20)))
        memory.flush()
        assert open_memory(tmp_path, "tokens", "other").successors([5]).match == 0
        assert open_memory(tmp_path, "others", "model").successors([5]).match == 0
        (memory.folder / "card.json").write_text('{"model": "other"}')
        with pytest.raises(SpectraError, match="another folder"):
            opened(tmp_path)

    def test_the_folder_of_a_datastore_is_refused(self, tmp_path):
        """It was written into."""
        for name in ("card.json", "corpus.npy"):
            (tmp_path / name).write_text("{}")
        for open_it in (opened, lambda folder: ModelOptions(remember=folder)):
            with pytest.raises(SpectraError, match=f"^remember: {tmp_path} is a datastore; give a folder of your own"):
                open_it(tmp_path)
        assert len(list(tmp_path.iterdir())) == 2

    def test_on_a_full_disk_no_other_folder_is_asked_for(self, tmp_path, monkeypatch):
        def full(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("spectra.datastore.memory.Path.mkdir", full)
        with pytest.raises(SpectraError, match=r"^remember: .* cannot be used \(.*No space.*\); free some space$"):
            open_memory(tmp_path / "memory", "tokenizer", "model")

    def test_a_folder_that_cannot_be_made_is_refused(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(SpectraError, match="remember"):
            opened(tmp_path / "file")
        with pytest.raises(SpectraError, match=r"^remember: .* cannot be used \(File name too long\); give a folder"):
            opened(tmp_path / ("x" * 300))


class TestRemembering:
    def test_a_finished_answer_joins_and_one_that_was_broken_off_does_not(self):
        target, memory = target_of(model_of("llama")), TextMemory([1, 2])
        method = make_method("spectra", target, Resources(memory=memory))
        answer = [t for step in decode_by(target, [3, 4], method, limits=Limits(12)) for t in step.tokens]
        assert memory.answers == [answer]
        steps = decode_by(target, [3, 4], make_method("spectra", target, Resources(memory=memory)), limits=Limits(12))
        next(steps)
        steps.close()
        assert memory.answers == [answer]

    @pytest.mark.parametrize("temperature", [0.0, 1.0])
    def test_an_answer_given_before_takes_few_passes_and_is_the_same(self, temperature, tmp_path):
        target = target_of(model_of("llama"), ExecutionPlan(cost=FREE))
        memory, sampling = Memory(tmp_path), Sampling(temperature=temperature, seed=5)
        steps = []
        for _ in range(2):
            method = make_method("spectra", target, Resources(memory=memory), sampling=sampling)
            steps.append(list(decode_by(target, [3, 4], method, sampling=sampling, limits=Limits(40))))
            memory.flush()
        first, second = ([t for step in each for t in step.tokens] for each in steps)
        assert first == second
        assert len(steps[1]) < len(steps[0]) / 2
        assert Source.MEMORY in {source for step in steps[1] for source in step.sources}

    def test_ids_of_no_token_in_its_folder_do_not_end_an_answer(self, tmp_path):
        target = target_of(model_of("llama"))
        folder = memory_of(target, tmp_path).folder
        np.save(folder / "1.npy", np.array([3, 4, 9999, 3, 4, 9999], np.uint32))
        resources = Resources(memory=memory_of(target_of(make("llama").double()), tmp_path))
        method = make_method("spectra", target, resources)
        plain, ours = (
            [t for step in decode_by(target, [3, 4], one, limits=Limits(12)) for t in step.tokens]
            for one in ("autoregressive", method)
        )
        assert ours == plain

    def test_what_brings_nothing_is_asked_rarely(self):
        drafter = Remembering(TextMemory([1, 2, 3, 4]))
        drafter.begin([2])
        asked = []
        for _ in range(400):
            tree = grown(drafter, [2])
            asked.append(len(tree) > 1)
            drafter.observe([2, 9], Outcome(tree, [], [9], lambda ticket: None))
        assert all(asked[:50])
        assert sum(asked[-80:]) == 80 // RARELY
        assert Remembering(drafter.memory).worth == drafter.worth < LEAST  # the next answer begins with it
        for _ in range(400):
            tree = grown(drafter, [2])
            path = [1] if len(tree) > 1 else []
            drafter.observe([2, 3, 9], Outcome(tree, path, [3, 9], lambda ticket: None))
        assert drafter.memory.worth > LEAST
