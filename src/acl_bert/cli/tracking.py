"""Verbs of the mirror in MLflow."""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from acl_bert.cli.verbs import STUDY, Verb, context_of, make_command, option
from acl_bert.errors import AclBertError, InputError

if TYPE_CHECKING:
    from acl_bert.study.context import StudyContext


def sync_tracking(args: Namespace) -> None:
    if not args.watch:
        sync(context_of(args))
        return
    # Before MLflow is imported, which takes its time.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the workflow

    from acl_bert.tracking.store import tracking_uri
    from acl_bert.tracking.sync import Tracker, only_tracker, watch

    context = context_of(args)
    folder = _folder(context)
    uri = tracking_uri(context.study.tracking.uri, folder)
    with only_tracker(folder, wait=True):
        os.nice(10)  # training comes first
        if not watch(Tracker(folder, uri, context.study), args.owner or os.getppid()):
            raise AclBertError(f"to complete it: {make_command('sync-tracking', args.config)}")


def sync(context: StudyContext) -> None:
    """Bring MLflow up to date once. Raises InputError where that is not possible."""
    from acl_bert.tracking.store import StoreError, complaint, tracking_uri
    from acl_bert.tracking.sync import Tracker, only_tracker

    folder = _folder(context)
    uri = tracking_uri(context.study.tracking.uri, folder)
    with only_tracker(folder, wait=False) as alone:
        if not alone:
            print(f"{folder}: another process brings MLflow up to date with this study now")
            return
        try:
            done = Tracker(folder, uri, context.study).sync()
        except StoreError as error:
            raise InputError(f"{complaint(uri, error)}; do it again once it can") from None
    print(done)
    if done.faults:
        raise InputError("\n".join(done.faults))


def _folder(context: StudyContext) -> Path:
    if not context.folder.is_dir():
        raise InputError(f"{context.folder}: no such folder; run the study first")
    return context.folder


def ui(args: Namespace) -> None:
    from acl_bert.tracking.store import StoreError
    from acl_bert.tracking.ui import serve

    context = context_of(args)
    try:
        serve(context.study.tracking.uri, context.folder, args.host, args.port)
    except StoreError as error:
        raise InputError(f"{error}; run the study first") from None


VERBS = (
    Verb(
        sync_tracking,
        "Bring MLflow up to date with the study's files.",
        (
            *STUDY,
            option("--watch", "Go on until the workflow ends.", action="store_true"),
            option("--owner", "The workflow's process id; without it, the parent's.", type=int),
        ),
    ),
    Verb(
        ui,
        "Serve MLflow's pages of the study.",
        (
            *STUDY,
            option("--host", "The address to listen on, such as 0.0.0.0.", default="127.0.0.1"),
            option("--port", "The port to listen on.", type=int, default=5000),
        ),
    ),
)
