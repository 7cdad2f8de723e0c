"""The picture of what pairs of secrets lose: ``from_noiser`` draws it, ``plot`` draws it again.

Use this module to show what a release reveals, in a notebook or to those who decide. Tables of
plans, curves and audits are DataFrames, which draw themselves.
"""

from sklearn_puffer.displays.noisers import LossDisplay

__all__ = ["LossDisplay"]
