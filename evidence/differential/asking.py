"""One verb for every API: ask anything in any version, and write the whole answer down, named as in a conversation.

Fields that a version does not have are left out of its request, so that one scenario can go through all versions. In the
answer lists are sorted (Kafka's order is that of a hash map), and what depends on the machine is left out or masked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from evidence.differential.connection import API_NAMED, Connection, send_message
from evidence.differential.connection import message as message_of
from oncelog.errors import ErrorCode
from oncelog.wire.schema import ZERO_UUID, Struct

Fields = dict[str, Any]
LEFT_OUT = {"error_message", "host", "port", "rack", "node_endpoints", "batch_index_error_message", "documentation"}
MASKED = {"cluster_id", "log_dir", "client_id", "client_host", "total_bytes", "usable_bytes", "partition_size"}
PRODUCER_IDS = {"producer_id", "ongoing_txn_producer_id"}
MEMBER_IDS = {"member_id", "leader"}
TIMES = {"timestamp", "last_timestamp", "transaction_start_time_ms"}


class AskVerb:
    """Mixed into a conversation."""

    # what the conversation has
    say: Callable[..., None]
    member: Callable[[str], str]
    producer_name: Callable[[int], str]
    time: Callable[[int], str]
    _shared: Connection

    def ask(self, api_name: str, v: int, label: str = "", **fields: Any) -> Any:
        """Send one request, write one line, give the answer."""
        self.send(api_name, v, **fields)
        return self.heard(self._shared, api_name, v, label)

    def send(self, api_name: str, v: int, *, connection: Connection | None = None, **fields: Any) -> None:
        """Send a request whose answer comes later; see `heard`."""
        request = API_NAMED[api_name].request
        kept = fields_of_version(request, v, fields)
        send_message(connection or self._shared, api_name, v, message_of(api_name, kept))

    def heard(self, connection: Connection, api_name: str, v: int, label: str = "") -> Any:
        """Wait for the answer to the oldest request of a connection, and write it down."""
        reply = connection.receive(api_name, v)[1]
        self.say(f"{api_name} v{v}{label}", *self.shown(reply, v))
        return reply

    @staticmethod
    def pause(seconds: float = 0.02) -> None:
        """Let time pass where nothing can be asked for; a conversation may not depend on how much."""
        time.sleep(seconds)

    @staticmethod
    def now_ms() -> int:
        """For records that are not to be old."""
        return time.time_ns() // 1_000_000

    def shown(self, struct: Struct, version: int) -> list[str]:
        """Each field as `name=value`, in the order of their declaration; no default of a tagged field."""
        words = []
        for field in struct.FIELDS:
            value = getattr(struct, field.name)
            if not field.in_version(version) or field.name in LEFT_OUT:
                continue
            if (field.tag is not None or field.name == "throttle_time_ms") and value == field.default:
                continue
            words.append(f"{field.name.removesuffix('_code')}={self._value(field.name, value, version)}")
        return words

    def _value(self, name: str, value: Any, version: int) -> str:
        if value is None:
            return "null"
        if isinstance(value, Struct):
            return "{" + " ".join(self.shown(value, version)) + "}"
        if isinstance(value, bytes | memoryview | bytearray) and name == "topic_id":
            return "none" if bytes(value) == ZERO_UUID else "an id"
        if isinstance(value, list | tuple) and name == "configs" and value:
            return f"[{len(value)}]"
        if isinstance(value, list | tuple):
            return "[" + " ".join(sorted(self._value(name, each, version) for each in value)) + "]"
        return self._scalar(name, value)

    def _scalar(self, name: str, value: Any) -> str:
        if name.endswith("error_code"):
            return ErrorCode(value).name
        if name in MASKED:
            return "some" if value not in ("", -1) else repr(value)
        if name in PRODUCER_IDS:
            return self.producer_name(value)
        if name in MEMBER_IDS and isinstance(value, str):
            return self.member(value)
        if name in TIMES:
            return self.time(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return repr(bytes(value))
        return repr(value)


def fields_of_version(kind: type[Struct], version: int, fields: Fields) -> Fields:
    """Those that the version has, in structures inside too."""
    known = {each.name: each for each in kind.FIELDS}
    kept: Fields = {}
    for name, value in fields.items():
        if not known[name].in_version(version):
            continue
        item = getattr(known[name].wire, "item", None)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            kept[name] = [fields_of_version(item, version, each) for each in value]
        else:
            kept[name] = value
    return kept
