"""What the examples share: where public tables are, and drawing where matplotlib is at hand."""

import os
from pathlib import Path


def save(folder, figures):
    """Draw each (name, size in inches, function of a figure) of ``figures`` to a PNG file."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print('No figures: matplotlib is not installed (pip install "sklearn-puffer[plot]").')
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, size, draw in figures:
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=120)
        print(f"Drawn to {path.resolve()}")


def tables_folder():
    """Return the folder that SKLEARN_PUFFER_TABLES names, or one beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("SKLEARN_PUFFER_TABLES", beside))
