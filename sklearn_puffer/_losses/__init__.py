"""Exact privacy losses of released columns and rows, as proven intervals."""
