"""The CPU library is built once for this CPU, again where its file is not what it should be, and missed in one line."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from compiled import compiled
from native_paths import FOLDER, library
from tiny import make

from spectra.cli.main import main
from spectra.errors import SpectraError
from spectra.io.cache_home import cache_home
from spectra.target.load import wrap_model
from spectra.target.native import flags
from spectra.target.native import library as built
from spectra.target.native.flags import FLAGS, sealed, shipped_name
from spectra.target.native.library import Cpu, LibraryError, load, native_library, native_reason, paths_here
from spectra.target.native.matrix import Matrix

WORKS = """#!/bin/sh
[ "$1" = --version ] && echo one && exit
echo built >> "$SPECTRA_TEST_LOG"
while [ "$1" != -o ]; do shift; done
cp "$SPECTRA_TEST_LIBRARY" "$2"
"""
FAILS = """#!/bin/sh
echo 'native.cpp: In function main:' >&2
echo 'native.cpp:3:1: error: no such thing' >&2
exit 1
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Puts a script on the PATH as the only compiler; it hands out a library that was built before."""

    def put(text):
        path = tmp_path / "bin" / "c++"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("cp ", f"{shutil.which('cp')} "))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(path.parent))

    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("SPECTRA_NATIVE", raising=False)
    monkeypatch.setenv("SPECTRA_TEST_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("SPECTRA_TEST_LIBRARY", str(library().file))
    built._version.cache_clear()
    built._announce.cache_clear()
    yield put
    built._version.cache_clear()


def builds(tmp_path):
    return len((tmp_path / "log").read_text().splitlines())


def test_a_library_is_built_once_and_again_when_damaged(compiler, tmp_path):
    compiler(WORKS)
    folder = tmp_path / "cache"
    file = load(paths_here()[:1], folder).file
    assert load(paths_here()[:1], folder).file == file
    assert builds(tmp_path) == 1
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:100] + b"x" + whole[101:]):
        file.unlink()  # a loaded file is never written into
        file.write_bytes(damaged)
        assert load(paths_here()[:1], folder).file.read_bytes() == whole
    assert builds(tmp_path) == 4
    assert [path.name for path in folder.iterdir()] == [file.name]


def test_what_a_wheel_brought_is_not_compiled(compiler, tmp_path, monkeypatch):
    compiler(WORKS)
    isa, folder, shipped = paths_here()[0], tmp_path / "cache", tmp_path / "shipped"
    shipped.mkdir()
    brought = shipped / shipped_name(isa)
    brought.write_bytes(library().file.read_bytes())
    assert load([isa], folder, shipped=shipped).file == brought
    with monkeypatch.context() as alone:
        alone.setenv("PATH", str(shipped))
        assert load([isa], folder, shipped=shipped).file == brought, "it needs no compiler"
    assert not folder.exists()
    assert load([isa], folder, ("-DOTHER",), shipped).file.parent == folder, "of other flags"
    monkeypatch.setenv("CXX", "c++")
    assert load([isa], folder, shipped=shipped).file.parent == folder, "by the compiler that is named"
    monkeypatch.delenv("CXX")
    for damaged in (brought.read_bytes()[:-1], sealed(b"no library")):
        other = shipped / str(len(damaged)) / brought.name
        other.parent.mkdir()
        other.write_bytes(damaged)
        assert load([isa], folder, shipped=other.parent).file.parent == folder
        assert other.read_bytes() == damaged
    assert builds(tmp_path) == 2


def test_a_shipped_library_is_of_one_source_and_one_path(tmp_path, monkeypatch):
    names = set(map(shipped_name, FLAGS))
    monkeypatch.setattr(flags, "SOURCE", tmp_path)
    (tmp_path / "native.cpp").write_text("another")
    assert len(names | set(map(shipped_name, FLAGS))) == 2 * len(FLAGS)


def test_what_killed_builds_left_goes_and_what_runs_stays(compiler, tmp_path):
    compiler(WORKS)
    folder = tmp_path / "cache"
    for name, hours in (("old", 2), ("new", 0)):
        work = folder / f".build.{name}"
        work.mkdir(parents=True)
        (work / "half.so").write_bytes(b"x")
        os.utime(work, (time.time() - 3600 * hours,) * 2)
    file = load(paths_here()[:1], folder).file
    assert sorted(path.name for path in folder.iterdir()) == [".build.new", file.name]


def test_another_cpu_or_source_has_another_file(compiler, tmp_path, monkeypatch):
    compiler(WORKS)
    isa = paths_here()[:1]
    files = {load(isa, tmp_path).file}
    monkeypatch.setattr(built, "_cpu", lambda: Cpu("", "another", ()))
    files.add(load(isa, tmp_path).file)
    monkeypatch.setattr(built, "source_hash", lambda: "another")
    files.add(load(isa, tmp_path).file)
    assert len(files) == 3 == builds(tmp_path)


def test_a_failing_compiler_is_named_with_its_first_error_once(compiler, tmp_path, monkeypatch, capsys):
    compiler(FAILS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "failing"))
    assert native_library() is None
    assert native_library() is None
    compiling, *lines = capsys.readouterr().err.splitlines()
    assert compiling.startswith("compiling")
    assert lines == [f"no CPU step of our own ({native_reason()}); torch computes the steps"]
    assert native_reason() == "c++ failed: native.cpp:3:1: error: no such thing"


OLD = """#!/bin/sh
[ "$1" = --version ] && echo one && exit
echo built >> "$SPECTRA_TEST_LOG"
case "$*" in *-mavx512f*) echo "c++: error: unrecognized command line option '-mavx512f'" >&2; exit 1;; esac
while [ "$1" != -o ]; do shift; done
cp "$SPECTRA_TEST_LIBRARY" "$2"
"""


def test_a_compiler_too_old_for_the_best_instructions_is_not_asked_for_them_again(compiler, tmp_path, capsys):
    compiler(OLD)
    folder = tmp_path / "cache"
    assert load(["avx512", "avx2"], folder).isa == "avx2"
    assert builds(tmp_path) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    built._announce.cache_clear()  # as in the next process
    assert load(["avx512", "avx2"], folder).isa == "avx2"
    assert builds(tmp_path) == 2
    assert not capsys.readouterr().err
    with pytest.raises(
        LibraryError, match=r"^c\+\+ failed: c\+\+: error: unrecognized command line option '-mavx512f'$"
    ):
        load(["avx512"], folder)


@pytest.mark.parametrize(
    "said",
    [
        "c++: fatal error: Killed signal terminated program cc1plus",
        "/usr/bin/ld: final link failed: No space left on device\ncollect2: error: ld returned 1 exit status",
    ],
    ids=["no memory", "no disk"],
)
def test_a_compiler_that_the_machine_stopped_is_named_and_asked_again(compiler, tmp_path, said):
    compiler(OLD.replace("c++: error: unrecognized command line option '-mavx512f'", said))
    with pytest.raises(LibraryError, match=rf"^c\+\+ failed: {said.splitlines()[0].replace('+', '.')}$"):
        load(["avx512"], tmp_path / "other")
    (tmp_path / "log").unlink()
    for builds_so_far in (2, 3):
        assert load(["avx512", "avx2"], tmp_path / "cache").isa == "avx2"
        assert builds(tmp_path) == builds_so_far


def test_a_full_file_system_is_said_before_anything_is_compiled(compiler, tmp_path, monkeypatch):
    """Each compiler would run to its end for each path: two minutes a start."""
    compiler(WORKS)
    there = os.statvfs(tmp_path)
    full = SimpleNamespace(f_flag=there.f_flag, f_blocks=there.f_blocks, f_bavail=1, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    with pytest.raises(LibraryError, match=r"^cannot build in .*: No space left on device; XDG_CACHE_HOME "):
        load(["avx512", "avx2"], tmp_path / "cache")
    assert not (tmp_path / "log").exists()


def test_a_pipe_in_the_place_of_a_library_is_not_waited_for(compiler, tmp_path):
    compiler(WORKS)
    file = load(["avx2"], tmp_path / "cache").file
    file.unlink()
    os.mkfifo(file)
    assert load(["avx2"], tmp_path / "cache").file == file
    assert builds(tmp_path) == 2


def test_a_compiler_that_builds_nothing_is_asked_again(compiler, tmp_path):
    compiler(FAILS)
    for _ in range(2):
        with pytest.raises(LibraryError, match="no such thing"):
            load(["avx512", "avx2"], tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_the_compiler_of_the_environment_comes_first(compiler, tmp_path, monkeypatch):
    compiler(FAILS)
    own = tmp_path / "mine"
    own.write_text(WORKS.replace("cp ", f"{shutil.which('cp', path=os.defpath)} "))
    own.chmod(0o755)
    seen = tmp_path / "seen"
    script = own.read_text().replace("\n", f'\necho "$@" >> {seen}\n[ "$1" = -fsome-option ] && shift\n', 1)
    own.write_text(script)
    for number, command in enumerate((str(own), f"{own} -fsome-option", f"'{own}")):
        monkeypatch.setenv("CXX", command)
        if number < 2:
            assert load(paths_here()[:1], tmp_path / "cache").file.exists()
            assert builds(tmp_path) == number + 1
            assert ("-fsome-option" in seen.read_text()) is bool(number)
        else:  # a quotation that is not closed is no command
            with pytest.raises(LibraryError, match=r"c\+\+ failed"):
                load(paths_here()[:1], tmp_path / "cache")


def test_without_a_compiler_there_is_none(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("SPECTRA_NATIVE", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native_library() is None
    assert "no C++ compiler" in str(native_reason())
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_cache_folder_that_cannot_be_written_is_said(compiler, tmp_path):
    compiler(WORKS)
    (tmp_path / "file").write_text("")
    with pytest.raises(LibraryError, match=r"cannot build in.*XDG_CACHE_HOME"):
        load(paths_here()[:1], tmp_path / "file" / "native")


def test_nothing_is_built_where_no_program_may_run(compiler, tmp_path, monkeypatch):
    compiler(WORKS)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    with pytest.raises(LibraryError, match=r"cannot build in.*noexec.*XDG_CACHE_HOME"):
        load(paths_here(), tmp_path / "cache")
    assert not (tmp_path / "log").exists()


def test_it_can_be_turned_off_and_forced(monkeypatch):
    library()  # skips the test where there is no compiler
    monkeypatch.setenv("SPECTRA_NATIVE", "0")
    assert native_library() is None
    assert native_reason() == "SPECTRA_NATIVE=0"
    monkeypatch.delenv("SPECTRA_NATIVE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(FOLDER.parent.parent))
    for isa in paths_here():
        monkeypatch.setenv("SPECTRA_NATIVE_ISA", isa)
        forced = native_library()
        assert forced is not None
        assert forced.isa == isa
    monkeypatch.setenv("SPECTRA_NATIVE_ISA", "")
    assert native_library() is not None
    monkeypatch.setenv("SPECTRA_NATIVE_ISA", "sse")
    assert native_library() is None
    assert "sse" in str(native_reason())


def test_a_user_without_a_home_is_told_what_to_name(monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.raises(SpectraError, match=r"^XDG_CACHE_HOME: this user has no home folder; name"):
        cache_home()


@pytest.mark.skipif(os.name != "posix", reason="HOME is a home folder's name on POSIX alone")
def test_an_empty_home_is_none_and_the_systems_entry_counts(monkeypatch):
    import pwd

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(pw_dir="/of/this/user"))
    assert cache_home() == Path("/of/this/user/.cache/spectra")
    monkeypatch.setattr(pwd, "getpwuid", lambda number: {}[number])
    with pytest.raises(SpectraError, match=r"^XDG_CACHE_HOME: this user has no home folder; name"):
        cache_home()


@pytest.mark.parametrize("said", ["maybe", "false", " "])
def test_it_is_on_or_off_and_nothing_else(monkeypatch, said):
    monkeypatch.setenv("SPECTRA_NATIVE", said)
    with pytest.raises(SpectraError, match=r"^SPECTRA_NATIVE: '.*' is neither 0 nor 1; 0 turns"):
        native_library()


@pytest.mark.parametrize("said", ["avx\n2", "avx2\r", "a\u2028b", "avx2 "])
def test_a_path_with_other_signs_is_named_in_one_line(monkeypatch, tmp_path, capsys, said):
    monkeypatch.delenv("SPECTRA_NATIVE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPECTRA_NATIVE_ISA", said)
    assert native_library() is None
    assert repr(said) in str(native_reason())
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("options", [["--step", "native"], ["--weights", "int8"]])
@pytest.mark.parametrize(("said", "why"), [("sse2", "'sse2' is none of amx_bf16"), ("avx2", "avx2, which this CPU la")])
def test_what_takes_the_library_is_refused_in_one_line_without_it(monkeypatch, tmp_path, capsys, options, said, why):
    monkeypatch.delenv("SPECTRA_NATIVE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPECTRA_NATIVE_ISA", said)
    monkeypatch.setattr(built, "_cpu", lambda: Cpu("", "old", ("sse2",)))
    monkeypatch.setattr("spectra.target.load.load_network", lambda *_, **__: pytest.fail("it was loaded first"))
    assert main(["generate", "hello", *options, "--device", "cpu"]) == 2
    err = capsys.readouterr().err
    assert f"SPECTRA_NATIVE_ISA={why}" in err and err.count("\n") == 1


def test_a_model_whose_steps_torch_computes_for_want_of_it_says_so_once(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("SPECTRA_NATIVE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SPECTRA_NATIVE_ISA", "sse2")
    assert [wrap_model(make("llama")).plan.step for _ in range(2)] == ["eager", "eager"]
    assert capsys.readouterr().err.splitlines() == [
        f"no CPU step of our own ({native_reason()}); torch computes the steps"
    ]


def test_a_folder_with_a_line_break_is_named_in_one_line(compiler, tmp_path):
    compiler(WORKS)
    (tmp_path / "a\nb").write_text("")
    with pytest.raises(LibraryError, match=r"^cannot build in \S*a b/native: .*XDG_CACHE_HOME.*$") as error:
        load(paths_here()[:1], tmp_path / "a\nb" / "native")
    assert len(str(error.value).splitlines()) == 1


def test_a_cpu_without_avx2_has_none(monkeypatch):
    monkeypatch.setattr(built, "_cpu", lambda: Cpu("", "old", ("sse2",)))
    with pytest.raises(LibraryError, match="AVX2"):
        paths_here()


@pytest.mark.parametrize(("vendor", "best"), [("AuthenticAMD", "avx512_bf16"), ("GenuineIntel", "avx512_fma")])
def test_bf16_products_are_used_where_they_are_fast(monkeypatch, vendor, best):
    features = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_bf16")
    monkeypatch.setattr(built, "_cpu", lambda: Cpu(vendor, "a name", features))
    assert paths_here()[0] == best
    assert sorted(paths_here()) == ["avx2", "avx512", "avx512_bf16", "avx512_fma"]
    monkeypatch.setattr(built, "_cpu", lambda: Cpu(vendor, "a name", (*features, "amx_tile", "amx_bf16")))
    assert paths_here()[0] == "amx_bf16"


def test_calls_from_several_threads_take_turns():
    matrix = Matrix.of(library(threads=3), torch.randn(300, 200))
    rows = [torch.randn(9, 200) for _ in range(6)]
    want, got = [matrix.product(x) for x in rows], [[] for _ in rows]

    def ask(i):
        for _ in range(30):
            got[i].append(matrix.product(rows[i]))

    asking = [threading.Thread(target=ask, args=(i,)) for i in range(len(rows))]
    for one in asking:
        one.start()
    for one in asking:
        one.join()
    assert all(torch.equal(x, want[i]) for i in range(len(rows)) for x in got[i])


FORKED = """
import os, sys, torch
from native_paths import library
from spectra.target.native.matrix import Matrix
torch.set_num_threads(1)
matrix, rows = Matrix.of(library(threads=3), torch.randn(300, 200)), torch.randn(9, 200)
want = matrix.product(rows)
child = os.fork()
if not child:
    os._exit(0 if torch.equal(matrix.product(rows), want) else 1)
sys.exit(os.waitpid(child, 0)[1] or not torch.equal(matrix.product(rows), want))
"""

PACKED_ON_BOTH_SIDES = """
import os, sys, torch
from native_paths import library
from spectra.target.native.matrix import Matrix
torch.set_num_threads(1)
cpu, rows = library(threads=3), torch.randn(9, 200)
Matrix.of(cpu, torch.randn(300, 200))
ready, packed = os.pipe()
child = os.fork()
if not child:
    os.read(ready, 1)
    Matrix.of(cpu, torch.ones(300, 200))
    os._exit(0)
matrix = Matrix.of(cpu, torch.randn(300, 200))
want = matrix.product(rows)
os.write(packed, b".")
sys.exit(os.waitpid(child, 0)[1] or not torch.equal(matrix.product(rows), want))
"""


FEW_THREADS = """
import os, resource, sys, torch
from native_paths import library
from spectra.target.native.matrix import Matrix
torch.set_num_threads(1)
weight, rows = torch.randn(300, 200), torch.randn(9, 200)
want = Matrix.of(library(threads=1), weight).product(rows)
many = Matrix.of(library(threads=64), weight)
many.product(rows[:0])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), resource.RLIM_INFINITY))  # room for a few stacks
got = many.product(rows)
threads = len(os.listdir("/proc/self/task"))
sys.exit(not torch.equal(got, want) or not 1 < threads < 40)
"""


@pytest.mark.parametrize(
    "program", [FORKED, PACKED_ON_BOTH_SIDES, FEW_THREADS], ids=["forked", "packed on both sides", "few threads"]
)
def test_a_forked_child_and_a_process_with_few_threads_compute_the_same(program):
    library()
    support = str(Path(__file__).parents[2] / "support")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([support, str(Path(__file__).parents[3])]),
        "XDG_CACHE_HOME": str(FOLDER.parent.parent),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, timeout=60)
    assert done.returncode == 0


def test_reading_takes_time():
    small, large = torch.zeros(1 << 16), torch.zeros(1 << 24)
    assert 0 < library().read_seconds([small]) < library().read_seconds([large, large])


def test_reading_is_timed_from_before_the_first_thread_begins_also_with_more_threads_than_cores():
    memory = torch.ones(32 << 20, dtype=torch.uint8)
    many = library().with_threads(8)
    assert min(many.read_seconds([memory]) for _ in range(50)) > memory.nbytes / 1e13, "ten terabytes a second"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"#!/nothing/here\n", "cannot be run"),
        (b"#!/bin/sh\necho 'native.cpp:1: error: \xe9\xff' >&2\nexit 1\n", "failed: native.cpp:1: error"),
    ],
)
def test_a_compiler_that_does_not_run_or_writes_other_bytes_is_named(compiler, tmp_path, text, why):
    compiler("")
    (tmp_path / "bin" / "c++").write_bytes(text)
    with pytest.raises(LibraryError, match=rf"c\+\+ {why}"):
        load(paths_here()[:1], tmp_path / "cache")


@pytest.mark.parametrize("version", ["", '[ "$1" = --version ] && echo one && exit\n'], ids=["at once", "building"])
def test_a_compiler_that_hangs_is_waited_for_once(compiler, tmp_path, monkeypatch, version):
    compiler(f'#!/bin/sh\n{version}echo >> "$SPECTRA_TEST_LOG"\nexec {shutil.which("sleep")} 60\n')
    shutil.copy(tmp_path / "bin" / "c++", tmp_path / "bin" / "g++")
    monkeypatch.setattr(built, "PATIENCE", 2)
    with pytest.raises(LibraryError, match=r"c\+\+ did not end within"):
        load(["avx512", "avx2"], tmp_path / "cache")
    assert builds(tmp_path) == 1
    assert not list((tmp_path / "cache").glob("*"))


def test_what_a_hanging_compiler_has_started_ends_with_it(compiler, tmp_path, monkeypatch):
    child = tmp_path / "child"
    compiler(f"#!/bin/sh\n{shutil.which('sleep')} 60 &\necho $! > {child}\nwait\n")
    monkeypatch.setattr(built, "PATIENCE", 2)
    with pytest.raises(LibraryError, match=r"c\+\+ did not end within"):
        load(["avx2"], tmp_path / "cache")
    state = Path(f"/proc/{int(child.read_text())}/stat")
    for _ in range(100):  # whoever inherits it may not have taken notice
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the compiler's child is still there")


def test_the_error_of_a_compiler_that_speaks_another_language_is_found(compiler, tmp_path):
    compiler("""#!/bin/sh
[ "$LC_ALL" = C ] && what=error || what=erreur
echo 'native.cpp: in main:' >&2
echo "native.cpp:3:1: $what: no such thing" >&2
exit 1
""")
    with pytest.raises(LibraryError, match=r"failed: native.cpp:3:1: error: no such thing$"):
        load(paths_here()[:1], tmp_path / "cache")


def test_a_library_without_our_functions_is_named(compiler, tmp_path, monkeypatch):
    compiler(WORKS)
    monkeypatch.setenv("SPECTRA_TEST_LIBRARY", torch._C.__file__)
    with pytest.raises(LibraryError, match=r"cannot be loaded: .*spectra_read_seconds"):
        load(paths_here()[:1], tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_the_whole_configuration_of_tiles_is_in_the_library(tmp_path):
    """GCC 12 takes 8 of its 64 bytes for read and left stores to others out: attention alone ended the program on a CPU
    with tiles."""
    source = '#include "product.h"\nextern "C" void on() { spectra::tiles_on(16); }\n'
    made = compiled(source, "amx_bf16", tmp_path)
    eight = [64, 0] * 8 + [0] * 16 + [16] * 8 + [0] * 8
    assert bytes([1, *[0] * 15, *eight]) in made.read_bytes()
