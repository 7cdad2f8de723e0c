"""Users who each report a random value, and the noise that hides them in a sum (paper 001).

Use this module to describe users to `PufferfishSum`.
"""

from sklearn_puffer._sums import User, lemma_2_psi

__all__ = ["User", "lemma_2_psi"]
