"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import sys
import time

import confluent_kafka

from evidence.compat.clients.security.scenario import REFUSED_WITHIN_S, WAIT_S, Absent, Hangs, main

REFUSALS = (confluent_kafka.KafkaError._AUTHENTICATION, confluent_kafka.KafkaError._SSL)


class AuthenticationRefused(Exception):
    """librdkafka's own error code for a login or a handshake that failed."""


class Librdkafka:
    AUTHENTICATION = (AuthenticationRefused,)

    def __init__(self, given):
        if given["tokenauth"]:
            raise Absent("SCRAM without the extension `tokenauth` of KIP-48")
        self._given = given
        self._told = []
        self._security = {
            "bootstrap.servers": given["bootstrap"],
            "client.id": given["name"],
            "security.protocol": given["protocol"],
            "error_cb": self._told.append,
        }
        for option, name in (
            ("ssl.ca.location", "ca"),
            ("ssl.certificate.location", "certificate"),
            ("ssl.key.location", "key"),
            ("sasl.mechanism", "mechanism"),
            ("sasl.username", "user"),
            ("sasl.password", "password"),
        ):
            if given[name]:
                self._security[option] = given[name]
        if given["bearer"]:
            self._security["oauth_cb"] = lambda _: (given["bearer"], time.time() + 3_600)
        self._producer = self._consumer = None

    def open(self):
        """Errors of connections are told to error_cb only; init_transactions waits meanwhile."""
        config = self._security | {"transactional.id": self._given["name"], "linger.ms": 0}
        self._producer = confluent_kafka.Producer(config)
        self._producer.poll(0)  # gives the token
        until = time.monotonic() + (REFUSED_WITHIN_S if self._given["step"] == "wrong" else WAIT_S)
        while True:
            try:
                self._producer.init_transactions(1)
                return
            except confluent_kafka.KafkaException as error:
                self._producer.poll(0)
                for told in self._told:
                    if told.code() in REFUSALS:
                        raise AuthenticationRefused(told.str()) from error
                if time.monotonic() > until:
                    raise Hangs from error

    def begin(self):
        self._producer.begin_transaction()

    def send(self, value):
        self._producer.produce(self._given["topic"], value)

    def commit(self):
        self._producer.commit_transaction(WAIT_S)

    def abort(self):
        self._producer.abort_transaction(WAIT_S)

    def read(self, seconds):
        if self._consumer is None:
            reading = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
            self._consumer = confluent_kafka.Consumer(self._security | reading | {"group.id": self._given["name"]})
            self._consumer.subscribe([self._given["topic"]])
        message = self._consumer.poll(seconds)
        if message is None or message.error() is not None:
            return []
        return [message.value()]

    def complaints(self):
        self._producer.poll(0)
        return [error.str() for error in self._told]

    def refusal(self):
        return next((told.str() for told in self._told if "SSL alert" in told.str() or "certificate" in told.str()), "")

    def close(self):
        if self._consumer is not None:
            self._consumer.close()
        self._producer = None


if __name__ == "__main__":
    sys.exit(main(Librdkafka))
