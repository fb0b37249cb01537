"""How every figure of a study is set up."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

COLUMNS = 4  # of panels
NO_RUN = "no finished run"


@contextmanager
def panel_figure(
    title: str, rows: Sequence[Sequence[Any]], width: float, height: float, **subplots: Any
) -> Iterator[tuple[Figure, dict[Any, Axes]]]:
    """A figure with a panel for each key in `rows`, and the panels by key.

    `width` and `height`, in inches, are a panel's; `subplots` go to `Figure.subplots`. A key that
    is None leaves a gap; without rows, the figure says that there is no run. The style
    holds inside the block.
    """
    columns = max(map(len, rows), default=1)
    size = max(6.4, width * columns), 1.6 + height * max(1, len(rows))
    # A title is set as it is written: two dollar signs in it are no mathematics.
    style = sns.axes_style("whitegrid") | {"text.parse_math": False}
    with rc_context(style), sns.plotting_context("paper", font_scale=1.05):
        # A Figure of its own, not one of pyplot's: nothing to close, and no display is looked for.
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(title, weight="bold")
        panels = {}
        if rows:
            axes = figure.subplots(len(rows), columns, squeeze=False, **subplots)
            for keys, row in zip(rows, axes, strict=True):
                for key, panel in zip([*keys, *[None] * (columns - len(keys))], row, strict=True):
                    panel.set_visible(key is not None)
                    panels[key] = panel
            panels.pop(None, None)
        else:
            figure.text(0.5, 0.5, NO_RUN, ha="center")
        yield figure, panels


def in_rows(keys: Sequence[Any], group: int = 1) -> list[list[Any]]:
    """The keys, about COLUMNS in a row; groups of so many are not broken."""
    columns = group * max(1, COLUMNS // max(1, group))
    return [list(keys[start : start + columns]) for start in range(0, len(keys), columns or 1)]


def mark_empty(panel: Axes) -> None:
    """Say that there is no run where nothing is drawn."""
    if not panel.has_data():
        panel.text(0.5, 0.5, NO_RUN, ha="center", transform=panel.transAxes)


def legend_below(figure: Figure, handles: Sequence[Line2D], **more: Any) -> None:
    figure.legend(handles=handles, loc="outside lower center", frameon=False, **more)


def entry(label: str, **style: Any) -> Line2D:
    """An entry of a legend."""
    return Line2D([], [], label=label, **style)
