"""The broker's loggers as Kafka shows them: names with their levels, changed while it runs (KIP-412).

Only for as long as the process lives, as in Kafka. Python has no FATAL and TRACE of its own: they are CRITICAL and
what lies below DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oncelog.broker.config.config_view import Wanted
from oncelog.core.metadata.configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    Change,
    malformed_changes,
    unknown_operation,
)
from oncelog.core.metadata.refusal import Refusal
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_configs import DescribeConfigsResourceResult

DYNAMIC_BROKER_LOGGER = 6
ROOT = "root"
_TRACE = 5
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": _TRACE,
}
_OURS = "oncelog"


def _names() -> list[str]:
    known = logging.getLogger().manager.loggerDict
    return [ROOT, *sorted(name for name in known if name == _OURS or name.startswith(f"{_OURS}."))]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level_name(level: int) -> str:
    return next((name for name, number in _LEVELS.items() if level >= number), "TRACE")


def logger_results(wanted: Wanted) -> list[DescribeConfigsResourceResult]:
    """Every logger of the broker, with the level in force."""
    return [
        DescribeConfigsResourceResult(
            name=name, value=_level_name(_logger(name).getEffectiveLevel()), config_source=DYNAMIC_BROKER_LOGGER
        )
        for name in _names()
        if wanted.has(name)
    ]


def alter_loggers(
    resource_name: str, node_id: int, changes: Sequence[Change], *, is_only_checked: bool
) -> Refusal | None:
    """Set levels, or with DELETE leave them to the parent logger; why not, or None. All or nothing."""
    if not resource_name.removeprefix("-").isdecimal():
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {resource_name}")
    if resource_name != str(node_id):
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {resource_name}"
        )
    fault = malformed_changes(changes) or unknown_operation(DYNAMIC_BROKER_LOGGER, changes)
    if fault is not None:
        return fault
    known = _names()
    for change in changes:
        refusal = _refusal(change, known)
        if refusal is not None:
            return refusal
    if not is_only_checked:
        for change in changes:
            _logger(change.name).setLevel(_LEVELS[change.value or ""] if change.operation == SET else logging.NOTSET)
    return None


def _refusal(change: Change, known: Sequence[str]) -> Refusal | None:
    if change.operation in (APPEND, SUBTRACT):
        verb = "APPEND" if change.operation == APPEND else "SUBTRACT"
        return Refusal(ErrorCode.INVALID_REQUEST, f"{verb} operation is not allowed for the BROKER_LOGGER resource")
    if change.name not in known:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if change.operation == DELETE:
        if change.name == ROOT:
            return Refusal(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        return None
    if change.value not in _LEVELS:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        )
    return None
