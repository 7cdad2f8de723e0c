"""Secrets that a model tells of
=============================

Release numbers whose distributions are known from a model, and not counted from rows (paper 004,
section 6)::

    python examples/known_distances.py

A function of `closed_forms` says how far the number moves between two secrets. Noise for a shift by
that distance keeps the guarantee, whatever else the distributions are like. `PufferfishNoiser`
takes the distributions themselves as its prior, finds the noise for their own distance, and proves
its loss by code that knows nothing of the closed form.
"""

# %%
# A diffusion forgets where it began
# ----------------------------------
#
# A machine is switched on at a secret temperature, from 20 to 60 degrees, and drifts back to 40.
# Its deviation follows :math:`dX = -X\,dt + \sqrt{2}\,dB`. The temperature after five hours is
# released. Until then, two paths have come closer by a factor of :math:`e^{-5}`. (The proven delta
# is far below the budget: the proof counts what the diffusion hides itself.)

import numpy as np
import pandas as pd

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer.closed_forms import gaussian_attributes, langevin, weakly_dependent
from sklearn_puffer.couplings import w_infinity
from sklearn_puffer.notions import Pufferfish
from sklearn_puffer.priors import Discrete, GaussianMixture

bits = np.random.default_rng(0)


def normal(mean, variance):
    """Return a normal distribution."""
    return GaussianMixture([1.0], [mean], [np.sqrt(variance)])


def release(shift, rows, priors, noise="laplace", **budget):
    """Return rows without their secret, released with the noise of a strategy on distances."""
    secret, public = rows.columns
    asked = shift.calibrate(Pufferfish(**budget), noise=noise).scale
    noiser = PufferfishNoiser(
        sensitive=secret, prior=priors, noise=noise, strategy="wasserstein", **budget
    ).fit(rows)
    released = noiser.transform(rows[[public]])
    print(f"They lie {shift.distance:.4g} apart ({shift.theorem}).")
    print(f"Noise for that has scale {asked:.4g}; added is noise of {noiser.theta_[public]:.4g}.")
    print(f"Proven loss: {noiser.certificate_.loss:.4g}")
    print(noiser.certificate_.promise())
    return released


start = pd.Series(np.repeat(["20", "60"], 200)).sample(frac=1.0, random_state=0, ignore_index=True)
left = np.exp(-5.0)
ends = {each: 40.0 + left * (float(each) - 40.0) for each in ("20", "60")}
after = bits.normal(start.map(ends), np.sqrt(1.0 - left**2)).round(3)
released = release(
    langevin(1.0, times=[5.0], diameter=40.0),
    pd.DataFrame({"start": start, "after": after}),
    {each: normal(mean, 1.0 - left**2) for each, mean in ends.items()},
    noise="gaussian",
    epsilon=1.0,
    delta=1e-5,
)
print(f"deviation {after.std():.2f}, released {released['after'].std():.2f}")

# %%
# Attributes of a normal distribution
# -----------------------------------
#
# Of people whose weight and blood pressure have a correlation of 0.3 the blood pressure is released
# (in standard deviations). It shall not tell two weights apart that differ by two deviations, such
# as -1 and 1.

covariance = [[1.0, 0.3], [0.3, 1.0]]
weight = pd.Series(bits.choice(["-1", "1"], 400))
pressure = bits.normal(0.3 * weight.astype(float), np.sqrt(1.0 - 0.3**2)).round(3)
released = release(
    gaussian_attributes(covariance, released=1, secret=0, distance=2.0),
    pd.DataFrame({"weight": weight, "pressure": pressure}),
    {each: normal(0.3 * float(each), 1.0 - 0.3**2) for each in ("-1", "1")},
    epsilon=1.0,
)
print(f"deviation {pressure.std():.2f}, released {released['pressure'].std():.2f}")

# %%
# Records that depend a little on each other
# ------------------------------------------
#
# Forty neighbours answer yes or no, each like the one before with a chance of 0.55. How many said
# yes is released; what the first one said is not to be told. ``dependence`` is how far that count
# lies from what it would be if all others answered by themselves. (The two counts lie nearer to
# each other than Proposition 6.1 says, so that less noise is added.)

NEIGHBOURS = 40


def count_given(first, alike):
    """Return the distribution of the number of yes, given the first answer (0 or 1)."""
    mass = np.zeros((2, NEIGHBOURS + 1))  # the last answer, and the number of yes
    mass[first, first] = 1.0
    for _ in range(NEIGHBOURS - 1):
        no = alike * mass[0] + (1.0 - alike) * mass[1]
        yes = alike * mass[1] + (1.0 - alike) * mass[0]
        mass = np.array([no, np.roll(yes, 1)])
    return Discrete(np.arange(NEIGHBOURS + 1), mass.sum(axis=0))


answers = {"no": count_given(0, 0.55), "yes": count_given(1, 0.55)}
dependence = max(w_infinity(law, count_given(k, 0.5)) for k, law in enumerate(answers.values()))
means = {each: float(law.probabilities @ law.rows[:, 0]) for each, law in answers.items()}
print("Of 40 answers, {no:.3f} are yes if the first is no, else {yes:.3f}.".format(**means))
first = pd.Series(bits.choice(["no", "yes"], 400))
counts = [bits.choice(answers[each].rows[:, 0], p=answers[each].probabilities) for each in first]
released = release(
    weakly_dependent(1.0, dependence),
    pd.DataFrame({"first": first, "count": counts}),
    answers,
    epsilon=1.0,
)
print(f"deviation {np.std(counts):.2f}, released {released['count'].std():.2f}")
