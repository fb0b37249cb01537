"""What a verb of the command line is, and what many of them share.

A verb imports what it needs when it is called, so that help comes at once.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from acl_bert.study.context import StudyContext


class Option(NamedTuple):
    """An argument of argparse."""

    name: str
    settings: dict[str, Any]


class Verb(NamedTuple):
    run: Callable[[Namespace], None]
    help: str
    options: tuple[Option, ...] = ()

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", "-")


def option(name: str, help: str, **settings: Any) -> Option:
    if settings.get("default"):
        help += " (default: %(default)s)"
    return Option(name, {"help": help, **settings})


RESULTS = option("--results", "The folder with all results.", type=Path, default=Path("results"))
STUDY = (option("--config", "The study's YAML file.", type=Path, required=True), RESULTS)
TASK = option("--task", "One of the study's tasks.", required=True)
ENCODER = option("--encoder", "One of the study's encoders.", required=True)
METHOD = option("--method", "One of the study's methods.", required=True)


def context_of(args: Namespace) -> StudyContext:
    from acl_bert.study.context import StudyContext

    return StudyContext(args.config, args.results)


def make_command(target: str, config: Path) -> str:
    """The command, as a shell takes it."""
    return f"make {target} CONFIG={shlex.quote(str(config))}"
