"""A `python -m spectra.serving` of our own, in a process group of its own, stopped with everything it started."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from spectra.bench.served.client import Server
from spectra.errors import SpectraError
from spectra.io.resources import package_root
from spectra.service.loading import check_model
from spectra.serving.check import MAX_K, ServedModel
from spectra.settings import check_number

READY = 600.0
STOP = 20.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How servers are started. python: the interpreter that has vLLM. k: the most guessed tokens a request and step.

    flags: of `vllm serve`, in one text.
    """

    python: str = field(default_factory=lambda: default_python())
    port: int = 8100
    model: str | None = None
    k: int = 8
    datastores: tuple[Path, ...] = ()
    flags: str = "--max-model-len 2048"

    def __post_init__(self) -> None:
        check_number("port", self.port, 1, 65535, whole=True)
        check_number("k", self.k, 1, MAX_K, whole=True)
        check_model(self.model)
        ServedModel(self.model, self.datastores)  # refuses folders that are no stores
        try:
            shlex.split(self.flags)
        except ValueError as error:
            raise SpectraError("flags", f"{self.flags[:80]!r} cannot be read ({error}); mend its quotes") from error

    def command(self, method: str | None = None, k: int | None = None) -> list[str]:
        """What starts a server. method: of drafting, None is the usual one. k: in the place of its own."""
        words = [self.python, "-m", "spectra.serving", "--port", str(self.port)]
        words += ["--method", method] if method else []
        words += ["--k", str(self.k if k is None else k)]
        words += ["--model", self.model] if self.model else []
        words += [part for store in self.datastores for part in ("--datastore", str(store.resolve()))]
        return words + shlex.split(self.flags)


class RunningServer:
    """Start with `with RunningServer(...) as server`. command: of `ServerOptions`. log: where its output goes.

    Raises SpectraError with the last lines of the log when it ends or does not answer in time.
    """

    def __init__(self, command: Sequence[str], port: int, log: Path) -> None:
        self.port = port
        self.log = log
        with log.open("wb") as output:
            try:
                self.process = subprocess.Popen(
                    command, stdout=output, stderr=subprocess.STDOUT, cwd=package_root(), start_new_session=True
                )
            except OSError as error:
                why = f"cannot run {command[0]} ({error.strerror}); name the interpreter that has vLLM"
                raise SpectraError("python", why) from error

    def __enter__(self) -> Server:
        began = time.monotonic()
        try:
            while True:
                if self.process.poll() is not None:
                    raise SpectraError("server", f"it ended at once: {self.last_lines() or 'no word'}; see {self.log}")
                if time.monotonic() - began > READY:
                    raise SpectraError("server", f"it did not answer in {READY:.0f} seconds; see {self.log}")
                try:
                    return asyncio.run(self._find())
                except (OSError, EOFError):
                    time.sleep(1.0)
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Ask the whole group to end, then make it."""
        for sign in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
                self.process.wait(STOP)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    def last_lines(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " / ".join(lines[-2:])[-400:]

    def resident(self) -> int:
        """Bytes that all processes of the group have in memory, shared pages counted once each."""
        return sum(_resident(int(entry.name)) for entry in Path("/proc").iterdir() if _group(entry) == self.process.pid)

    async def _find(self) -> Server:
        server = Server(self.port)
        await server.get("/health")
        models = json.loads(await server.get("/v1/models"))
        return Server(self.port, models["data"][0]["id"])


def _group(entry: Path) -> int:
    try:
        return os.getpgid(int(entry.name))
    except (ValueError, OSError):
        return 0


def _resident(process: int) -> int:
    try:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def default_python() -> str:
    """The interpreter that `make serve` sets up, else this one."""
    made = package_root() / ".venv-serve" / "bin" / "python"
    return str(made) if made.exists() else sys.executable
