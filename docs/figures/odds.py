"""Draw what a chance may become by a release, for three budgets.

python docs/figures/odds.py
"""

import numpy as np
from _drawing import DARK, LIGHT, MIDDLE, canvas, write, written

BUDGETS = {2.0: LIGHT, 1.0: MIDDLE, 0.5: DARK}


def after(chance, epsilon):
    """Return a chance whose odds were multiplied by e^epsilon."""
    return chance * np.exp(epsilon) / (1 - chance + chance * np.exp(epsilon))


def draw(path):
    """Draw a lens for each budget: between the most and the least that a chance may become."""
    chance = np.linspace(0, 1, 401)
    figure, (axis,) = canvas(width=5.2, height=4.6)
    for epsilon, colour in BUDGETS.items():
        ends = after(chance, -epsilon), after(chance, epsilon)
        axis.fill_between(chance, *ends, color=colour, label=f"epsilon {epsilon:g}")
    axis.plot([0, 1], [0, 1], color="white", linewidth=1, linestyle="--")
    most = after(0.5, 1.0)
    axis.plot(0.5, most, "o", color="black")
    axis.annotate(
        f"an even chance becomes\nat most {most:.0%} at epsilon 1",
        (0.5, most),
        (0.03, 0.92),
        arrowprops={"arrowstyle": "-"},
    )
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set(xlabel="chance of the secret before the release", ylabel="after the release")
    axis.legend(loc="lower right", frameon=False)
    write(figure, path)


if __name__ == "__main__":
    written(draw, "odds")
