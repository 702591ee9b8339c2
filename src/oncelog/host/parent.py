"""A process that ends when the one that started it does, however that ends."""

from __future__ import annotations

import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: signal.Signals = signal.SIGTERM) -> bool:
    """From now on the system sends this process the signal when `parent`, which has started it, is gone: at once where it is
    gone already. False where the system cannot (not Linux)."""
    import ctypes  # only the processes of one machine want it, and it is 2 ms of every start

    try:
        done = bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(number)) == 0)
    except (OSError, AttributeError):
        return False
    if done and os.getppid() != parent:  # it went while this one began
        os.kill(os.getpid(), number)
    return done
