"""The certificate of a noisy descent: the promise about its released weights, and the evidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sklearn_puffer._base import Document, Page, Section, shown
from sklearn_puffer._releases import made_line
from sklearn_puffer.notions import RenyiPufferfish

SCHEMA = "sklearn_puffer.sgd_certificate/2"


@dataclass(frozen=True)
class SGDCertificate(Document):
    r"""What the released weights of a noisy gradient descent promise, and the evidence.

    Attributes
    ----------
    epsilon, alpha : float
        The budget in nats, and the Renyi order.
    loss : float
        Proven bound on the Renyi divergence, in nats, of what is released; with the rounding of
        numbers and noise.
    sigma : float
        Standard deviation of the noise of each weight, in the units of the weights; that of the
        intercept is ``intercept_scaling`` times as large.
    noise_at : {"end", "steps"}
        Where it was added.
    n_records, n_steps, batch_size : int
    n_averaged : int
        Of how many steps, the last ones, the mean is released.
    learning_rate, contraction : float
        eta, and the contraction of a step.
    gradient_bound, sensitivity : float
        L, the length of a record's gradient at most; C, what the gradient changes at most for each
        unit that its record moves.
    correlation : str
        Between records, as declared.
    comparisons : dict of str to float
        The loss at this sigma, in nats: under the declared dependence ("this"), if no two records
        had to do with each other ("uncorrelated"), and if all records changed at once ("group
        privacy").
    sigmas : dict of str to float
        The sigma that would keep the budget in each of the three cases.
    assumptions : list of str
        Under which conditions the promise holds, in sentences.
    n_columns : int or None
        Columns of the table that was fitted, the target included.
    version, date, name, fingerprint : str
        Version of the library, time of the fit (UTC), what `named` called the table, and a digest
        of the certificate and the weights; the last three are no part of what makes two
        certificates equal.

    Notes
    -----
    *Formal guarantees.* Where ``holds`` is True, then under ``assumptions`` the laws of the
    released weights given two values of a secret record have a Renyi divergence of order alpha of
    at most ``loss`` in both directions (004, Def. 2.2 and Thm 5.2).

    Examples
    --------
    >>> from sklearn_puffer import PufferfishSGDRegressor
    >>> model = PufferfishSGDRegressor(epsilon=0.5).fit([[0.1], [0.5], [0.9]], [0.2, 0.4, 0.8])
    >>> model.certificate_.holds
    True
    """

    epsilon: float
    alpha: float
    loss: float
    sigma: float
    noise_at: str
    n_records: int
    n_steps: int
    batch_size: int
    n_averaged: int
    learning_rate: float
    contraction: float
    gradient_bound: float
    sensitivity: float
    correlation: str
    comparisons: Mapping[str, float]
    sigmas: Mapping[str, float]
    assumptions: Sequence[str]
    n_columns: int | None = None
    version: str = ""
    date: str = field(default="", compare=False)
    fingerprint: str = field(default="", compare=False)
    name: str = field(default="", compare=False)

    @property
    def notion(self) -> RenyiPufferfish:
        """The notion of privacy that is promised."""
        return RenyiPufferfish(self.epsilon, self.alpha)

    @property
    def holds(self) -> bool:
        """Whether the proven loss is within the budget."""
        return self.loss <= self.epsilon

    def promise(self) -> str:
        """Return the promise in one sentence."""
        told = self.notion.promise().replace("secrets", "values of a secret record")
        return f"Whoever sees the released weights, and knows the prior, can {told}."

    def to_dict(self) -> dict[str, Any]:
        """Return the certificate as plain Python values, for JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if math.isinf(self.sensitivity):
            values["sensitivity"] = "infinity"
        values["comparisons"], values["sigmas"] = dict(self.comparisons), dict(self.sigmas)
        values["assumptions"] = list(self.assumptions)
        return {"schema": SCHEMA, "promise": self.promise(), "holds": self.holds, **values}

    def _page(self) -> Page:
        of = f" of {shown(self.name)}" if self.name else ""
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        return Page(
            f"Certificate{of}: {verdict} for records of the declared correlation "
            f"({self.correlation})",
            self._lines(),
            [self._comparison(), Section("Assumptions", sentences=self.assumptions)],
        )

    def _lines(self) -> list[str]:
        where = "the last step alone" if self.noise_at == "end" else "every step"
        if self.n_averaged > 1:
            where = f"the mean of the last {self.n_averaged} steps"
        rows = f"{self.n_records} records"
        return [
            f"Budget: {self.notion.budget_name()}; proven loss {self.loss:.6g}.",
            self.promise(),
            "The prior is what somebody may know before the release: the law of all records, that "
            "is how probable their values are, and how they depend on each other.",
            f"Gaussian noise of standard deviation {self.sigma:.6g} at {where}; "
            f"{self.n_steps} steps of {self.batch_size} records; learning rate "
            f"{self.learning_rate:.6g}.",
            made_line(self.version, self.date, rows, self.n_columns),
        ]

    def _comparison(self) -> Section:
        cells = [["records", "loss", "sigma"]] + [
            [name, f"{self.comparisons[name]:.6g}", f"{self.sigmas[name]:.6g}"]
            for name in self.comparisons
        ]
        note = (
            "loss: a proven bound on the Renyi divergence at the noise above, in nats; sigma: the "
            "standard deviation of the noise that the budget needs; this: as declared; "
            "uncorrelated: no record has to do with another; group privacy: all records change at "
            "once"
        )
        return Section("Loss and noise by how records depend on each other", note, cells)
