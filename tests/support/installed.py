"""An installed copy: a wheel of the checkout, and what a user does with it, each in a folder of its own."""

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0
"""Seconds until a server answers."""
DROP_IN = """
import sys
from functools import partial
from pathlib import Path
import spectra, torch
from spectra.io.resources import shipped
from spectra.target.embedded import embedded_folder
from spectra.target.known_models import learned_of
from transformers import AutoModelForCausalLM, AutoTokenizer
folder = embedded_folder()
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
tokenizer = AutoTokenizer.from_pretrained(folder)
inputs = tokenizer("Name three colours:", return_tensors="pt")
answers = {
    method: model.generate(
        **inputs, max_new_tokens=16, do_sample=False, method=method, numerics="fast",
        custom_generate=partial(spectra.generate, tokenizer=tokenizer),
    ).tolist()
    for method in ("autoregressive", "spectra-retrieval")
}
stores = [store.name for _, some in learned_of(model).stores.values() for store in some]
print(answers["autoregressive"] == answers["spectra-retrieval"], *stores, Path(spectra.__file__).parent.parent)
"""


def build_wheel(folder: Path) -> Path:
    """A wheel of this checkout, made without a network by the build backend that is installed here."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def build_native_wheel(folder: Path) -> Path:
    """A wheel with the CPU library of every path in it, for Linux on x86-64."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}, check=True)
    (wheel,) = folder.glob("*manylinux*.whl")
    return wheel


class Installed:
    """bin: where its commands are. python: the interpreter that has it. environment: what that needs. work: an empty
    folder that everything is run in."""

    def __init__(self, commands: Path, python: Path, work: Path, environment: dict[str, str] | None = None) -> None:
        self.bin, self.python, self.work = commands, python, work
        self.environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.environment |= environment or {}

    def run(self, *command: object) -> str:
        out = subprocess.run(
            [str(part) for part in command], cwd=self.work, env=self.environment, text=True, capture_output=True
        )
        assert out.returncode == 0, out.stderr[-3000:]
        return out.stdout

    def generate(self) -> dict[str, object]:
        """`spectra generate` by a method that takes a store; its report."""
        options = ["--method", "spectra-retrieval", "--max-new-tokens", "16", "--json", "report.json"]
        answer = self.run(self.bin / "spectra", "generate", "Name three colours.", *options)
        assert answer.strip()
        report: dict[str, object] = json.loads((self.work / "report.json").read_text())
        return report

    def drop_in(self) -> list[str]:
        """The drop-in: whether it wrote the text of plain decoding, its stores, where it lies."""
        return self.run(self.python, "-c", DROP_IN).split()

    def demo(self) -> dict[str, bytes]:
        """`spectra-demo`, started and asked for the page, a script and a recorded race; it is ended again."""
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        command = [str(self.bin / "spectra-demo"), "--port", str(port)]
        with (self.work / "demo.log").open("w") as log:
            server = subprocess.Popen(command, cwd=self.work, env=self.environment, stdout=log, stderr=log)
        try:
            found = {}
            for path in ("", "spectra/js/tabs/race.js", "spectra/races/bank-account.json", "config"):
                found[path] = _get(f"http://127.0.0.1:{port}/{path}", server)
            return found
        except AssertionError as error:
            error.add_note((self.work / "demo.log").read_text()[-3000:])
            raise
        finally:
            server.terminate()
            server.wait(20)


def _get(url: str, server: "subprocess.Popen[bytes]") -> bytes:
    """What is at the address, as soon as the server answers."""
    began = time.monotonic()
    while True:
        try:
            with urlopen(url, timeout=10) as response:
                body: bytes = response.read()
                return body
        except (URLError, ConnectionError):
            assert server.poll() is None and time.monotonic() - began < PATIENCE, url
            time.sleep(0.2)
