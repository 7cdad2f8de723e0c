"""`PufferfishSwap`: people of different secrets exchange rows."""

from sklearn_puffer._swap.estimator import PufferfishSwap
