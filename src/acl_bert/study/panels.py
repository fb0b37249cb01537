"""How every figure of a study is set up."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = 4  # of panels
NO_RUN = "no finished run"


@contextmanager
def styled_figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of so many inches, and the style of what is drawn inside the block."""
    # A Figure of its own, not one of pyplot's: nothing to close, and no display is looked for.
    figure = Figure(figsize=(width, height), layout="constrained")
    # A title is set as it is written: two dollar signs in it are no mathematics.
    style = sns.axes_style("whitegrid") | {"text.parse_math": False}
    with rc_context(style), sns.plotting_context("paper", font_scale=1.05):
        yield figure


@contextmanager
def panel_groups(
    groups: int, size: int, width: float, height: float
) -> Iterator[tuple[Figure, list[list[Axes]]]]:
    """A figure of so many groups of `size` panels side by side, each of so many inches.

    As many groups lie in a row as COLUMNS has place for; without any, the figure says so.
    """
    across = min(max(1, COLUMNS // max(1, size)), max(1, groups))
    rows = math.ceil(groups / across)
    with styled_figure(max(6.4, width * across * size), 1.6 + height * max(1, rows)) as figure:
        panels: list[list[Axes]] = []
        if not groups:
            figure.text(0.5, 0.5, NO_RUN, ha="center")
        else:
            axes = figure.subplots(rows, across * size, squeeze=False).reshape(-1, size)
            panels = [list(group) for group in axes[:groups]]
            for panel in axes[groups:].flat:
                panel.set_visible(False)
        yield figure, panels
