"""The arguments of public calls, checked at the door: what is wrong is told to its caller, at once, and changes nothing.

Each function gives the argument as the client wants it, or raises InvalidArgument with its name, what it is, and what it
must be. A wrong one that got further would fail in the encoder, perhaps in a request that others share.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import InvalidArgument, invalid_argument
from oncelog.errors import shown as shown
from oncelog.types import OffsetAndMetadata, PreparedTxnState, TopicPartition

INT16_MAX, INT32_MAX, INT64_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
TEXT_BYTES_MAX = 32767  # the protocol's strings
INTERRUPTED_STOP_MS = 5_000

T = TypeVar("T")


refuse = invalid_argument


def is_wire_text(value: str) -> bool:
    """Whether the protocol's strings can hold it. Half of a surrogate pair cannot be encoded: a terminal gives it for bytes
    that are no UTF-8."""
    try:
        return len(value.encode()) <= TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False


def text(name: str, value: Any) -> str:
    """Text that can be sent. (No more is asked here: which names a topic or a group may have is the broker's to say.)"""
    if not isinstance(value, str):
        raise refuse(name, value, "text", "decode it first" if isinstance(value, bytes | bytearray) else "")
    size_bytes = encoded_bytes(name, value)
    if size_bytes > TEXT_BYTES_MAX:
        raise refuse(name, value, f"text of at most {TEXT_BYTES_MAX} bytes", f"these are {size_bytes}")
    return value


def encoded_bytes(name: str, value: str) -> int:
    """How many bytes a text takes; one with half of a surrogate pair is refused."""
    try:
        return len(value.encode())
    except UnicodeEncodeError as error:
        raise refuse(name, value, "text that can be encoded", str(error)) from None


def text_or_none(name: str, value: Any) -> str | None:
    """Text, or None."""
    return None if value is None else text(name, value)


def topic_name(name: str, value: Any) -> str:
    """What can be a topic's: for options that are used only later, where a broker would say so then."""
    fault = topic_name_fault(text(name, value))
    if fault is not None:
        raise InvalidArgument(f"{name}={value!r:.80} can be no topic's name: {fault}")
    return str(value)


def texts(name: str, values: Any) -> list[str]:
    """Several texts (also the keys of a mapping); a single one counts as itself, not as its letters."""
    if isinstance(values, str):
        return [text(name, values)]
    found = list(values) if isinstance(values, Mapping) else items(name, values)
    return [text(f"{name}[{index}]", value) for index, value in enumerate(found)]


def items(name: str, values: Any, *, of: str = "several") -> list[Any]:
    """What can be gone through and is no text, bytes or mapping."""
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping) or not isinstance(values, Iterable):
        raise refuse(name, values, f"a list (of {of})")
    return list(values)


def one_of(name: str, value: Any, allowed: Collection[str]) -> str:
    """One of these words."""
    if not isinstance(value, str) or value not in allowed:
        raise refuse(name, value, f"one of {', '.join(allowed)}")
    return value


def words(name: str, values: Any, allowed: Collection[str]) -> list[str]:
    """Several of these words, in capitals or not; as they are written in `allowed`."""
    known = {word.lower(): word for word in allowed}
    found = [known.get(value.lower(), value) for value in texts(name, values)]
    return [one_of(f"{name}[{index}]", word, allowed) for index, word in enumerate(found)]


def integer(name: str, value: Any, *, low: int = 0, high: int = INT32_MAX, hint: str = "") -> int:
    """A whole number within bounds, both included. A bool is none."""
    number = whole(name, value, hint=hint)
    if not low <= number <= high:
        raise refuse(name, value, f"from {low} to {high}", hint)
    return number


def whole(name: str, value: Any, *, hint: str = "") -> int:
    """A whole number: an int, or what knows how to be one without loss (numpy's). A bool is none."""
    if value.__class__ is int:
        return int(value)
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise refuse(name, value, "a whole number", hint)
    return number


def integer_or_none(name: str, value: Any, *, low: int = 0, high: int = INT32_MAX) -> int | None:
    """A whole number within bounds, or None."""
    return None if value is None else integer(name, value, low=low, high=high)


def duration_ms(name: str, value: Any) -> int:
    """How long, in whole milliseconds, at least 0."""
    return integer(name, value, hint="it is in whole milliseconds")


def stop_timeout_ms(left_by: type[BaseException] | None) -> int | None:
    """How long the end of a `with` may take: as `stop` says (None), but not for who was cancelled or interrupted, and waits."""
    return INTERRUPTED_STOP_MS if left_by is not None and not issubclass(left_by, Exception) else None


def duration_ms_or_none(name: str, value: Any) -> int | None:
    """How long, or None."""
    return None if value is None else duration_ms(name, value)


def boolean(name: str, value: Any) -> bool:
    """True or False: "false" is true to Python."""
    if not isinstance(value, bool):
        raise refuse(name, value, "True or False")
    return value


def instance(name: str, value: Any, kind: type[T], *, hint: str = "") -> T:
    """A value of this class."""
    if not isinstance(value, kind):
        raise refuse(name, value, f"a {kind.__name__}", hint)
    return value


def prepared_state(name: str, value: Any) -> PreparedTxnState:
    """A prepared transaction's identity, of numbers that one can have: a copy of one may have been given others. Its text is not
    taken for it."""
    state = instance(name, value, PreparedTxnState, hint="PreparedTxnState(text) reads it")
    try:
        is_one = PreparedTxnState(str(state)) == state
    except ValueError:
        is_one = False
    if not is_one:
        raise refuse(name, value, "a producer id and an epoch")
    return state


def mapping(name: str, value: Any, of: str) -> Mapping[Any, Any]:
    """A mapping; `of` says from what to what."""
    if not isinstance(value, Mapping):
        raise refuse(name, value, f"a mapping of {of}")
    return value


def text_mapping(name: str, value: Any) -> dict[str, str | None]:
    """A mapping of text to text or None."""
    found = mapping(name, value, "text to text")
    return {text(f"a key of {name}", key): text_or_none(f"{name}[{key!r}]", each) for key, each in found.items()}


def topic_partition(name: str, value: Any) -> TopicPartition:
    """A topic and a partition, as TopicPartition or a pair."""
    if not isinstance(value, tuple) or len(value) != 2:
        raise refuse(name, value, "a TopicPartition")
    topic, partition = value
    text(f"the topic of {name}", topic)
    number = integer(f"the partition of {name}", partition)
    if isinstance(value, TopicPartition) and number is partition:
        return value
    return TopicPartition(topic, number)


def topic_partitions(name: str, values: Any) -> list[TopicPartition]:
    """Several of them."""
    if isinstance(values, TopicPartition):
        raise refuse(name, values, "a list of TopicPartitions", "put it into [ ]")
    if not isinstance(values, Mapping):  # the keys of one are partitions as well
        values = items(name, values, of="TopicPartitions")
    return [topic_partition(f"{name}[{index}]", value) for index, value in enumerate(values)]


def offsets(name: str, values: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Positions by partition; a plain number is an offset."""
    found = mapping(name, values, "TopicPartitions to offsets")
    return {topic_partition(f"a key of {name}", tp): offset(f"{name}[{tp}]", at) for tp, at in found.items()}


def offset(name: str, value: Any) -> OffsetAndMetadata:
    """A place in a partition: a number, or one with metadata."""
    if not isinstance(value, OffsetAndMetadata):
        return OffsetAndMetadata(integer(name, value, high=INT64_MAX))
    at = integer(f"the offset of {name}", value.offset, high=INT64_MAX)
    leader_epoch = integer(f"the leader epoch of {name}", value.leader_epoch, low=-1)
    return OffsetAndMetadata(at, text(f"the metadata of {name}", value.metadata), leader_epoch, value.topic_id)


def numbers_by_partition(name: str, values: Any, *, low: int) -> dict[TopicPartition, int]:
    """A whole number (an offset, a time in milliseconds) for each partition."""
    found = mapping(name, values, "TopicPartitions to whole numbers")
    return {
        topic_partition(f"a key of {name}", tp): integer(f"{name}[{tp}]", number, low=low, high=INT64_MAX)
        for tp, number in found.items()
    }
