"""What a consumer's metadata says of a topic that it reads; for commands, which look at it between polls."""

from __future__ import annotations

from oncelog.client.cluster.view import TopicView
from oncelog.client.consumer.consumer import Consumer


def known_topic(consumer: Consumer, name: str) -> TopicView | None:
    """As it was told last, `metadata_max_age_ms` ago at most; asks no broker. None: not there, or not told yet."""
    view = consumer._cluster.view.topics.get(name)
    return None if view is None or view.error_code else view
