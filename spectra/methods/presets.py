"""Methods by name. A dict, no registry: a preset of yours is one more entry."""

from spectra.budget.policy import FixedBudget
from spectra.budget.step_cost import StepCost
from spectra.errors import SpectraError
from spectra.method import Method
from spectra.methods.baselines import BASELINES
from spectra.methods.draft_models import DRAFT_MODELS
from spectra.methods.paper import LITERAL
from spectra.methods.preset import CostedTarget, Preset, Setup
from spectra.methods.resources import Resources
from spectra.methods.spectra import SPECTRA
from spectra.settings import MethodSettings, Sampling, check_functions, check_kind, check_number

PLAIN = "autoregressive"


def plain(setup: Setup) -> Method:
    """Plain decoding: no drafter, one query token a pass."""
    return Method(setup.name, [], FixedBudget(0), 0)


METHODS: dict[str, Preset] = {
    PLAIN: Preset("plain decoding, one token a forward pass: what the others are measured against", plain),
    **SPECTRA,
    **LITERAL,
    **BASELINES,
    **DRAFT_MODELS,
}


def make_method(
    name: str,
    target: CostedTarget,
    resources: Resources | None = None,
    *,
    nodes: int | None = None,
    sampling: Sampling | None = None,
    step_cost: StepCost | None = None,
    settings: MethodSettings | None = None,
    together: int = 1,
) -> Method:
    """A fresh `Method` for one answer.

    resources: stores and draft models it may draft from (default: none). nodes: the most guessed tokens a step, in
    short for that field of `settings`. sampling: the answer's, default greedy. step_cost: another device's T(q), to
    plan by it. settings: what is changed about the preset. together: how many sequences will be scored in one pass, 1
    to 4096, see `decode_many`: where rows are dear then, `spectra` has other drafters, and settings of its dictionaries
    have no effect. Raises SpectraError for an unknown name, a bad count, what is of another kind, a setting that the
    preset has not, or a store or draft model that is not there.
    """
    check_kind("resources", resources, Resources, "load_resources(target)")
    check_kind("sampling", sampling, Sampling, "Sampling(temperature=0.8)")
    check_kind("settings", settings, MethodSettings, "MethodSettings(order=4)")
    check_number("together", together, 1, 4096, whole=True)
    settings = settings or MethodSettings()
    check_method(name, settings)
    if nodes is None:
        nodes = settings.nodes
    else:
        check_number("nodes", nodes, 1, 1024, whole=True)
    check_functions("target", target, ("start",), '`load_target("MODEL")`')
    setup = Setup(name, target, resources or Resources(), nodes, sampling or Sampling(), step_cost, settings, together)
    method = METHODS[name].build(setup)
    if name != PLAIN and not method.settings:
        method.settings = {"nodes": method.max_nodes}  # every method has this one
    return method


def check_method(name: str, settings: MethodSettings | None = None) -> None:
    """Raises SpectraError for a name that is none, and for changed settings that the preset has not."""
    check_kind("method", name, str, '"spectra"', needed=True)
    if name not in METHODS:
        raise SpectraError("method", f"{name!r} is unknown; choose one of {', '.join(METHODS)}")
    takes = METHODS[name].takes
    for field in () if settings is None else settings.changed:
        if field not in takes:
            others = ", ".join(other for other, preset in METHODS.items() if field in preset.takes)
            raise SpectraError(field, f"{name} has no such setting; leave it out, or choose one of {others}")


def redraws(name: str, sampling: Sampling) -> bool:
    """Whether the preset may write another text than plain decoding, of the same distribution."""
    return not sampling.greedy and name in METHODS and METHODS[name].drawn
