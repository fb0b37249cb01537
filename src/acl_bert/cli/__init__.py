"""Fine-tune, tune and compare the methods of a study; the workflow's rules call the same verbs."""

import argparse
import errno
import signal
import sys

from acl_bert import __version__
from acl_bert.cli import data, planning, predict, results, store, tracking, train
from acl_bert.errors import AclBertError, InputError, Interrupted

# A full disk, a spent quota, a file larger than allowed.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="acl-bert", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for room in (data, train, results, planning, tracking, store, predict):
        for verb in room.VERBS:
            own = verbs.add_parser(verb.name, help=verb.help, description=verb.help)
            for option in verb.options:
                own.add_argument(option.name, **option.settings)
            own.set_defaults(run_verb=verb.run)
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = build_parser().parse_args(arguments)
    try:
        args.run_verb(args)
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        return 128 + stop.signal_number  # as a shell reports a process that a signal ended
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except AclBertError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except OSError as error:  # a full disk, a folder without write permission
        if error.filename is None:
            raise
        remedy = "; make room and run again, what is finished stays" if error.errno in FULL else ""
        print(f"error: {error.filename}: {error.strerror}{remedy}", file=sys.stderr)
        return 1
    return 0
