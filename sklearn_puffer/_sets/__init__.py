"""Simultaneous confidence sets of priors, and the worst case over them."""
