"""TLS handshakes of one listener: the context in force, and bounds on those that are under way.

A connection whose handshake is not over counts among those that nobody knows (`Strangers`); what fails is said in the
audit log and counted as a failed authentication, as Kafka counts it.
"""

from __future__ import annotations

import logging

from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.listener_security import ListenerSecurity, SecurityOwner
from oncelog.broker.network.peer import client_host_of
from oncelog.host.tasks import Tasks
from oncelog.host.tls import TlsContext
from oncelog.host.tls_listener import Handshake

_log = logging.getLogger("oncelog.server")


class _HalfOpen:
    """A handshake among the strangers."""

    def __init__(self, handshake: Handshake) -> None:
        self.client_host = client_host_of(handshake.peer_name)
        self._handshake = handshake

    def refuse(self, reason: str) -> None:  # noqa: ARG002 - the limit that was hit is counted
        self._handshake.abort()


class TlsHandshakes:
    """What the network asks while clients shake hands."""

    def __init__(self, security: ListenerSecurity, owner: SecurityOwner, metrics: Metrics, tasks: Tasks) -> None:
        self._security = security
        self._owner = owner
        self._metrics = metrics
        self.tasks = tasks
        self._half_open: dict[Handshake, _HalfOpen] = {}
        self._context = security.new_tls_context()
        # why the settings in force were kept, and what waits for that
        self._told: tuple[str, dict[str, object]] | None = None

    def reload(self) -> None:
        """Take over what files and configuration say now, whole or not at all; who is connected stays."""
        security = self._security
        before = security.config.tls
        try:
            security.read_tls_again()
            if security.config.tls is before:
                self._told = None
                return
            self._context = security.new_tls_context()
        except ConfigInvalid as error:
            security.keep_tls(before)
            self._tell_kept(str(error), security.waiting_stores())
            return
        self._told = None
        self._metrics.add("tls_reloads")
        self._owner.audit.said("reload", "", listener=security.config.name)

    def _tell_kept(self, why: str, waiting: dict[str, object]) -> None:
        """Once for each change: of the fault, and of what cannot come into force for it."""
        before, self._told = self._told, (why, waiting)
        if self._told == before:
            return
        changed = " and ".join(waiting)
        also = f"; not in force for it: the new content of {changed}" if changed else ""
        _log.error("the TLS settings in force are kept: %s%s", why, also)

    @property
    def timeout_s(self) -> float:
        """How long a handshake may take."""
        return self._security.timeout_s

    def context(self) -> TlsContext:
        """For a connection that comes now."""
        return self._context

    def came(self, handshake: Handshake) -> None:
        """A connection came."""
        half_open = self._half_open[handshake] = _HalfOpen(handshake)
        self._owner.strangers.came(half_open)

    def ended(self, handshake: Handshake, reason: str) -> None:
        """A handshake is over, well or not."""
        half_open = self._half_open.pop(handshake)
        self._owner.strangers.left(half_open)
        if reason:
            self._metrics.add("authentications_failed")
            name = self._security.config.name
            self._owner.audit.failed("tls failed", half_open.client_host, reason=reason, listener=name)
