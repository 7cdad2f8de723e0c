"""Attack against utility: what releases and their peers are good for, and what they tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sklearn_puffer._base import Array, FloatArray, check_choice, listed, quoted
from sklearn_puffer._signoff.audit import Audit
from sklearn_puffer._signoff.drawing import COLOURS, MARKERS, WARM, Display, check_axes, label

_MEASURES = ["advantage", "auc"]
_CHANCE = {"advantage": 0.0, "auc": 0.5}
_AXES = {"advantage": "advantage of the best attack", "auc": "area under its ROC curve"}
_KEPT = "unchanged share"
_POINTS = [colour for colour in COLOURS if colour != WARM]  # that is what is allowed
_FILLS = ("full", "left", "bottom", "right", "top")
_LONGEST = 44


@dataclass(eq=False)
class TradeoffDisplay(Display):
    """What attackers reach against what the rows are still good for, a point for each audit.

    Parameters
    ----------
    names : list of str
        Of the points.
    utility : ndarray of shape (n,)
        What the released rows are good for; NaN where it was not measured.
    attack, low, high : ndarray of shape (n,)
        What the attack that reached most reached, and the ends of its interval.
    allowed : ndarray of shape (n,)
        What the promise of the release allows; NaN for a peer, which has none.
    is_peer : ndarray of bool of shape (n,)
        Whether the point is a peer of an audit.
    before : ndarray of shape (m, 2)
        For each audit the utility of the rows as they are, and what attackers reach there.
    what : str
        What the utility is.
    measure : {"advantage", "auc"}
        What the attack is measured by.

    See Also
    --------
    AuditDisplay : All attacks of one audit.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_puffer import PufferfishNoiser, TradeoffDisplay, audit
    >>> cars = [0, 5, 2, 4, 5, 0, 1, 9, 0, 3]
    >>> table = pd.DataFrame({"loan": ["no", "yes"] * 5000, "cars": cars * 1000})
    >>> audits = {}
    >>> for epsilon in (0.3, 1.0):
    ...     noiser = PufferfishNoiser(epsilon, sensitive="loan", noise="optimal").fit(table)
    ...     audits[f"optimal channel, epsilon {epsilon}"] = audit(noiser, table)
    >>> display = TradeoffDisplay.from_audits(audits)
    >>> display.what, display.allowed.round(3)
    ('unchanged share', array([0.149, 0.462]))
    >>> axes = display.ax_  # drawn, and once more by display.plot(ax=...)
    """

    names: Sequence[str]
    utility: FloatArray
    attack: FloatArray
    low: FloatArray
    high: FloatArray
    allowed: FloatArray
    is_peer: Array
    before: FloatArray
    what: str = _KEPT
    measure: str = "advantage"

    @classmethod
    def from_audits(
        cls,
        audits: Any,
        *,
        utility: str | None = None,
        measure: str = "advantage",
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Take from each audit, and each of its peers, the attack that reached most.

        Parameters
        ----------
        audits : Audit, list of Audit, or {name: Audit}
            What is compared: of the same rows and task, or the utilities are not alike.
        utility : str, default=None
            Which figure of ``Audit.utility``: ``"unchanged share"`` (the mean over columns), or
            that of a task, such as ``"AUC on true rows"``. None for the task, where all have
            one alike, and the share otherwise.
        measure : {"advantage", "auc"}, default="advantage"
            What attackers are measured by.
        ax : matplotlib Axes, default=None
            To draw on; None makes a figure.
        **kwargs : dict
            For `plot`.

        Returns
        -------
        TradeoffDisplay
            Drawn, with its data, ``ax_`` and ``figure_``.

        Raises
        ------
        ModuleNotFoundError
            Without matplotlib, which the extra ``plot`` brings.
        TypeError, ValueError
            If these are no audits, or have no such figure.
        """
        check_axes(ax)
        named = _named(audits)
        check_choice(measure, "measure", _MEASURES)
        what = _figure(named, utility)
        points = [each for own in named.items() for each in _points(*own, what, len(named) > 1)]
        ends = np.array([_reached(attacks, measure) for _, attacks, _, _ in points], dtype=float)
        reached, low, high, allowed = ends.T
        peer = np.array([is_peer for _, _, _, is_peer in points])
        return cls(
            [name for name, _, _, _ in points],
            np.array([kept for _, _, kept, _ in points], dtype=float),
            reached,
            low,
            high,
            np.where(peer, np.nan, allowed),
            peer,
            np.array([_as_they_are(each, what, measure) for each in named.values()], dtype=float),
            what,
            measure,
        ).plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, options: dict[str, Any]) -> None:
        for k in range(len(self.names)):
            self._point(ax, k, options)
        hollow = {"marker": "*", "facecolors": "none", "edgecolors": "0.3", "s": 90}
        ax.scatter(*self.before.T, label="rows as they are", **hollow)
        self._allowed(ax)
        ax.axhline(_CHANCE[self.measure], color="0.6", linewidth=0.8, linestyle=":")
        of_columns = " (mean of the columns)" * (self.what == _KEPT)
        ax.set(xlabel=self.what + of_columns, ylabel=_AXES[self.measure])
        ax.legend(fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)

    def _point(self, ax: Any, k: int, options: dict[str, Any]) -> None:
        reach = np.array([[self.attack[k] - self.low[k]], [self.high[k] - self.attack[k]]])
        fill = "none" if self.is_peer[k] else _FILLS[k // len(MARKERS) % len(_FILLS)]
        told = label(self.names[k], _LONGEST) + " (peer)" * bool(self.is_peer[k])
        told += f" (no {self.what})" * math.isnan(self.utility[k])
        colour, marker = _POINTS[k % len(_POINTS)], MARKERS[k % len(MARKERS)]
        own = {"color": colour, "marker": marker, "markersize": 8}
        look = {"linestyle": "none", "fillstyle": fill, "capsize": 3, "label": told}
        place = [self.utility[k]], [self.attack[k]]
        ax.errorbar(*place, yerr=np.abs(reach), **{**own, **look, **options})

    def _allowed(self, ax: Any) -> None:
        """Draw what is allowed: a line if it is the same for all, and a mark at each otherwise."""
        ours = ~self.is_peer
        if len(np.unique(self.allowed[ours])) == 1:
            ax.axhline(self.allowed[ours][0], color=WARM, linestyle="--", label="allowed at most")
            return
        mark = {"marker": "_", "s": 300, "linewidths": 2.5, "color": WARM}
        ax.scatter(self.utility[ours], self.allowed[ours], label="allowed at most", **mark)


def _named(audits: Any) -> dict[str, Audit]:
    if isinstance(audits, Audit):
        audits = [audits]
    if isinstance(audits, list | tuple):
        audits = dict(_numbered(audits))
    if not isinstance(audits, Mapping) or not all(isinstance(a, Audit) for a in audits.values()):
        raise TypeError(
            f"audits must be an Audit, a list of these, or {{name: Audit}}, got {quoted(audits)}; "
            "audit(noiser, table) makes one."
        )
    if not audits:
        raise ValueError("audits is empty; give at least one, as audit(noiser, table) makes it.")
    return {str(name): each for name, each in audits.items()}


def _numbered(audits: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield audits under their own names, or the numbers of those that have none."""
    taken: set[str] = set()
    for k, each in enumerate(audits, start=1):
        own = getattr(each, "name", "") or ("release" if len(audits) == 1 else f"release {k}")
        name = own if own not in taken else f"{own} ({k})"
        taken.add(name)
        yield name, each


def _figure(audits: Mapping[str, Audit], utility: str | None) -> str:
    """Return which figure of utility all audits have."""
    known = [{s.what for s in each.survived} for each in audits.values()]
    shared = sorted(set.intersection(*known))
    tasks = [what for what in shared if what.endswith("on true rows")]
    if utility is None:
        return tasks[0] if tasks else _KEPT
    if utility not in shared:
        raise ValueError(
            f"utility={quoted(utility)} is no figure that every audit has, which are "
            f"{listed(shared)}; name one of these, or audit with task=."
        )
    return utility


_Point = tuple[str, Sequence[Any], float, bool]


def _points(name: str, audit: Audit, what: str, several: bool) -> Iterator[_Point]:
    yield name, audit.attacks, _kept(audit.survived, what), False
    for peer in audit.peers:
        yield (
            peer.name + f", beside {name}" * several,
            peer.attacks,
            _kept(peer.survived, what),
            True,
        )


def _kept(survived: Sequence[Any], what: str) -> float:
    return _mean(each.after for each in survived if each.what == what)


def _mean(values: Iterable[float]) -> float:
    known = [each for each in values if not math.isnan(each)]
    return float(np.mean(known)) if known else math.nan


def _reached(attacks: Sequence[Any], measure: str) -> tuple[float, ...]:
    best = max(attacks, key=lambda each: getattr(each, measure))
    return tuple(getattr(best, f"{measure}{end}") for end in ("", "_low", "_high", "_allowed"))


def _as_they_are(audit: Audit, what: str, measure: str) -> tuple[float, float]:
    reached = max((getattr(each, measure) for each in audit.control), default=math.nan)
    return _mean(s.before for s in audit.survived if s.what == what), reached
