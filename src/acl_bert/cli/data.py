"""Verbs that make what training reads, and the schema of a study's config."""

import sys
from argparse import Namespace

from acl_bert.cli.verbs import ENCODER, STUDY, TASK, Verb, context_of


def prepare(args: Namespace) -> None:
    from acl_bert.study.inputs import prepare_task

    context = context_of(args)
    prepare_task(context.study, context.folder, args.task)


def tokenise(args: Namespace) -> None:
    from acl_bert.study.inputs import tokenise_task

    context = context_of(args)
    tokenise_task(context.study, context.folder, args.task, args.encoder)


def schema(args: Namespace) -> None:
    from acl_bert.config.study import Study
    from acl_bert.files import to_json

    sys.stdout.write(to_json(Study.model_json_schema(by_alias=True)))


VERBS = (
    Verb(prepare, "Read, check and split the rows of a task.", (*STUDY, TASK)),
    Verb(tokenise, "Tokenise a prepared task for an encoder.", (*STUDY, TASK, ENCODER)),
    Verb(schema, "Print the JSON schema of a study's config."),
)
