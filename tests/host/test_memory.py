"""What the allocator is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from oncelog.host.memory import keep_freed_memory
told = keep_freed_memory() if sys.argv[1] == "kept" else None
for _ in range(3):
    bytearray(4 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    bytearray(4 << 20)
print(told, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(mode: str) -> tuple[str, int]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, mode], capture_output=True, text=True, check=True)
    told, count = done.stdout.split()
    return told, int(count)


def test_freed_memory_is_used_again() -> None:
    told, count = faults("kept")
    if told == "False":
        pytest.skip("this allocator cannot be told")
    assert count < 1_000  # a thousand pages are one of the fifty buffers
