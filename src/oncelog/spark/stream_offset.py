"""What Spark stores of a stream's position, as values: {"v": 1, "t": {topic: {"0": offset}}, "ids": {topic: id}, "init": {...}}.

`ids` are the topics' ids, by which a topic that was deleted and made again under the same name is told from the one that was
read; checkpoints of older versions have none. `init` is where the micro-batch began that ends here, where that is not where the
one before it ended: the first one, for Spark asks for the initial offset more than once and never stores it, one that begins a
topic anew, and one with partitions that were added.

A checkpoint of Spark's own Kafka source has {topic: {"0": offset}}: it is gone on with, and stored as ours from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.options import Offsets
from oncelog.wire.uuids import uuid_text

VERSION = 1
INITIAL = {"v": VERSION, "start": "initial"}
"""What stands for the initial offset: only a mark, for "latest" would be another offset each time it is asked for."""


@dataclass(frozen=True)
class StreamOffset:
    """A position; `offsets` is None for the mark of the initial one. `is_kafkas`: it was stored by Spark's own Kafka source."""

    offsets: Offsets | None
    topic_ids: dict[str, str] = field(default_factory=dict)
    initial: Offsets | None = None
    is_kafkas: bool = field(default=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """As Spark stores it."""
        if self.offsets is None:
            return dict(INITIAL)
        content: dict[str, Any] = {"v": VERSION, "t": to_json(self.offsets)}
        if self.topic_ids:
            content["ids"] = dict(sorted(self.topic_ids.items()))
        if self.initial is not None:
            content["init"] = to_json(self.initial)
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> StreamOffset:
        """From what Spark stored. Raises ConfigurationError."""
        try:
            if content and all(isinstance(partitions, dict) for partitions in content.values()):
                return cls(from_json(content), is_kafkas=True)
            version = content.get("v")
            if version == VERSION and "start" in content:
                return cls(None)
            if version == VERSION:
                ids = {str(topic): str(topic_id) for topic, topic_id in content.get("ids", {}).items()}
                initial = from_json(content["init"]) if "init" in content else None
                return cls(from_json(content["t"]), ids, initial)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the checkpoint has a position that cannot be read: {content!r:.200}") from error
        if content.get("v") is None:
            raise ConfigurationError(
                f"the checkpoint is of another source, take one of its own: {dict(content)!r:.200}"
            )
        raise ConfigurationError(
            f"the checkpoint has a position of version {version!r}, this oncelog knows version {VERSION}: {content!r:.200}"
        )


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as Kafka's tools print it; empty where the broker gives none."""
    return uuid_text(topic_id) if any(topic_id) else ""


def to_json(offsets: Mapping[str, Mapping[int, int]]) -> dict[str, dict[str, int]]:
    """Offsets with the keys that JSON has."""
    return {topic: {str(p): offset for p, offset in sorted(ps.items())} for topic, ps in sorted(offsets.items())}


def from_json(content: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The reverse of `to_json`."""
    return {topic: {int(p): int(offset) for p, offset in ps.items()} for topic, ps in content.items()}
