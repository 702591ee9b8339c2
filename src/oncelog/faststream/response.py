"""What a handler may give instead of a plain body, and the command that a publisher makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from faststream.response import BatchPublishCommand, PublishCommand, PublishType, Response

Key = bytes | str | None


class OncelogResponse(Response):
    """A body with what Kafka's records have beside it: `return OncelogResponse(order, key=order.id)`.

    A batch publisher takes a list of them, each with a key of its own. `timestamp_ms` None: the time of the message that is
    handled, or now where there is none.
    """

    def __init__(
        self,
        body: Any,
        *,
        key: Key = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
    ) -> None:
        super().__init__(body, headers=dict(headers or {}), correlation_id=correlation_id)
        self.key, self.partition, self.timestamp_ms = key, partition, timestamp_ms

    def get_publish_key(self) -> Key:
        """The key."""
        return self.key

    def as_publish_command(self) -> OncelogPublishCommand:
        """The command; its topic is its publisher's."""
        return OncelogPublishCommand(
            self.body,
            topic="",
            key=self.key,
            partition=self.partition,
            timestamp_ms=self.timestamp_ms,
            headers=self.headers,
            correlation_id=self.correlation_id,
            _publish_type=PublishType.PUBLISH,
        )


class OncelogPublishCommand(BatchPublishCommand):
    """What middlewares see of a publication: `destination` is the topic."""

    def __init__(
        self,
        body: Any,
        /,
        *bodies: Any,
        topic: str,
        key: Key = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Mapping[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        _publish_type: PublishType,
    ) -> None:
        super().__init__(
            body,
            *bodies,
            destination=topic,
            headers=dict(headers or {}),
            correlation_id=correlation_id,
            reply_to=reply_to,
            _publish_type=_publish_type,
        )
        self.key, self.partition, self.timestamp_ms = key, partition, timestamp_ms

    @classmethod
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> OncelogPublishCommand:
        """Of a plain Response's; with `batch` a list is several bodies."""
        if isinstance(cmd, OncelogPublishCommand) and not batch:
            return cmd
        body, others = cls._parse_bodies(cmd.body, batch=batch)
        return cls(
            body,
            *others,
            topic=cmd.destination,
            key=getattr(cmd, "key", None),
            partition=getattr(cmd, "partition", None),
            timestamp_ms=getattr(cmd, "timestamp_ms", None),
            headers=cmd.headers,
            correlation_id=cmd.correlation_id,
            reply_to=cmd.reply_to,
            _publish_type=cmd.publish_type,
        )

    def of_body(self, body: Any) -> OncelogPublishCommand:
        """The command of one body of a batch; an OncelogResponse brings its own key, headers and so on."""
        its = body if isinstance(body, Response) else Response(body)
        return OncelogPublishCommand(
            its.body,
            topic=self.destination,
            key=_first(its.get_publish_key(), self.key),
            partition=_first(getattr(its, "partition", None), self.partition),
            timestamp_ms=_first(getattr(its, "timestamp_ms", None), self.timestamp_ms),
            headers={**self.headers, **its.headers},
            correlation_id=its.correlation_id or self.correlation_id,
            reply_to=self.reply_to,
            _publish_type=self.publish_type,
        )

    def headers_with(self, content_type: str | None) -> Sequence[tuple[str, Any]]:
        """All headers, text as bytes; one that is given wins over what FastStream adds."""
        added = {"content-type": content_type, "correlation_id": self.correlation_id, "reply_to": self.reply_to}
        headers = {name: each for name, each in added.items() if each} | self.headers
        return [(name, each.encode() if isinstance(each, str) else each) for name, each in headers.items()]


def _first(one: Any, other: Any) -> Any:
    return other if one is None else one
