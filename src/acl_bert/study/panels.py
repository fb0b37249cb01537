"""How every figure of a study is set up."""

from collections.abc import Iterator
from contextlib import contextmanager

import seaborn as sns
from matplotlib.figure import Figure

COLUMNS = 4  # of panels
NO_RUN = "no finished run"


@contextmanager
def styled_figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of so many inches, and the style of what is drawn inside the block."""
    # A Figure of its own, not one of pyplot's: nothing to close, and no display is looked for.
    figure = Figure(figsize=(width, height), layout="constrained")
    with sns.axes_style("whitegrid"), sns.plotting_context("paper", font_scale=1.05):
        yield figure
