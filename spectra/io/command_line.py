"""A command as it can be typed again, for reports and cards that say how they were made."""

import shlex
from collections.abc import Sequence
from pathlib import Path


def command_line(program: str, arguments: Sequence[str]) -> str:
    """Quoted where that is needed; of absolute paths only the last part."""
    return f"{program} {shlex.join(Path(one).name if one.startswith('/') else one for one in arguments)}"
