"""Standard input, output and error of a process: they may be closed, and what is written to them may not fit."""

from __future__ import annotations

import os


def occupy() -> None:
    """Open what a service manager or `<&-` has closed: the numbers would go to what is opened next, and libuv ends a process
    (SIGABRT) that closes one of them."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
