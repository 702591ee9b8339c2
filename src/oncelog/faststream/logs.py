"""The logger that a broker has unless it is given one: FastStream's, with topic, group and message in each line."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from faststream._internal.logger import DefaultLoggerStorage
from faststream._internal.logger.logging import get_broker_logger

if TYPE_CHECKING:
    from faststream._internal.basic_types import LoggerProto
    from faststream._internal.context import ContextRepo

ID_WIDTH = 20


class LoggerStorage(DefaultLoggerStorage):
    """Its columns are as wide as what the subscribers need."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 0, "group_id": 0}

    def register_subscriber(self, params: dict[str, Any]) -> None:
        """Room for its names."""
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name, "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        """The broker's, made once."""
        found = self._get_logger_ref()
        if found is None:
            columns = [f"%({name})-{width}s | " for name, width in self._widths.items() if width]
            found = get_broker_logger(
                name="oncelog",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=ID_WIDTH,
                fmt=f"%(asctime)s %(levelname)-8s - {''.join(columns)}%(message_id)-{ID_WIDTH}s - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(found)
        return found


def log_context(topic: str, group_id: str, message: Any) -> dict[str, str]:
    """What a subscriber's lines have in their columns."""
    return {"topic": topic, "group_id": group_id, "message_id": getattr(message, "message_id", "")}


ERROR = logging.ERROR
