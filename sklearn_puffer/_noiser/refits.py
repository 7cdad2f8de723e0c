"""What is lost to whoever fitted the prior's classifier to other rows of the same population."""

from __future__ import annotations

from collections.abc import Mapping

from sklearn_puffer._noiser.classifier_priors import refitted_laws
from sklearn_puffer._noiser.conditional_priors import Adversary
from sklearn_puffer._noiser.drawn_priors import N_DRAWS, draws_of
from sklearn_puffer._noiser.over_set import Around, Unknown
from sklearn_puffer._noiser.read_table import TableRead

_MOST_DRAWN = 1 << 24  # rows: 128 MB of random bits


def refits_around(read: TableRead, own: Adversary) -> Around:
    """Return what the prior's classifier knows when it is fitted anew, if that was asked for.

    Parameters
    ----------
    read : TableRead
    own : Adversary
        The laws of the classifier as it is.
    """
    settings = read.settings
    if settings.confidence is None:
        return Unknown()
    level, models = settings.confidence.level, settings.model
    fits = models.values() if isinstance(models, Mapping) else [models]
    if any(fit.is_prefit for fit in fits if fit is not None):
        return Unknown("the prior is that of a classifier which was fitted elsewhere")
    if read.rows.total > _MOST_DRAWN:
        return Unknown(f"more than {_MOST_DRAWN} rows are not drawn again")
    alone = draws_of([own], read.pairs, read.groups, level)
    if not alone.computable(settings.noise, settings.notion):
        return Unknown("the exact loss of such rows is not computed")
    drawn = [laws.adversary(read) for laws in refitted_laws(read, N_DRAWS)]
    return draws_of(drawn, read.pairs, read.groups, level)
