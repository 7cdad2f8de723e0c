"""What the examples share: drawing figures to files where matplotlib is at hand."""


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
