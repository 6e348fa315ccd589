"""Errors a user can act on: each names the field that is wrong and what to do about it, on one line."""

LONGEST = 400
"""Characters of a message. What is quoted in it may be of any length, so a longer one loses its middle."""


class SpectraError(ValueError):
    """Bad input. `str(error)` is one short line of valid Unicode: `field: what is wrong; the fix`."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        line = " ".join(f"{field}: {problem}".encode(errors="replace").decode().split())
        super().__init__(line if len(line) <= LONGEST else f"{line[:200]} ... {line[-195:]}")


class TargetBusyError(RuntimeError):
    """A second decode was started on a target that is serving one: a target serves one sequence at a time."""
