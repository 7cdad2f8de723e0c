"""Samplers of noise on a grid, each with a proven error of every probability."""
