"""Where models of any depth are read: at the quarters of their layers (docs/paper.md §2.6)."""


def exit_at(depth: int, quarters: int) -> int:
    """The exit at so many quarters of the depth, rounded up: 2, 3, 5, 6 of 6."""
    return -(-depth * quarters // 4)


def quarter_exits(depth: int) -> list[int]:
    """The exits at the four quarters; fewer where the encoder has fewer layers."""
    return sorted({exit_at(depth, quarters) for quarters in (1, 2, 3, 4)})
