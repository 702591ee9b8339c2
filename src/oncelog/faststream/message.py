"""A message as handlers and middlewares see it, made of one record or of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faststream.message import AckStatus, StreamMessage, decode_message

from oncelog.client.records import ConsumerRecord
from oncelog.errors import RecordDeserialization
from oncelog.faststream.turn import Turn, current_turn


class OncelogMessage(StreamMessage[Any]):
    """`raw_message` is the ConsumerRecord, with key, partition, offset, timestamp and all headers as bytes; or a tuple of
    them in a batch.

    `ack`, `nack` and `reject` say what becomes of it when the handler ends: until then nothing is written. The first word
    counts.
    """

    def __init__(self, *args: Any, turn: Turn | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._turn = turn

    async def ack(self) -> None:
        """Done with; what was published is written with it."""
        await super().ack()
        self._say()

    async def nack(self) -> None:
        """Nothing of it is written, and it is tried again."""
        await super().nack()
        self._say()

    async def reject(self) -> None:
        """Nothing of it is written, but a dead letter where there is a topic for these."""
        await super().reject()
        self._say()

    def _say(self) -> None:
        if self._turn is not None and self.committed is not None:
            self._turn.say(AckStatus(self.committed))


class Parser:
    """Makes messages of records."""

    async def parse_message(self, record: ConsumerRecord) -> OncelogMessage:
        """Of one record."""
        return self._message(record, record.value or b"", [record])

    async def parse_batch(self, records: Sequence[ConsumerRecord]) -> OncelogMessage:
        """Of several; headers and ids are those of the first."""
        return self._message(tuple(records), [record.value or b"" for record in records], records)

    def _message(self, raw: Any, body: Any, records: Sequence[ConsumerRecord]) -> OncelogMessage:
        each = [_texts(record) for record in records]
        first, last, headers = records[0], records[-1], each[0]
        number = f"{first.offset}" if first is last else f"{first.offset}-{last.offset}"
        return OncelogMessage(
            raw,
            body,
            headers=headers,
            batch_headers=each if raw is not first else [],
            reply_to=headers.get("reply_to", ""),
            content_type=headers.get("content-type"),
            correlation_id=headers.get("correlation_id"),
            message_id=f"{first.topic}-{first.partition}@{number}",
            turn=current_turn(),
        )

    async def decode_message(self, message: StreamMessage[Any]) -> Any:
        """The body, as its content type says, else from JSON where it is any."""
        return _decoded(message, message.raw_message)

    async def decode_batch(self, message: StreamMessage[Any]) -> list[Any]:
        """The bodies."""
        return [_decoded(await self.parse_message(record), record) for record in message.raw_message]


def _decoded(message: StreamMessage[Any], record: ConsumerRecord) -> Any:
    try:
        return decode_message(message)
    except ValueError as error:  # also what is no UTF-8
        where = record.topic_partition
        text = f"record {where}@{record.offset}: its value is not {message.content_type}, as its header says: {error}"
        raise RecordDeserialization(text, where, record.offset) from error


def _texts(record: ConsumerRecord) -> dict[str, str]:
    """FastStream's headers are text; the bytes are in the record."""
    return {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}
