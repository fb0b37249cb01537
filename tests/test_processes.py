"""What a SIGTERM to one process does to those below it."""

import signal
import subprocess
import sys

import pytest

# As a Snakemake that runs a job: it installs its handler later, goes on, and waits for a shell that
# outlives the signal.
PARENT = """
import signal, subprocess, sys
from acl_bert import processes
if sys.argv[1] != "left alone":
    processes.pass_on(lambda: sys.argv[1] == "passed on")
signal.signal(signal.SIGTERM, lambda *_: print("parent got it", flush=True))
sys.exit(subprocess.call(["bash", "-c", "trap : TERM; %s -c '%s'; exit $?" % tuple(sys.argv[2:])]))
"""
CHILD = """
import signal, sys
def end(*_):
    print("child got it", flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
for line in sys.stdin: print(line, flush=True)
""".replace("'", '"')


@pytest.mark.parametrize("mode", ["passed on", "does not apply", "left alone"])
def test_it_reaches_what_a_shell_below_waits_for(mode: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, mode, sys.executable, CHILD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdin and parent.stdout
    assert parent.stdout.readline() == "ready\n"
    parent.send_signal(signal.SIGTERM)
    said = {parent.stdout.readline()}
    if mode == "passed on":
        said.add(parent.stdout.readline())
        assert said == {"parent got it\n", "child got it\n"}
        assert parent.wait() == 7
    else:
        assert said == {"parent got it\n"}
        parent.stdin.close()  # the child ends by itself
        assert parent.wait() == 0
        assert parent.stdout.read() == ""
    parent.stdin.close()
    parent.stdout.close()
