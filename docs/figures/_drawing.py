"""What the pictures share: a canvas, colours that are told apart in grey, a file."""

from matplotlib.figure import Figure

DARK, MIDDLE, LIGHT = "#1b3a5c", "#4f81b0", "#c9d8e6"
WARM = "#b35806"


def canvas(columns=1, width=8.0, height=3.4, **options):
    """Return a figure and its axes, without the lines that carry nothing."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False, **options)[0]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def write(figure, path):
    """Write a picture that is the same byte for byte wherever matplotlib is the same."""
    figure.savefig(path, dpi=110, metadata={"Software": None})


def written(draw, name):
    """Draw to the folder of the pictures that are part of the checkout."""
    from pathlib import Path

    draw(Path(__file__).resolve().parents[1] / "images" / f"{name}.png")
