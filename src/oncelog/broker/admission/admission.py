"""What every request of a connection passes before its handler: quotas first, then access rules, where there are any."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.broker.admission.deeds import CHANGES, Deeds
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.requests.audit import Audit
from oncelog.broker.requests.request import Outcome, Request
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.host.clock import Clock
from oncelog.wire.api import ApiKey

if TYPE_CHECKING:
    from oncelog.broker.admission.authorization import Authorization
    from oncelog.broker.admission.quotas import Quotas, Sessions

Answer = Callable[[Request], Outcome]
THROTTLED = frozenset(
    (
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH),
        *(ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS),
    )
)


def authorization_of(
    metadata: ClusterMetadata, config: Callable[[], BrokerConfig], metrics: Metrics, audit: Audit
) -> Authorization | None:
    """The authorizer where `authorizer.class.name` asks for one."""
    if not config().authorizer_class_name:
        return None
    from oncelog.broker.admission.authorization import Authorization  # and with it the checks of all APIs

    return Authorization(metadata, config, metrics, audit)


class RequestAdmission:
    """Hands requests to `answer`, as far as they may pass."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
        clock: Clock,
        authorization: Authorization | None,
        answer: Answer,
        deeds: Deeds,
        sessions: Sessions,
    ) -> None:
        self._sessions = sessions
        self._deeds = deeds
        self._metadata = metadata
        self._config = config
        self._metrics = metrics
        self._clock = clock
        self._authorization = authorization
        self._answer = answer
        self._quotas: Quotas | None = None

    def handle(self, request: Request) -> Outcome:
        """The handler's outcome, or what quotas and access rules make of it."""
        outcome = self._admitted(request)
        return self._deeds.noted(request, outcome) if request.api_key in CHANGES else outcome

    def _admitted(self, request: Request) -> Outcome:
        metadata = self._metadata
        if metadata.client_quotas and (request.api_key in THROTTLED or metadata.has_request_quotas):
            return self._quotas_in_use().handle(request, self._authorized)
        return self._authorized(request)

    def connection_wait_ms(self, host: str) -> int:
        """For how long a new connection of an address must wait, by its quota."""
        return self._quotas_in_use().connection_wait_ms(host) if self._metadata.client_quotas else 0

    def _authorized(self, request: Request) -> Outcome:
        if self._authorization is not None:
            return self._authorization.handle(request, self._answer)
        return self._answer(request)

    def _quotas_in_use(self) -> Quotas:
        if self._quotas is None:
            from oncelog.broker.admission.quotas import Quotas

            self._quotas = Quotas(self._metadata, self._config, self._metrics, self._clock, self._sessions)
        return self._quotas
