"""What a part of oncelog logs, as a command's progress on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from oncelog.cli.command import Settings


class _Notes(logging.Handler):
    """A handler that says each line."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(logging.INFO)
        self._out = settings.out

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        self._out.note(record.getMessage())


@contextmanager
def progress(settings: Settings, name: str) -> Iterator[None]:
    """While this lasts the logger `name` says its lines on stderr."""
    logger, handler = logging.getLogger(name), _Notes(settings)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
