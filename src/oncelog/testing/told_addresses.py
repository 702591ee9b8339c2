"""Where answers tell addresses of brokers: found in the schemas, so that a new API or version cannot be forgotten.

A struct that has a host and a port is an address, wherever it stands: brokers of Metadata, coordinators of FindCoordinator
(the answer itself before the batched form), new leaders of Produce and Fetch (KIP-951), listeners of a quorum. But for those
where applications of Kafka Streams answer each other (KIP-1071).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oncelog.wire.api import APIS
from oncelog.wire.messages import streams_group_describe, streams_group_heartbeat
from oncelog.wire.schema import Sized, Struct

OF_APPLICATIONS = frozenset({streams_group_describe.Endpoint, streams_group_heartbeat.Endpoint})


def _inner(wire: object) -> type[Struct] | None:
    found = wire.item if isinstance(wire, Sized) and wire.kind == "array" else wire
    return found if isinstance(found, type) and issubclass(found, Struct) else None


def _is_address(cls: type[Struct]) -> bool:
    return cls not in OF_APPLICATIONS and {"host", "port"} <= {field.name for field in cls.FIELDS}


def _tells_addresses(cls: type[Struct]) -> bool:
    return _is_address(cls) or any(
        _tells_addresses(inner) for field in cls.FIELDS if (inner := _inner(field.wire)) is not None
    )


APIS_WITH_ADDRESSES = frozenset(int(key) for key, api in APIS.items() if _tells_addresses(api.response))


def told_addresses(message: Any) -> Iterator[Any]:
    """Every struct within a decoded answer that has a host and a port; those that name nobody are left out."""
    if _is_address(type(message)) and message.host and message.port >= 0:
        yield message
    for field in message.FIELDS:
        inner = _inner(field.wire)
        if inner is None or not _tells_addresses(inner):
            continue
        value = getattr(message, field.name)
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            yield from told_addresses(each)
