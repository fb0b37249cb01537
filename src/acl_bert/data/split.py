"""Which rows are trained on and which choose the model: the same rows for every run."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from acl_bert.data.sources import Example
from acl_bert.data.spec import Selection, TaskSpec
from acl_bert.errors import InputError

if TYPE_CHECKING:
    import numpy as np

LIMIT_SEED = 11  # the same for every study
SAMPLE_SEED = 17  # the same for every study, method and seed


def hold_out(
    spec: TaskSpec, examples: Sequence[Example], selection: Selection
) -> tuple[list[Example], list[Example]]:
    """Split train into rows to train on and rows that choose the model, stratified and in order.

    The latter are `fraction` of all, at most `max_rows` (docs/paper.md §2.8, row
    "model selection").
    """
    size = held_out(len(examples), selection)
    return _draw(spec, examples, size, selection.seed, "selection.fraction")


def held_out(rows: int, selection: Selection) -> int:
    """How many of the train rows choose the model."""
    return min(round(selection.fraction * rows), selection.max_rows)


def limit(spec: TaskSpec, examples: list[Example], rows: int | None, name: str) -> list[Example]:
    """At most `rows` of the examples, stratified, in source order."""
    if rows is None or rows >= len(examples):
        return examples
    if any(example.label is None for example in examples):
        return examples[:rows]
    return _draw(spec, examples, rows, LIMIT_SEED, f"tasks.{spec.id}.limit.{name}")[1]


def sample(labels: "np.ndarray", rows: int | None, task: str) -> "np.ndarray":
    """The indices of at most `rows` rows, stratified and in order; all of them where None."""
    import numpy as np  # not above: the Snakefile imports this module

    if rows is None or rows >= len(labels):
        return np.arange(len(labels))
    return np.asarray(_drawn(labels.tolist(), rows, SAMPLE_SEED, task, "tuning.max_rows")[1])


def _draw(
    spec: TaskSpec, examples: Sequence[Example], size: int, seed: int, key: str
) -> tuple[list[Example], list[Example]]:
    """The rest and `size` drawn rows, both in source order and in the classes' proportions."""
    labels = [example.label or 0 for example in examples]
    rest, drawn = _drawn(labels, size, seed, spec.id, key, spec.labels)
    return [examples[i] for i in rest], [examples[i] for i in drawn]


def _drawn(
    labels: Sequence[int], size: int, seed: int, task: str, key: str, names: Sequence[str] = ()
) -> tuple[list[int], list[int]]:
    """As `_draw`, by the rows' indices. Which rows are drawn depends on the classes' order."""
    from sklearn.model_selection import train_test_split  # slow to import

    counts = Counter(labels)
    for label, count in sorted(counts.items(), key=lambda item: item[1]):
        if count < 2:
            raise InputError(
                f"tasks.{task}: class {names[label] if names else label} has {count} row of "
                f"{len(labels)}, too few to split; add rows or leave the class out"
            )
    if not len(counts) <= size <= len(labels) - len(counts):
        raise InputError(
            f"{key}: {size} of {len(labels)} rows cannot hold {len(counts)} classes on both "
            "sides; take another size"
        )
    rest, drawn = train_test_split(
        range(len(labels)), test_size=size, stratify=labels, random_state=seed
    )
    return sorted(rest), sorted(drawn)
