"""DescribeUserScramCredentials: mechanisms and iterations, never the secrets."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.credentials import describe_credentials
from oncelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse


def handle(node: Node, request: Request) -> DescribeUserScramCredentialsResponse:
    """What the metadata has now."""
    return describe_credentials(node.metadata.scram_credentials, request.message)
