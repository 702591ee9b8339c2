"""What callers give a producer, judged where they are: what is wrong is refused before anything of it is kept.

Rule: whatever passes here can be encoded. A record that cannot would be met when its batch is written, where nobody could
say whose it was. Right arguments cost a look at their type; the texts are made only for wrong ones.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oncelog.errors import InvalidArgument, RecordTooLarge
from oncelog.types import GroupMetadata, OffsetAndMetadata, PreparedTxnState, TopicPartition

Headers = Iterable[tuple[str, bytes | None]]
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


def checked_topic(topic: Any) -> str:
    """A topic's name as text that can be encoded; whether the name is legal, the broker says."""
    if not isinstance(topic, str):
        hint = ": decode it" if isinstance(topic, bytes) else ""
        raise InvalidArgument(f"topic must be a str, not {shown(topic)}{hint}")
    _check_text("topic", topic)
    return topic


def whole_number(what: str, number: Any) -> int:
    """A number that is an int, or knows how to be one without loss (numpy's)."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise InvalidArgument(f"{what} must be a whole number (int), not {shown(number)}")
    return operator.index(number)


def checked_timestamp(timestamp_ms: Any) -> int:
    """Milliseconds since 1970; -1 is what a consumer gives of a record that has none, and may be sent on."""
    number: int = timestamp_ms if timestamp_ms.__class__ is int else whole_number("timestamp_ms", timestamp_ms)
    if not -1 <= number <= INT64_MAX:
        raise InvalidArgument(f"timestamp_ms={number} must be milliseconds since 1970, 0 or later; None is now")
    return number


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


def key_and_value(pair: Any) -> tuple[Any, Any]:
    """One of the pairs that `send_many` takes."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidArgument(f"send_many takes pairs of key and value, not {shown(pair)}")
    return pair[0], pair[1]


def header_pairs(headers: Headers | Mapping[str, bytes | None]) -> tuple[tuple[str, bytes | None], ...]:
    """The headers, each a name and its content."""
    pairs: Any = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise InvalidArgument(f"headers must be a mapping or pairs of a str and bytes, not {shown(headers)}")
    return tuple(map(_header, pairs))


def checked_offsets(offsets: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """What `send_offsets_to_transaction` takes: each partition's position."""
    if not isinstance(offsets, Mapping):
        raise InvalidArgument(f"offsets must be a mapping of TopicPartition to int, not {shown(offsets)}")
    return {_partition(where): _position(at) for where, at in offsets.items()}


def _partition(where: Any) -> TopicPartition:
    if not isinstance(where, tuple) or len(where) != 2:
        raise InvalidArgument(f"an offset is of a TopicPartition, not of {shown(where)}")
    return TopicPartition(checked_topic(where[0]), _within("partition", where[1], 0, INT32_MAX))


def _position(at: Any) -> OffsetAndMetadata:
    if not isinstance(at, OffsetAndMetadata):
        return OffsetAndMetadata(_within("offset", at, 0, INT64_MAX))
    _within("offset", at.offset, 0, INT64_MAX)
    _within("leader_epoch", at.leader_epoch, -1, INT32_MAX)
    if not isinstance(at.metadata, str):
        raise InvalidArgument(f"an offset's metadata must be a str, not {shown(at.metadata)}")
    _check_text("an offset's metadata", at.metadata)
    return at


def _within(what: str, number: Any, low: int, high: int) -> int:
    found = whole_number(what, number)
    if not low <= found <= high:
        raise InvalidArgument(f"{what}={found} must be {low} to {high}")
    return found


def checked_group(group: Any) -> GroupMetadata:
    """A consumer's place in its group, or only the group's id."""
    found = GroupMetadata(group) if isinstance(group, str) else group
    if not isinstance(found, GroupMetadata):
        raise InvalidArgument(f"group must be consumer.group_metadata() or a group's id, not {shown(group)}")
    for each in (found.group_id, found.member_id, found.group_instance_id or ""):
        if not isinstance(each, str):
            raise InvalidArgument(f"group must be consumer.group_metadata() or a group's id, not {shown(group)}")
        _check_text("group", each)
    return found


def checked_state(state: Any) -> PreparedTxnState:
    """What `prepare_transaction` gave. Its text is not taken for it: what is not equal is aborted."""
    if not isinstance(state, PreparedTxnState):
        raise InvalidArgument(f"state must be a PreparedTxnState, not {shown(state)}: PreparedTxnState(text) reads it")
    return state


def _header(pair: Any) -> tuple[str, bytes | None]:
    if pair.__class__ is tuple and len(pair) == 2 and pair[0].__class__ is str and pair[1].__class__ is bytes:
        right: tuple[str, bytes] = pair
        if right[0].isascii():
            return right
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InvalidArgument(f"a header must be a pair of a str and bytes, not {shown(pair)}")
    name, content = pair
    if not isinstance(name, str):
        hint = ": decode it" if isinstance(name, bytes) else ""
        raise InvalidArgument(f"the name of a header must be a str, not {shown(name)}{hint}")
    if not name.isascii():
        _check_text("the name of a header", name)
    if content is None or isinstance(content, bytes):
        return name, content
    if isinstance(content, bytearray | memoryview):
        return name, bytes(content)
    raise InvalidArgument(f"header {name!r} must be bytes or None, not {shown(content)}: encode it")


def _check_text(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f"{what} {_cut(text)} is no text: a surrogate at {error.start} cannot be encoded"
        ) from None


def too_large(what: str, size_bytes: int, limit: int) -> RecordTooLarge:
    """The error of a record that no request can hold."""
    return RecordTooLarge(f"{what} of about {size_bytes} bytes is larger than max_request_size={limit}")


def shown(value: Any) -> str:
    """A value and its type, for a text; a long one is cut."""
    return "None" if value is None else f"{_cut(value)} ({type(value).__name__})"


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
