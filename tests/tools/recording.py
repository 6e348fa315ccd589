"""The moving picture at the top of the README, docs/race.gif: the recorded race that greets a visitor, played once.

Run it as `PYTHONPATH=.:tests/support python tests/tools/recording.py`

Not a test. No model runs: the page plays the first of assets/races, and its clock is moved on by hand, a frame at a
time, so that the film is as long as the race was however slow this machine takes pictures.
"""

import argparse
import io
from pathlib import Path

from browsing import appear, serve, start_chromium
from fakes_engine import FakeEngine
from PIL import Image
from playwright.sync_api import Page, sync_playwright

FILE = Path(__file__).parents[2] / "docs" / "race.gif"
MAX_BYTES = 2_000_000
FRAME_MS = 100
HOLD_MS = 3000
COLOURS = 64
WIDTH, HEIGHT = 1040, 1200


def frames(page: Page) -> list[Image.Image]:
    """A picture of hero, legend and lanes every FRAME_MS of the race, and the end."""
    top = page.locator("#stage-race .hero").bounding_box()
    bottom = page.locator("#stage-race .lanes").bounding_box()
    assert top and bottom
    clip = {"x": 0, "y": top["y"] - 12, "width": WIDTH, "height": bottom["y"] + bottom["height"] + 12 - top["y"] + 12}
    found = []
    page.click("#stage-race [data-id=play]")
    page.mouse.move(0, 0)
    while True:
        page.clock.run_for(FRAME_MS)
        found.append(Image.open(io.BytesIO(page.screenshot(clip=clip, animations="disabled"))).convert("RGB"))
        if page.locator("#stage-race [data-id=play]").inner_text().startswith("Play"):
            return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FILE)
    chosen = parser.parse_args()
    served, url = serve(FakeEngine())
    with sync_playwright() as player:
        chromium = start_chromium(player)
        page = chromium.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light").new_page()
        page.goto(url)
        appear(page, "#stage-race .stage[data-state=done]")
        page.wait_for_timeout(1000)
        page.clock.install()
        page.clock.pause_at(page.evaluate("Date.now()") + 1000)
        film = frames(page)
        chromium.close()
    served.close()
    palette = film[-1].quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    small = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in film]
    times = [FRAME_MS] * (len(small) - 1) + [HOLD_MS]
    small[0].save(chosen.out, save_all=True, append_images=small[1:], duration=times, loop=0, optimize=True)
    size = chosen.out.stat().st_size
    print(f"{chosen.out}: {len(small)} frames, {sum(times) / 1000:.1f} s, {size / 1e6:.2f} MB")
    assert size <= MAX_BYTES, "the README must stay light: fewer colours or frames"


if __name__ == "__main__":
    main()
