"""What an optimal channel does not go with, refused by name and before any work."""

from __future__ import annotations

from collections.abc import Iterator

from sklearn_puffer._base import quoted
from sklearn_puffer._noiser.conditional_priors import given_priors
from sklearn_puffer._noiser.settings import COUNTED, Settings, is_model
from sklearn_puffer.calibration import exact
from sklearn_puffer.priors import GaussianMixture

_SPARE = 1.0 + 1e-6  # for the floor as it is recomputed


def check_channel(settings: Settings) -> None:
    """Refuse what a channel does not go with, and what known columns do not go with.

    Raises
    ------
    ValueError
        Naming the parameter, its value and the way out.
    """
    if settings.swap is not None:
        for reason in _reasons_against_swap(settings):
            raise ValueError(f'noise="swap" {reason}.')
        return
    if settings.channel is None:
        if settings.known is not None and (has_mixtures(settings) or settings.confidence):
            raise ValueError(
                f"known={quoted(settings.known)} needs laws of rows that are counted, given or a "
                'classifier\'s, and no Gaussian priors or confidence sets; use prior="empirical" '
                "with adversaries=None, or leave known out."
            )
        return
    for reason in _reasons(settings):
        raise ValueError(f'noise="optimal" {reason}.')
    epsilon_of_one(settings)


def epsilon_of_one(settings: Settings) -> float:
    r"""Return the budget of one draw, where all ``releases`` together have the whole one.

    .. math:: \varepsilon_1 = \varepsilon - (j - 1) \lambda

    Raises
    ------
    ValueError
        If releases are planned without a floor, or the floor leaves nothing.
    """
    epsilon, releases = settings.notion.epsilon, settings.releases
    if releases == 1:
        return epsilon
    floor = settings.channel.floor if settings.channel is not None else None
    if floor is None:
        raise ValueError(
            f'releases={releases} needs a floor with noise="optimal", for a second draw from a '
            "channel without one may tell everything; pass "
            f"noise=OptimalChannel(floor={epsilon / (2 * releases):.3g}), or releases=1."
        )
    left = epsilon - (releases - 1) * floor * _SPARE
    if left <= 0.0:
        raise ValueError(
            f"floor={floor:g} leaves nothing of epsilon={epsilon:g} for the first of "
            f"releases={releases}: epsilon - (releases - 1) floor is {left:.3g}; choose a floor "
            f"below {epsilon / (releases - 1):.3g}, or fewer releases."
        )
    return left


def _reasons(settings: Settings) -> Iterator[str]:
    """Yield what does not go with a channel, each with the way out."""
    alpha = settings.notion.to_dict().get("alpha")
    if alpha is not None:
        yield (
            f"has no Renyi promise, got alpha={alpha:g}; leave alpha out (delta= "
            'is possible), or use noise="laplace" or "gaussian"'
        )
    if has_mixtures(settings):
        yield (
            "releases rows that fit saw, and Gaussian and mixture priors are laws of all numbers; "
            'use prior="empirical" with n_bins, or noise="laplace"'
        )
    if settings.strategy is not exact:
        yield (
            f"is found for the exact loss, got strategy={quoted(settings.strategy_name)}; leave "
            'strategy out, or use noise="laplace" for the published strategies'
        )
    if settings.weights == "optimal":
        yield (
            'weighs changes in units that you set, got weights="optimal"; leave weights out for '
            "standard deviations, or pass {column: unit of change}"
        )
    if settings.dependence != "joint":
        yield (
            "protects the released row as a whole, got "
            f"dependence={quoted(settings.dependence)}; leave dependence out, or use "
            'noise="laplace"'
        )
    if settings.output != "native":
        yield (
            f"releases rows and no noise, got output={quoted(settings.output)}; leave output out, "
            'or use noise="laplace"'
        )
    if settings.missing == "propagate":
        yield (
            'releases whole rows, got missing="propagate"; fill missing values, or pass '
            'missing="category", which makes them a value of categories and booleans'
        )
    if settings.confidence is not None:
        yield (
            f"is found for one law of each secret, got adversaries={quoted(settings.confidence)}; "
            'use noise="swap", whose certificate covers sampling error, or leave it out'
        )
    for argument in settings.models:
        yield (
            "is found for laws that are counted or given, and "
            f'{argument} is a classifier, which knows wide rows; use noise="swap", or leave '
            f"{argument} out"
        )


def _reasons_against_swap(settings: Settings) -> Iterator[str]:
    """Yield what does not go with a swap, each with the way out."""
    if settings.notion.to_dict().get("alpha") is not None:
        yield "has no Renyi promise; leave alpha out (delta= is possible)"
    if settings.releases != 1:
        yield (
            f"releases rows once, got releases={settings.releases}: two swaps of the same people "
            'can tell everything; release once, or use noise="laplace"'
        )
    values = settings.swap is not None and settings.swap.cells == "values"
    given = [settings.prior, settings.fit, *settings.adversaries]
    if any(each is not None and not is_model(each) for each in given if each != COUNTED):
        yield (
            "counts what cells of rows tell, and a classifier or the default cuts rows into cells; "
            "pass a classifier as prior= and in adversaries=, or leave them out"
        )
    if values and settings.models:
        yield 'with cells="values" has no classifier; leave prior and adversaries out'
    if values and settings.swap is not None and settings.swap.within == "shuffle":
        yield 'with cells="values" has nothing to shuffle within cells; leave within out'
    for name, usual, way in (
        ("n_bins", None, "it releases the rows as they are"),
        ("output", "native", "it releases the rows as they are"),
        ("strategy", "exact", "its loss is exact"),
        ("dependence", "joint", "it protects the row as a whole"),
        ("max_rows", None, "it takes any number of rows"),
    ):
        own = settings.strategy_name if name == "strategy" else getattr(settings, name)
        if own != usual:
            yield f"does not go with {name}={quoted(own)}: {way}; leave {name} out"
    if settings.weights == "optimal":
        yield 'weighs changes in units that you set, got weights="optimal"; leave weights out'


def has_mixtures(settings: Settings) -> bool:
    """Return whether some prior is a law of all numbers."""
    return settings.fit is not None or any(
        isinstance(prior, GaussianMixture)
        for given in (settings.prior, *settings.adversaries)
        for prior in given_priors(given)
    )
