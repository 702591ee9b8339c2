"""The one exception to requests in order: an EndTxn overtakes requests that are held for other transactional ids.

A request that is held waits for the end of its id's previous transaction (`Request.hold`), and what comes behind it on its
connection waits for its turn. Clients that share a connection among transactional ids may have sent the very EndTxn behind it
that others wait for: without the exception each would wait for the other until its bound. Nothing else may overtake, and no
EndTxn that is of a held id: it would be told of the transaction before the one that it is to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from oncelog.broker.requests.request import Request
from oncelog.errors import MalformedMessage
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import decode_request_header
from oncelog.wire.schema import decode_message

_END_TXN = ApiKey.END_TXN.to_bytes(2, "big")


def may_overtake(frame: memoryview, running: Iterable[Request], serves: Callable[[int, int], bool]) -> bool:
    """Whether the request in `frame` may begin though all of these have their turn still."""
    held = {request.held_for for request in running}
    if None in held or bytes(frame[:2]) != _END_TXN:
        return False
    try:
        header, position = decode_request_header(frame)
        if not serves(header.api_key, header.api_version):
            return True  # it ends the connection
        ends: Any = decode_message(
            APIS[ApiKey.END_TXN].request, header.api_version, frame[position:], trailing="ignore"
        )
    except MalformedMessage:
        return True  # so does this
    return ends.transactional_id not in held
