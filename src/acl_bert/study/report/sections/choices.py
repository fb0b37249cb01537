"""The choices that the paper leaves open, and those that this study tries otherwise."""

from collections import defaultdict

from acl_bert.config.analyses import choices as open_choices
from acl_bert.study.grids import MISSING
from acl_bert.study.report.report import Block, table
from acl_bert.study.report.sections import Material


def choices(study: Material) -> list[Block]:
    known = open_choices()
    titles = {name: (choice.title, choice.default) for name, choice in known.items()}
    tried: dict[str, list[str]] = defaultdict(list)
    for world in study.layout.audit:
        tried[world.choice].append(world.variant)
        titles[world.choice] = world.title, world.default
    rows = [
        [
            title,
            default,
            ", ".join(known[name].variants) if name in known else MISSING,
            ", ".join(tried[name]) or MISSING,
        ]
        for name, (title, default) in titles.items()
    ]
    notes = [
        "Default: that of this project's methods; where the study has another, it is a deviation."
    ]
    return [table(["choice", "default", "other values", "tried here"], rows, "Open choices", notes)]
