"""The Gaussian and mixture priors behind Figures 3 and 4 of paper 003.

Parameters fitted to public tables of the UCI Machine Learning Repository (CC BY 4.0); the paper
draws its fits, and prints no parameters. The mixtures are scikit-learn's, of three components.
"""

from __future__ import annotations

from sklearn_puffer.priors import GaussianMixture, PriorPair


def fitted_gaussians() -> dict[str, PriorPair]:
    """Return one Gaussian for each secret of Figures 3 and 4 of paper 003.

    Adult: years of education given race, Black (3,124 training rows) or Asian-Pac-Islander
    (1,039). Hungarian: cholesterol in mg/dl given sex, female (74 rows) or male (197).

    Returns
    -------
    dict of str to PriorPair
        Means and standard deviations (n - 1 in the denominator) of the rows.

    Examples
    --------
    >>> from sklearn_puffer.datasets import fitted_gaussians
    >>> for title, (p, q) in fitted_gaussians().items():
    ...     print(title, p.means.round(2), q.means.round(2))
    Adult [9.49] [10.96]
    Hungarian [247.68] [252.04]
    """
    return {
        title: PriorPair(*(GaussianMixture([1.0], [mean], [scale]) for mean, scale in secrets))
        for title, secrets in _GAUSSIANS.items()
    }


def fitted_mixtures() -> dict[str, PriorPair]:
    """Return the mixtures of three Gaussians for each secret of Figures 3 and 4 of paper 003.

    Returns
    -------
    dict of str to PriorPair
        The tables and secrets of `fitted_gaussians`. One component for Asian-Pac-Islander has a
        standard deviation of 0.001: a single value, 13 years.

    Examples
    --------
    >>> from sklearn_puffer.datasets import fitted_mixtures
    >>> for title, (p, q) in fitted_mixtures().items():
    ...     print(title, p.means.round(1), q.means.round(1))
    Adult [ 6.1  9.4 12.8] [ 9.2 13.  14.7]
    Hungarian [202.7 274.4 384.4] [239.3 250.9 514.5]
    """
    return {
        title: PriorPair(*(GaussianMixture(*parameters) for parameters in secrets))
        for title, secrets in _MIXTURES.items()
    }


_GAUSSIANS = {
    "Adult": ((9.48623559539, 2.29789251276), (10.9605389798, 2.81158183012)),
    "Hungarian": ((247.675675676, 62.195914086), (252.040609137, 69.7125905505)),
}

# weights, means, standard deviations
_MIXTURES = {
    "Adult": (
        (
            (0.179916357606, 0.614040287133, 0.20604335526),
            (6.08386660641, 9.3863040579, 12.7549836938),
            (1.78112198896, 0.540502822181, 1.07495384647),
        ),
        (
            (0.589475890479, 0.278073645011, 0.132450464509),
            (9.16664606287, 13.0, 14.6625740515),
            (2.23610804163, 0.001, 0.78237289604),
        ),
    ),
    "Hungarian": (
        (
            (0.490279444377, 0.432742133821, 0.0769784218018),
            (202.651906039, 274.359688027, 384.427405196),
            (23.2834284551, 37.5777540229, 50.6687550442),
        ),
        (
            (0.50355759667, 0.469848514923, 0.0265938884078),
            (239.276958459, 250.866391236, 514.466986577),
            (40.1815985248, 65.7447442368, 53.8619211457),
        ),
    ),
}
