"""The command line: `python -m sklearn_puffer`, or the script `puffer`."""

from sklearn_puffer.cli.arguments import main

__all__ = ["main"]
