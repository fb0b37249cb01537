"""What the tests' template runs in its forks, in the place of the command line."""

import os
import signal
import sys
import time
from pathlib import Path

from acl_bert.starting.template import Template


def main(arguments: list[str]) -> int:
    """`finetune`, then what to do."""
    match arguments[1:]:
        case ["say"]:
            print("out", os.getcwd(), os.environ.get("ONLY_HERE"), oct(os.umask(0)))
            print("err", sys.stdin.read(), file=sys.stderr)
            return 7
        case ["raise"]:
            raise RuntimeError("it went wrong")
        case ["exit"]:
            raise SystemExit("refused")
        case ["parent"]:
            print(os.getppid())
            return 0
        case ["wait", path]:
            signal.signal(signal.SIGTERM, lambda *_: Path(path).write_text("told") and os._exit(3))
            Path(path).write_text(str(os.getpid()))
            time.sleep(60)
    return 1


if __name__ == "__main__":
    Template(Path(sys.argv[1]), int(sys.argv[2]), main, idle=float(sys.argv[3])).serve()
