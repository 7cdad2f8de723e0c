"""Counting in ``fit`` against polars' lazy group-by on one thread, from columns that are codes.

The whole fit, which finds the alphabets, the noise and the certificate besides, is held against the
same group-by; of numbers that are all distinct, and binned, against a second.
"""

import warnings

import numpy as np
import pandas as pd
import polars as pl
from _measure import alone, interleaved, peak_bytes

from sklearn_puffer import PufferfishNoiser
from sklearn_puffer._codes import CodeArray, Coded, count

N_COLUMNS = 10
N_SECRETS = 5
N_ATOMS = 20
N_BINS = 20


def rows(quick=False):
    n, repeats = (100_000, 1) if quick else (10_000_000, 5)
    secret, columns = _codes(n)
    frame = pl.DataFrame({"secret": secret} | {f"x{k}": codes for k, codes in enumerate(columns)})
    ours, peer = interleaved(
        lambda: _count(secret, columns), lambda: _group_by(frame), repeats=repeats
    )
    _assert_same(_count(secret, columns), _group_by(frame))
    table = pd.DataFrame({"secret": secret} | {f"x{k}": codes for k, codes in enumerate(columns)})
    fit, fit_peer = interleaved(
        lambda: _fit(table), lambda: _group_by(frame), repeats=1 if quick else 3
    )
    few = n // 10
    size = f"{n:,} x {N_COLUMNS} codes x {N_SECRETS} secrets"
    subject = f"counting, {size}"
    return [
        _against_group_by(subject, ours, peer),
        _against_group_by(f"the whole fit, {size}", fit, fit_peer),
        _binned(20_000 if quick else 1_000_000, 1 if quick else 3),
        _memory(
            subject,
            lambda: _count(secret[:few], [codes[:few] for codes in columns]),
            lambda: _count(secret, columns),
        ),
        _memory(f"the whole fit, {size}", lambda: _fit(table[:few]), lambda: _fit(table)),
    ]


def _against_group_by(subject, ours, peer):
    return {
        "name": subject,
        "ours": ours,
        "peer": "polars lazy group-by",
        "peer_value": peer,
        "ratio": ours / peer,
        "target": "<= 1 times",
        "reached": ours <= peer,
        "note": "",
    }


def _binned(n, repeats):
    generator = np.random.default_rng(0)
    secret = generator.integers(0, 2, n)
    columns = {f"x{k}": generator.normal(size=n) + 0.1 * secret for k in range(N_COLUMNS)}
    table = pd.DataFrame({"secret": secret} | columns)
    [seconds] = interleaved(lambda: _fit(table, n_bins=N_BINS), repeats=repeats)
    name = f"the whole fit, {n:,} x {N_COLUMNS} binned floats"
    return alone(name, seconds, f"{N_BINS} bins of numbers that are all distinct", limit=1.0)


def _memory(subject, on_few, on_all):
    """Return the row that tells whether memory grows with the rows."""
    small, large = peak_bytes(on_few), peak_bytes(on_all)
    return {
        "name": f"{subject}: peak memory beside the input",
        "ours": large / 2**20,
        "unit": "MiB",
        "peer": "ours at a tenth of the rows",
        "peer_value": small / 2**20,
        "ratio": large / small,
        "target": "<= 1.01 times",
        "reached": large <= 1.01 * small,
        "note": "",
    }


def _fit(table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these columns do not depend on the secret
        PufferfishNoiser(sensitive="secret", dependence="independent", **options).fit(table)


def _codes(n):
    generator = np.random.default_rng(0)
    secret = generator.integers(0, N_SECRETS, n, dtype=np.int8)
    return secret, [generator.integers(0, N_ATOMS, n, dtype=np.int8) for _ in range(N_COLUMNS)]


def _count(secret, columns):
    coded = [Coded(CodeArray(codes), N_ATOMS) for codes in columns]
    groups = [[position] for position in range(len(columns))]
    return count([Coded(CodeArray(secret), N_SECRETS)], coded, groups, len(secret))


def _group_by(frame):
    lazy = frame.lazy()
    names = [name for name in frame.columns if name != "secret"]
    return pl.collect_all([lazy.group_by("secret", name).len() for name in names])


def _assert_same(ours, tables):
    """Check that both counted the same, so that both did the work."""
    for by_secret, table in zip(ours[0], tables, strict=True):
        expected = {(secret, code): found for secret, code, found in table.iter_rows()}
        counted = {
            (secret, int(code)): int(found)
            for secret, cells in enumerate(by_secret)
            for (code,), found in zip(cells.codes, cells.counts, strict=True)
        }
        if counted != expected:
            raise AssertionError("the two counts differ")
