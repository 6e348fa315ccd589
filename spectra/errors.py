"""Errors a user can act on: each names the field that is wrong and what to do about it, on one line."""

LONGEST = 400
"""Characters of a message. What is quoted in it may be of any length, so a longer one loses its middle."""


def one_line(text: str) -> str:
    """A message that quotes anything: short, and without characters that a terminal would act on."""
    line = "".join(one if one.isprintable() else "?" for one in " ".join(text.split()))
    return line if len(line) <= LONGEST else f"{line[:200]} ... {line[-195:]}"


class SpectraError(ValueError):
    """Bad input. `str(error)` is one short line of printable Unicode: `field: what is wrong; the fix`."""

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, one_line(problem)
        super().__init__(one_line(f"{field}: {problem}"))


class TargetBusyError(RuntimeError):
    """A second decode was started on a target that is serving one: a target has one owner at a time."""
