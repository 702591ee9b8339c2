"""The lines that an application sees."""

from __future__ import annotations

import logging

from faststream._internal.context.repository import ContextRepo

from oncelog.faststream.logs import LoggerStorage, log_context


def test_a_line_has_topic_group_and_message():
    storage = LoggerStorage()
    storage.register_subscriber(log_context("orders", "pricing", None))
    storage.register_subscriber(log_context("in", "g", None))
    logger = storage.get_logger(context=ContextRepo())
    assert storage.get_logger(context=ContextRepo()) is logger
    assert isinstance(logger, logging.Logger)
    try:
        (handler,) = logger.handlers
        record = logger.makeRecord(
            "name", logging.INFO, "file", 1, "Received", (), None, extra=log_context("in", "g", None)
        )
        (found,) = logger.filters
        found.filter(record)
        assert handler.format(record).endswith(" - in     | g       | " + " " * 20 + " - Received")
    finally:
        logger.handlers.clear()
        logger.filters.clear()
