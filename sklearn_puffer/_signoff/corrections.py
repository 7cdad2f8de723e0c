"""Which corrections of the papers a release rests on; `CORRECTIONS.md` has their proofs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn_puffer._base import Section

Applies = Callable[[Any], bool]

_USED: tuple[tuple[Applies, str], ...] = (
    (
        lambda c: c.strategy == "relaxed",
        "000, Eq. (11) and (12): either alone is sound in both directions, so the one that needs "
        "less noise is taken.",
    ),
    (
        lambda c: bool(c.columns),
        "000, Algorithm 1: the scale is the upper end of a bracketed search, which is within the "
        "budget; the published search need not be.",
    ),
    (
        lambda c: c.strategy in ("wasserstein", "distribution_aware"),
        "001, Lemma 3: the Wasserstein distance is taken from differences of quantiles over the "
        "merged breakpoints; the lemma holds on unit grids alone.",
    ),
    (
        lambda c: c.strategy == "monge",
        "003, Thm 2 and Cor. 2, as printed, are wrong for mixtures: the certificate recomputes the "
        "loss, and does not hold where they fail.",
    ),
    (
        lambda c: c.strategy == "approximate" and c.alpha is not None,
        "004, Thm 4.3: the max-divergence of the shift is taken, not that of order alpha.",
    ),
    (
        lambda c: c.noise == "cauchy" and len(c.columns) > 1,
        "004, Cauchy noise in several columns: the loss of the product noise is taken, since l1 "
        "costs are unsound.",
    ),
    (
        lambda c: c.delta > 0.0 and c.alpha is None,
        "004, Def. 2.1: (epsilon, delta) is promised by sets of outcomes, and not outcome by "
        "outcome.",
    ),
    (
        lambda c: len(c.utility) > 1 and c.dependence == "joint",
        "Common practice: columns that are released apart, each within epsilon, may tell more "
        "together; the joint loss of the row is what counts here.",
    ),
    (
        lambda c: any(each.whole and each.theta > 0.0 for each in c.columns),
        "Common practice: noisy values are rounded half up and never redrawn until they are in "
        "range; both can cost the promise otherwise.",
    ),
    (
        lambda c: c.releases > 1 and bool(c.columns),
        "Common practice: k releases within epsilon/k each need not be within epsilon together; "
        "their precisions are added up instead.",
    ),
)


def corrections_section(certificate: Any) -> Section:
    """Return the corrections that the settings of a certificate make use of."""
    said = [told for applies, told in _USED if applies(certificate)]
    none = "None of the statements that had to be corrected is used by these settings."
    note = "what the papers print, and what holds instead; CORRECTIONS.md has the counterexamples"
    return Section("Corrections used", note, sentences=said or [none])
