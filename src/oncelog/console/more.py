"""The pages beside who holds readers back: records, and what the cluster's own tools show. Address under api/v1/: its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request

from oncelog.console.cluster_pages import access, brokers, configs, quotas, topics
from oncelog.console.history import decisions, history
from oncelog.console.records import records

PAGES: dict[str, Callable[[Request], Awaitable[Any]]] = {
    "records": records,
    "history": history,
    "decisions": decisions,
    "topics": topics,
    "configs": configs,
    "access": access,
    "quotas": quotas,
    "brokers": brokers,
}
