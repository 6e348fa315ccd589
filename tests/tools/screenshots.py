"""Every tab, as docs/<tab>-light.png and -dark.png.

Run it as `PYTHONPATH=.:tests/support python tests/tools/screenshots.py`

Not a test: run it when the page has changed, on a machine that has nothing else to do: Chat and Compare show what they
measure. Names of tabs as arguments take only those; Race is taken as it greets a visitor, with the recorded race. The
pictures keep 256 colours: a third of the bytes, and no colour is off by what an eye can see.
"""

import sys
from pathlib import Path
from typing import Any

from browsing import READY, appear, serve, start_chromium
from PIL import Image
from playwright.sync_api import sync_playwright

from spectra.service.engine import Engine

DOCS = Path(__file__).parents[2] / "docs"
TIMEOUT_MS = 300_000
SIZE = {"width": 1300, "height": 900}
TABS = ("Race", "Chat", "Compare", "Datastore", "Replay", "Learn")


def prepare(page: Any, name: str) -> None:
    """What a visitor would do in this tab."""
    page.get_by_role("tab", name=name).click()
    stage = f"#stage-{name.lower()}"
    appear(page, f"{stage} :is(.stage[data-state], .chapters)")
    done = f"{stage} .stage[data-state=done]"
    if name == "Chat":
        page.fill("#field-chat-max_new_tokens input", "128")
        for number, said in enumerate(("Name three colours and what they stand for.", "Now write that as a table.")):
            page.fill("#field-chat-prompt textarea", said)
            page.click("#chat-go")
            appear(page, f"{stage} .turn:nth-child({number + 1}) .estimate")
        page.click(f"{stage} [data-id=race]")
        appear(page, f"{stage} .measured b")
    elif name == "Compare":
        page.click("#compare-go")
        appear(page, done)
    elif name == "Datastore" and page.locator("#store-go").count():
        page.click("#store-go")
        appear(page, f"{stage} .answers li")
    elif name in ("Race", "Replay"):
        appear(page, done)
    page.wait_for_timeout(2500)


def shrink(path: Path) -> None:
    with Image.open(path) as picture:
        colours = picture.convert("RGB")
    small = colours.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def main() -> None:
    served, url = serve(Engine.load())
    with sync_playwright() as player:
        chromium = start_chromium(player)
        page = chromium.new_context(viewport=SIZE, color_scheme="light", reduced_motion="reduce").new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(url)
        appear(page, READY)
        for name in sys.argv[1:] or TABS:
            prepare(page, name)
            for scheme in ("light", "dark"):
                page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", scheme == "dark")
                page.wait_for_timeout(1500)
                page.mouse.move(0, 0)
                path = DOCS / f"{name.lower()}-{scheme}.png"
                page.screenshot(path=path, full_page=True)
                shrink(path)
            page.evaluate("document.body.classList.remove('dark')")
        chromium.close()
    served.close()


if __name__ == "__main__":
    main()
