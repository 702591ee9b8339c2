"""DescribeUserScramCredentials: mechanisms and iterations, never the secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.credentials import describe_credentials
from oncelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> DescribeUserScramCredentialsResponse:
    """What the metadata has now."""
    return describe_credentials(broker.metadata.scram_credentials, request.message)
