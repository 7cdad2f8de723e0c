"""Behind `PufferfishMicroaggregator`: rows become the typical row of a group of similar ones."""

from sklearn_puffer._microaggregator.estimator import PufferfishMicroaggregator
