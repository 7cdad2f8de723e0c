"""Behind `PufferfishMicroaggregator`: rows become the typical row of a group of similar ones."""
