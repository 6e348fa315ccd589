"""Every tab, as docs/<tab>-light.png and -dark.png.

Run it as `PYTHONPATH=.:tests/support python tests/tools/screenshots.py`

Not a test: run it when the page has changed, on a machine that has nothing else to do: Chat and Compare show what they
measure. Names of tabs as arguments take only those; Race is taken as it greets a visitor, with the recorded race. The
pictures keep 256 colours: a third of the bytes, and no colour is off by what an eye can see. To look the page over,
--widths 390,820,1300 --out FOLDER takes them at each of these widths; --fake takes the scripted engine of the tests.
"""

import argparse
from pathlib import Path
from typing import Any

from browsing import READY, appear, see_charts, serve, start_chromium
from fakes_engine import FakeEngine
from PIL import Image
from playwright.sync_api import sync_playwright

from spectra.service.engine import Engine

DOCS = Path(__file__).parents[2] / "docs"
TIMEOUT_MS = 300_000
HEIGHT = 900
WIDTH = 1300
TABS = ("Race", "Chat", "Compare", "Datastore", "Replay", "Learn")
SCHEMES = ("light", "dark")


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tabs", nargs="*", metavar="TAB", default=list(TABS), help=", ".join(TABS))
    parser.add_argument("--widths", help="several, joined by commas")
    parser.add_argument("--out", type=Path, default=DOCS)
    parser.add_argument("--fake", action="store_true")
    chosen = parser.parse_args()
    widths = [int(width) for width in (chosen.widths or str(WIDTH)).split(",")]
    chosen.out.mkdir(parents=True, exist_ok=True)
    served, url = serve(FakeEngine() if chosen.fake else Engine.load())
    with sync_playwright() as player:
        chromium = start_chromium(player)
        size = {"width": WIDTH, "height": HEIGHT}
        page = chromium.new_context(viewport=size, color_scheme="light", reduced_motion="reduce").new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(url)
        appear(page, READY)
        for name in chosen.tabs:
            prepare(page, name)
            for width in widths:
                page.set_viewport_size({"width": width, "height": HEIGHT})
                for scheme in SCHEMES:
                    page.evaluate("(dark) => document.body.classList.toggle('dark', dark)", scheme == "dark")
                    if name in ("Race", "Replay"):  # charts are drawn only on the screen
                        see_charts(page, f"#stage-{name.lower()}")
                    page.wait_for_timeout(1500)
                    page.evaluate("scrollTo(0, 0)")
                    page.mouse.move(0, 0)
                    path = chosen.out / f"{name.lower()}-{f'{width}-' if chosen.widths else ''}{scheme}.png"
                    page.screenshot(path=path, full_page=True)
                    shrink(path)
            page.set_viewport_size(size)
            page.evaluate("document.body.classList.remove('dark')")
        chromium.close()
    served.close()


if __name__ == "__main__":
    main()
