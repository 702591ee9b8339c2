"""`oncelog serve` as services, scripts and tests type it, read without click: what click and the other commands need takes an
eighth of the time until a broker is ready.

What is not plain (help, a mistake, a rare option, one from the environment) is click's, which has the same options in
`commands/serve_command.py`; `tests/cli/test_plain_serve.py` holds both to the same answer. It imports nothing slow.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from oncelog.cli.signals import end_at_once, hear

if TYPE_CHECKING:
    from typing import Any, NoReturn

ONE = {"--data-dir": "data_dir", "--config": "config_file", "--log-level": "log_level"}  # the last one counts
MANY = {"--listen": "listen", "-c": "config"}
FLAGS = {"--insecure": "insecure", "--ephemeral": "ephemeral"}
LOG_LEVELS = ("debug", "info", "warning", "error")
NOT_PLAIN = ("ONCELOG_INSECURE", "_ONCELOG_COMPLETE")  # click asks the environment for them


def plain_options(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """What `serve_main` is to be given; None where click has to read it."""
    if not __debug__ or arguments[:1] != ["serve"] or any(name in environment for name in NOT_PLAIN):
        return None
    found: dict[str, Any] = {"listen": (), "config": ()}
    rest = iter(arguments[1:])
    for word in rest:
        if word in FLAGS:
            found[FLAGS[word]] = True
            continue
        value = next(rest, "")
        if not value or value.startswith("-") or not value.isprintable():
            return None
        if word in MANY:
            found[MANY[word]] += (value,)
        elif word in ONE:
            found[ONE[word]] = value
        else:
            return None
    return found if found.get("log_level", "info") in LOG_LEVELS else None


def load_and_serve(**options: Any) -> int:
    """Load the broker, and serve until a signal comes; the exit status."""
    gc.disable()  # what is imported stays: to look for garbage in it meanwhile is an eighth of the time until it is ready
    try:
        from oncelog.cli.commands.serve import serve_main
    finally:
        gc.freeze()
        gc.enable()
    return serve_main(**options)


def serve_and_exit(options: Mapping[str, Any]) -> NoReturn:
    """All of a process whose options are plain."""
    try:
        status = load_and_serve(**options)
    finally:
        end()
    sys.exit(status)


def end() -> None:
    """What a command leaves: handlers as before its event loop, and nothing for the interpreter to complain of."""
    hear(end_at_once)  # an event loop of the command's own may have put Python's handlers in their place
    _give_up_what_cannot_be_written()


def _give_up_what_cannot_be_written() -> None:
    """A full disk or a closed pipe was reported: the interpreter need not try, and complain, again at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        except ValueError:  # closed
            continue
