"""Every link inside a built site, followed to files and places in them: `python tests/tools/site_links.py out/site`."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """links: what it points at. names: the places in it that can be pointed at."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = {""}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.names.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def broken(site: Path) -> list[str]:
    """A line for each link that leads nowhere. Links to other hosts are not followed."""
    pages = {file: Page(file) for file in site.rglob("*.html")}
    if not pages:
        return [f"{site.name}: no pages; build the site first"]
    found = []
    for file, page in pages.items():
        if file.name == "404.html":  # its links start at the address that it is shown under
            continue
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.exists() or (target in pages and place not in pages[target].names):
                found.append(f"{file.relative_to(site)}: {link}")
    return found


if __name__ == "__main__":
    problems = broken(Path(sys.argv[1]).resolve())
    print("\n".join(problems) or "every link inside the site leads somewhere")
    sys.exit(1 if problems else 0)
