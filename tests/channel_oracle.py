"""What a channel loses, by fractions and 50 digits, at every cell."""

from fractions import Fraction

import mpmath
import numpy as np

from sklearn_puffer._noise import WHOLE, IntegerRows

mpmath.mp.dps = 50


def channel(matrix):
    """Return the channel of a square matrix of shares, in parts of the sum of their row."""
    rows = []
    for row in matrix:
        total = int(sum(row))
        shares = [WHOLE * int(share) // total for share in row]
        shares[int(np.argmax(row))] += WHOLE - sum(shares)
        rows.append(shares)
    return from_shares(np.array(rows, dtype=np.int64))


def from_shares(shares):
    x, y = shares.nonzero()
    starts = np.append(0, np.cumsum(np.bincount(x, minlength=len(shares))))
    return IntegerRows(starts, y, shares[x, y])


def dense(rows):
    """Return W in fractions, as lists."""
    matrix = [[Fraction(0)] * rows.n_cells for _ in range(rows.n_cells)]
    for x in range(rows.n_cells):
        for entry in range(rows.starts[x], rows.starts[x + 1]):
            matrix[x][rows.targets[entry]] = Fraction(int(rows.shares[entry]), WHOLE)
    return matrix


def distributions_released(rows, masses):
    """Return the distribution of the released cell under each distribution, in fractions."""
    matrix = dense(rows)
    return [
        [
            sum(
                Fraction(int(p), sum(map(int, distribution))) * shares[y]
                for p, shares in zip(distribution, matrix, strict=True)
            )
            for y in range(rows.n_cells)
        ]
        for distribution in masses
    ]


def exact(p, q, notion):
    """Return the loss from p to q, in 50 digits."""
    if notion.delta:
        factor = mpmath.exp(notion.epsilon)
        return sum(
            max(real(a) - factor * real(b), mpmath.mpf(0)) for a, b in zip(p, q, strict=True)
        )
    if any(a and not b for a, b in zip(p, q, strict=True)):
        return mpmath.inf
    return max(mpmath.log(real(a / b)) for a, b in zip(p, q, strict=True) if a)


def real(fraction):
    return mpmath.mpf(fraction.numerator) / fraction.denominator
