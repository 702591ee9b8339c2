"""What the four requests about delegation tokens have in common."""

from __future__ import annotations

import base64

from oncelog.broker.requests.request import ANONYMOUS, Request
from oncelog.host.randomness import Random

ID_SIZE_BYTES = 16


def may_ask_for_tokens(request: Request) -> bool:
    """Whoever has proven who it is, by something else than a token."""
    connection = request.connection
    return connection.principal != ANONYMOUS and not connection.is_by_token


def new_token_id(random: Random) -> str:
    """As Kafka's ids look: 22 letters, the first one no dash."""
    while True:
        found = base64.urlsafe_b64encode(random.token_bytes(ID_SIZE_BYTES)).decode("ascii").rstrip("=")
        if not found.startswith("-"):
            return found
