"""Errors a user can act on: each names the field that is wrong and what to do about it, on one line."""


class SpectraError(ValueError):
    """Bad input. `str(error)` is one line: `field: what is wrong; the fix`."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(" ".join(f"{field}: {problem}".split()))


class TargetBusyError(RuntimeError):
    """A second decode was started on a target that is serving one: a target serves one sequence at a time."""
