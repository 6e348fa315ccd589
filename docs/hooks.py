"""mkdocs: the page's icon, and a link from a page to a file of the code shows the file's path, for the site holds pages
only."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\[([^\]]*)\]\(((?!https?:)[^)\s#]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """The pages, their pictures and the icon."""
    files.append(File.generated(config, "favicon.svg", abs_src_path=str(ROOT / "assets" / "favicon.svg")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with such links replaced."""
    here = Path(page.file.abs_src_path).parent

    def shown(found: re.Match[str]) -> str:
        target = (here / found[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return found[0]
        path = f"`{target.relative_to(ROOT)}`"
        return path if found[1] in (path, str(target.relative_to(ROOT)), target.name) else f"{found[1]} ({path})"

    return LINK.sub(shown, markdown)
