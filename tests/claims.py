"""Untrue claims: a strategy that claims too little, and certificates that are altered."""

import dataclasses

from sklearn_puffer.calibration import exact


def half(pairs, noise, notion):
    """Return a bound that claims half of what is lost."""
    bound = exact(pairs, noise, notion)

    class Claim:
        guess = bound.guess

        def losses(self, factor):
            return 0.5 * bound.losses(factor)

    return Claim()


def altered(certificate, **changes):
    """Return a certificate some of whose attributes are others, in whichever value they stand."""
    for name, value in changes.items():
        certificate = _altered(certificate, name, value)
    return certificate


def _altered(whole, name, value):
    part = next(each for each in vars(whole) if each == name or _holds(getattr(whole, each), name))
    inner = value if part == name else _altered(getattr(whole, part), name, value)
    return dataclasses.replace(whole, **{part: inner})


def _holds(part, name):
    inner = vars(part) if dataclasses.is_dataclass(part) else {}
    return name in inner or any(_holds(each, name) for each in inner.values())
