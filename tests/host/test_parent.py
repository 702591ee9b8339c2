"""A process ends with the one that started it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

CHILD = """
import os, signal
from oncelog.host.parent import end_with_parent
assert end_with_parent(os.getppid(), signal.SIGTERM)
print("here", flush=True)
signal.pause()
"""
PARENT = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_child_gets_the_signal_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = os.pidfd_open(int(parent.stdout.readline()))
    try:
        parent.kill()
        parent.communicate()
        ready, _, _ = select.select([child], [], [], 20)
        assert ready, "the child lives on"
    finally:
        os.close(child)


def test_who_begins_when_its_parent_is_gone_ends_at_once() -> None:
    """A process that was being started when the first one was killed would live on alone, and keep the directory locked."""
    words = "from oncelog.host.parent import end_with_parent; end_with_parent(1); print('it lives on')"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, b"")
