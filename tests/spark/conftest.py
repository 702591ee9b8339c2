"""The broker of the tests of options: ours, or Apache Kafka where ONCELOG_OPTIONS_AGAINST=kafka (`make spark-options`)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from bench.servers import apache_kafka, free_port, has_apache_kafka

from oncelog.spark import decision_store, source
from oncelog.testing import TestBroker
from oncelog.testing.security import TestSecurity

IS_APACHE_KAFKA = os.environ.get("ONCELOG_OPTIONS_AGAINST", "oncelog") == "kafka"


@dataclass(frozen=True)
class OptionBroker:
    """Where it listens: plainly, and for those who log in over TLS, with the options of format `oncelog` that they need."""

    bootstrap_servers: str
    secured_servers: str
    login: dict[str, str]
    is_apache_kafka: bool


@contextlib.contextmanager
def an_option_broker() -> Iterator[OptionBroker]:
    if IS_APACHE_KAFKA and (why := has_apache_kafka()):
        pytest.skip(why)
    security = TestSecurity("SASL_SSL", "PLAIN", {"alice": "wonder-secret"})
    plain, secured, controller = (f"127.0.0.1:{free_port()}" for _ in range(3))
    clients = f"PLAINTEXT://{plain},SASL_SSL://{secured}"
    config: dict[str, Any] = security.broker_config() | {"listeners": clients}
    login = {f"kafka.{name.replace('_', '.')}": value for name, value in security.client_options().items()}
    with contextlib.closing(security), contextlib.ExitStack() as stack:
        if IS_APACHE_KAFKA:
            config |= {
                "listeners": f"{clients},CONTROLLER://{controller}",
                "advertised.listeners": clients,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
                "controller.quorum.voters": f"1@{controller}",
                "ssl.keystore.type": "PEM",
                "ssl.truststore.type": "PEM",
            }
            stack.enter_context(apache_kafka(at_port=int(plain.rpartition(":")[2]), **config))
        else:
            stack.enter_context(TestBroker(config))
        yield OptionBroker(plain, secured, login, IS_APACHE_KAFKA)


def _scope(fixture_name: str, config: pytest.Config) -> str:
    """Apache Kafka starts slowly: once for all files."""
    return "session" if IS_APACHE_KAFKA else "module"


@pytest.fixture(scope=_scope)  # type: ignore[call-overload]
def option_broker() -> Iterator[OptionBroker]:
    with an_option_broker() as broker:
        yield broker


@pytest.fixture(scope="module", autouse=True)
def _nothing_kept() -> Iterator[None]:
    """What a process of Spark's keeps would go on asking brokers that are gone, and warn beside the tests of other files."""
    yield
    source.close_connections()
    for kept in decision_store._stores.values():
        kept.close()
    decision_store._stores.clear()
