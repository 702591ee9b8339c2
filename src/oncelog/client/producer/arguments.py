"""Records, and what else only a producer is given, judged where its callers are: what is wrong is refused before it is kept.
(What any client is given is `client/arguments.py`'s.)

Rule: whatever passes here can be encoded. A record that cannot would be met when its batch is written, where nobody could
say whose it was. Right arguments cost a look at their type; the texts are made only for wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oncelog.client import arguments
from oncelog.errors import InvalidArgument, RecordTooLarge
from oncelog.types import GroupMetadata, PreparedTxnState

Headers = Iterable[tuple[str, bytes | None]]


def checked_timestamp(timestamp_ms: Any) -> int:
    """Milliseconds since 1970; -1 is what a consumer gives of a record that has none, and may be sent on."""
    hint = "milliseconds since 1970; None is now, -1 says that there is none"
    return arguments.integer("timestamp_ms", timestamp_ms, low=-1, high=arguments.INT64_MAX, hint=hint)


def of_topic(serializer: Callable[[Any], Any] | None, topic: Any) -> Callable[[Any], Any] | None:
    """The serializer for one topic's records, where it tells topics apart (`for_topic`, as `oncelog.schema` does)."""
    bind = getattr(serializer, "for_topic", None)
    return serializer if bind is None else bind(topic)


def as_bytes(what: str, content: Any, serializer: Callable[[Any], Any] | None = None) -> bytes | None:
    """A key's or value's bytes, through its serializer where there is one."""
    if serializer is not None:
        content = serializer(content)
    if content is None or content.__class__ is bytes:
        return content
    if isinstance(content, bytes | bytearray | memoryview):  # numpy's bytes are bytes too
        return bytes(content)
    hint = f"encode it, or set {what}_serializer" if serializer is None else f"that is what {what}_serializer gave"
    raise InvalidArgument(f"{what} must be bytes or None, not {type(content).__name__}: {hint}")


def each_pair(records: Any) -> Iterable[tuple[Any, Any]]:
    """Key and value of each record that `send_many` takes, one after the other."""
    if isinstance(records, str | bytes | bytearray | Mapping) or not isinstance(records, Iterable):
        raise arguments.refuse("records", records, "pairs of key and value")
    return map(key_and_value, records)


def key_and_value(pair: Any) -> tuple[Any, Any]:
    """One of the pairs that `send_many` takes."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidArgument(f"send_many takes pairs of key and value, not {arguments.shown(pair)}")
    return pair[0], pair[1]


def header_pairs(headers: Headers | Mapping[str, bytes | None]) -> tuple[tuple[str, bytes | None], ...]:
    """The headers, each a name and its content."""
    pairs: Any = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise arguments.refuse("headers", headers, "a mapping or pairs of a str and bytes")
    return tuple(map(_header, pairs))


def checked_group(group: Any) -> GroupMetadata:
    """A consumer's place in its group, or only the group's id."""
    found = GroupMetadata(group) if isinstance(group, str) else group
    if not isinstance(found, GroupMetadata):
        raise arguments.refuse("group", group, "consumer.group_metadata() or a group's id")
    for name, each in (
        ("id", found.group_id),
        ("member", found.member_id),
        ("instance", found.group_instance_id or ""),
    ):
        arguments.text(f"the {name} of group", each)
    if not found.group_id:
        raise arguments.refuse(
            "the id of group", found.group_id, "text that is not empty"
        )  # brokers' no would be final
    return found


def checked_state(state: Any) -> PreparedTxnState:
    """What `prepare_transaction` gave. Its text is not taken for it: what is not equal is aborted."""
    return arguments.prepared_state("state", state)


def _header(pair: Any) -> tuple[str, bytes | None]:
    if pair.__class__ is tuple and len(pair) == 2 and pair[0].__class__ is str and pair[1].__class__ is bytes:
        right: tuple[str, bytes] = pair
        if right[0].isascii():
            return right
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise arguments.refuse("a header", pair, "a pair of a str and bytes")
    name, content = pair
    if not isinstance(name, str):
        raise arguments.refuse(
            "the name of a header", name, "text", "decode it first" if isinstance(name, bytes) else ""
        )
    if not name.isascii():
        arguments.encoded_bytes("the name of a header", name)
    if content is None or isinstance(content, bytes):
        return name, content
    if isinstance(content, bytearray | memoryview):
        return name, bytes(content)
    raise arguments.refuse(f"header {name!r}", content, "bytes or None", "encode it")


def too_large(what: str, size_bytes: int, limit: int) -> RecordTooLarge:
    """The error of a record that no request can hold."""
    return RecordTooLarge(f"{what} of about {size_bytes} bytes is larger than max_request_size={limit}")
