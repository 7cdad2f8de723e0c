"""What stands behind `PufferfishNoiser`: from a table to its priors, scales and release."""
