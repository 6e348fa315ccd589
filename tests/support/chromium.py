"""Which Chromium the browser tests drive: one that is installed, or the one that playwright downloads."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
LEFT_OUT = "tests/browser was left out: there is no Chromium here; `make browser` gets one"


def find_chromium() -> Path | None:
    """The first that starts; None where there is none, or no playwright to drive it."""
    if importlib.util.find_spec("playwright") is None:
        return None
    installed = (shutil.which(name) for name in NAMES)
    return next((Path(path) for path in installed if path and starts(path)), None) or downloaded()


def downloaded() -> Path | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        path = player.chromium.executable_path
    return Path(path) if starts(path) else None


def starts(path: str) -> bool:
    """Ubuntu has a chromium-browser that only says what to install."""
    if not Path(path).exists():
        return False
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0
