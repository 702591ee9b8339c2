"""kafka-python."""

from __future__ import annotations

import sys

import kafka
from kafka.errors import SaslAuthenticationFailedError

from evidence.compat.clients.security.scenario import REFUSED_WITHIN_S, Absent, Log, main


class Tokens(kafka.net.sasl.oauth.AbstractTokenProvider):
    def __init__(self, text):
        self._text = text

    def token(self):
        return self._text


class KafkaPython:
    AUTHENTICATION = (SaslAuthenticationFailedError,)

    def __init__(self, given):
        if given["tokenauth"]:
            raise Absent("SCRAM without the extension `tokenauth` of KIP-48")
        self._given = given
        self._log = Log("kafka")
        self._security = {
            "bootstrap_servers": given["bootstrap"],
            "client_id": given["name"],
            "security_protocol": given["protocol"],
        }
        for option, name in (
            ("ssl_cafile", "ca"),
            ("ssl_certfile", "certificate"),
            ("ssl_keyfile", "key"),
            ("sasl_mechanism", "mechanism"),
            ("sasl_plain_username", "user"),
            ("sasl_plain_password", "password"),
        ):
            if given[name]:
                self._security[option] = given[name]
        if given["bearer"]:
            self._security["sasl_oauth_token_provider"] = Tokens(given["bearer"])
        self._producer = self._consumer = None

    def open(self):
        if self._producer is not None:
            self._producer.close(timeout=1)
        more = {"max_block_ms": int(REFUSED_WITHIN_S * 1000)} if self._given["step"] == "wrong" else {}
        self._producer = kafka.KafkaProducer(**self._security, **more, transactional_id=self._given["name"])
        self._producer.init_transactions()

    def begin(self):
        self._producer.begin_transaction()

    def send(self, value):
        self._producer.send(self._given["topic"], value).get(30)

    def commit(self):
        self._producer.commit_transaction()

    def abort(self):
        self._producer.abort_transaction()

    def read(self, seconds):
        if self._consumer is None:
            reading = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            self._consumer = kafka.KafkaConsumer(
                self._given["topic"], **self._security, **reading, group_id=self._given["name"]
            )
        found = self._consumer.poll(
            timeout_ms=max(1000, int(seconds * 1000))
        )  # a shorter poll forgets the rebalance that it began
        return [record.value for records in found.values() for record in records]

    def complaints(self):
        return []

    def refusal(self):
        return self._log.naming("SaslAuthentication|AuthenticationFailed|[Cc]ertificate|CERTIFICATE")

    def close(self):
        for each in (self._producer, self._consumer):
            if each is not None:
                each.close()


if __name__ == "__main__":
    sys.exit(main(KafkaPython))
