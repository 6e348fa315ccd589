"""How much of quantised weights is held unpacked: by what reading and unpacking take, never a different bit."""

import pytest
import torch
from native_paths import library

from spectra.target.native import unpacked
from spectra.target.native.codes import four_bits, int8
from spectra.target.native.unpacked import PATHS, best_period, choose_period

PACKED = 0.625  # bytes a weight


def test_where_reading_takes_the_time_nothing_is_unpacked():
    assert best_period(unpacking=1.0, reading=2.0, packed=PACKED) == 0
    assert best_period(unpacking=1.0, reading=1.0, packed=PACKED) == 0


def test_where_unpacking_takes_the_time_more_is_held_unpacked_the_cheaper_reading_is():
    assert [best_period(unpacking=1.0, reading=reading, packed=PACKED) for reading in (0.9, 0.7, 0.5)] == [0, 5, 3]


def test_a_part_that_memory_has_no_place_for_is_not_unpacked():
    choices = [best_period(unpacking=1.0, reading=0.1, packed=PACKED, most=most) for most in (1.0, 0.3, 0.1)]
    assert choices == [3, 5, 0]


@pytest.mark.parametrize("quantise", [four_bits, int8])
def test_small_models_and_scales_of_whole_rows_stay_packed(quantise):
    assert choose_period(library(), {"a": quantise(torch.randn(64, 64))}, 1 << 30) == 0
    assert choose_period(library(), {}, 1 << 30) == 0


def test_a_model_of_some_size_is_measured_once(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(unpacked, "LEAST", 1 << 12)
    monkeypatch.setattr("os.getloadavg", lambda: (0.5, 0.0, 0.0))
    seen = []
    monkeypatch.setattr(unpacked, "best_period", lambda **about: seen.append(about) or 3)
    ready = library()
    four = four_bits(torch.randn(64, 64)), four_bits(torch.randn(96, 128))
    codes = {"a": four[0], "b": four[1], "c": int8(torch.randn(64, 64))}
    chosen = choose_period(ready, codes, 8192)
    if ready.isa not in PATHS:
        assert chosen == 0
        return
    assert [choose_period(ready, codes, 8192) for _ in range(2)] == [3, 3]
    (about,) = seen
    assert chosen == 3
    assert about["unpacking"] > 0
    assert about["reading"] > 0
    assert about["packed"] == pytest.approx(0.625)
    assert about["most"] == pytest.approx(8192 / (2 * (64 * 64 + 96 * 128)))
    for file in (tmp_path / "spectra" / "unpacked").iterdir():
        file.write_text("4\n")
    assert choose_period(ready, codes, 8192) == 3
    assert len(seen) == 2


@pytest.mark.parametrize(("load", "times"), [(0.5, 1), (1000.0, 2)])
def test_what_a_busy_machine_chose_is_measured_again(monkeypatch, tmp_path, load, times):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(unpacked, "LEAST", 1 << 12)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    seen = []
    monkeypatch.setattr(unpacked, "best_period", lambda **about: seen.append(about) or 5)
    ready, codes = library(), {"a": four_bits(torch.randn(64, 128))}
    assert {choose_period(ready, codes, 8192) for _ in range(2)} == {5 if ready.isa in PATHS else 0}
    assert len(seen) == (times if ready.isa in PATHS else 0)


def test_a_choice_that_cannot_be_kept_is_used_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(unpacked, "LEAST", 1 << 12)
    monkeypatch.setattr(unpacked, "best_period", lambda **about: 3)
    (tmp_path / "spectra").write_text("no folder")
    ready = library()
    assert choose_period(ready, {"a": four_bits(torch.randn(64, 128))}, 1 << 14) == (3 if ready.isa in PATHS else 0)
