"""Confidence sets of priors, and the extremes of a density over them."""
