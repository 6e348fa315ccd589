"""Where stock `generate` and its prompt lookup differ in half precision, as `python -m spectra.bench divergence` wrote
it."""

from pathlib import Path

from spectra.errors import SpectraError
from spectra.io.file_kinds import DIVERGENCE
from spectra.io.json_text import read_json
from visual.names import KINDS
from visual.wire.events import Event


def read_divergence(path: Path) -> Event | None:
    """What the page shows of it; None where there is no such file. Raises SpectraError for one of another kind."""
    if not path.exists():
        return None
    data = read_json(path)
    if not DIVERGENCE.fits(data) or data.get("version") != DIVERGENCE.version:
        what = f"no {DIVERGENCE.format} file of version {DIVERGENCE.version}"
        raise SpectraError("file", f"{path.name} is {what}; write it with `python -m spectra.bench divergence`")
    environment = data["environment"]
    place = f"{environment['processor']}, " if environment.get("processor") else ""
    return {
        "model": data["model"],
        "dtype": KINDS.get(environment["dtype"], environment["dtype"]),
        "place": f"{place}{data['recorded']}",
        "prompt": data["prompt"],
        "before": data["before"],
        "index": data["index"],
        "tokens": [token["text"] for token in data["tokens"]],
        "after": data["after"],
        "stock": {name: data["stock"][name] for name in ("alone", "wide", "rows")},
        "exact": {name: data["exact"][name] for name in ("alone", "wide", "rows", "tokens")},
    }
