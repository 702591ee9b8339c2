"""Where requests meet the authorizer: what may not pass is taken out before the handler and answered after it.

The broker's connections to itself pass: they ask on behalf of requests that were checked. They are known by the address of
their other end, which is this broker's own socket; nobody else can have it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.error_counts import errors_of
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.requests.audit import Audit, AuditValue
from oncelog.broker.requests.completion import finished
from oncelog.broker.requests.request import NO_REPLY, CloseConnection, NoReply, Outcome, Reply, Request
from oncelog.core.access.authorizer import Authorizer, Identity, super_users_of
from oncelog.core.access.checks import CHECKS
from oncelog.core.access.passage import Caller, Passage
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.produce import ProduceRequest

DENIED = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)


class Authorization:
    """The authorizer of one broker. `super.users` was checked when it was read."""

    def __init__(
        self, metadata: ClusterMetadata, config: Callable[[], BrokerConfig], metrics: Metrics, audit: Audit
    ) -> None:
        self._audit = audit
        self._metadata = metadata
        self._config = config
        self._metrics = metrics
        self._authorizer = Authorizer(
            metadata.acls,
            super_users=super_users_of(config().super_users),
            allows_without_acl=config().allow_everyone_if_no_acl_found,
            acls_version=lambda: metadata.acls_version,
        )

    def caller_of(self, request: Request) -> Caller | None:
        """Who is to be asked about; None for the broker itself, which may do everything."""
        if request.connection.is_of_broker:
            return None
        who = Identity(request.connection.principal, request.connection.client_host)
        return Caller(self._authorizer, who, self._metadata, may_create=self._config().auto_create_topics_enable)

    def handle(self, request: Request, answer: Callable[[Request], Outcome]) -> Outcome:
        """`answer`'s outcome for what of the request may pass, with the refusals put in."""
        caller = self.caller_of(request)
        check = CHECKS.get(request.api_key)
        if caller is None or check is None:
            return answer(request)
        passage = check(caller, request.message, request.api_version)
        if passage is None:
            return answer(request)
        asked = request.message
        if passage.reply is not None:
            self._metrics.add("authorization_failures")
            self._note_denials(request, caller, passage.reply)
            return _without_acks(request.api_key, asked, passage.reply)
        request.message = passage.message
        outcome = answer(request)
        if passage.complete is None:
            return outcome
        return _completed(request, asked, outcome, passage, partial(self._note_denials, request, caller))

    def _note_denials(self, request: Request, caller: Caller, reply: Reply) -> None:
        if DENIED.intersection(errors_of(type(reply))(reply)):
            self.note_denied(request, caller)

    def note_denied(self, request: Request, caller: Caller) -> None:
        """Say in the audit log that a request was refused, at least in part, and for which rights that are missing.

        Where one of several rights would do (create on the topic or on the cluster), all that were asked for are named.
        """
        self._audit.said("denied", request.connection.client_host, **_denial(request, caller))

    def note_denied_fetch(self, request: Request, caller: Caller) -> None:
        """The same for a reader, who asks again and again: as often as an address may fail, and counted beyond that."""
        self._audit.failed("denied", request.connection.client_host, **_denial(request, caller))


def _denial(request: Request, caller: Caller) -> dict[str, AuditValue]:
    who, denials = request.connection, caller.denials
    said: dict[str, AuditValue] = {
        "principal": who.principal,
        "listener": who.listener_name,
        "request": request.api_key.name,
        "client_id": request.client_id or "",
    }
    if denials is not None:
        said["denied"] = [
            {"operation": operation.name, "resource_type": resource_type.name, "resource": name}
            for operation, resource_type, name in denials.first
        ]
        if denials.more_count:
            said["more_denied"] = denials.more_count
    return said


def _without_acks(api_key: ApiKey, asked: Any, reply: Reply) -> Reply:
    # A producer that wants no answer learns of a refusal by losing its connection, as in Kafka.
    if api_key == ApiKey.PRODUCE and isinstance(asked, ProduceRequest) and asked.acks == 0:
        return CloseConnection("a produce request with acks=0 is not allowed")
    return reply


def _completed(
    request: Request, asked: Any, outcome: Outcome, passage: Passage, note: Callable[[Reply], None]
) -> Outcome:
    assert passage.complete is not None
    complete = passage.complete

    def finish(reply: Reply) -> Reply:
        if isinstance(reply, CloseConnection):
            return reply
        if isinstance(reply, NoReply):
            return _without_acks(request.api_key, asked, NO_REPLY)
        done = complete(reply)
        note(done)
        return done

    return finished(request, outcome, finish)
