"""Our own clients."""

from __future__ import annotations

import sys

from evidence.compat.clients.security.scenario import main
from oncelog import sync
from oncelog.errors import AuthenticationFailed


class Ours:
    AUTHENTICATION = (AuthenticationFailed,)

    def __init__(self, given):
        self._given = given
        self._security = {
            "bootstrap_servers": given["bootstrap"],
            "client_id": given["name"],
            "security_protocol": given["protocol"],
        }
        for option, name in (
            ("ssl_ca_location", "ca"),
            ("ssl_certificate_location", "certificate"),
            ("ssl_key_location", "key"),
            ("sasl_mechanism", "mechanism"),
            ("sasl_username", "user"),
            ("sasl_password", "password"),
            ("sasl_tokenauth", "tokenauth"),
        ):
            if given[name]:
                self._security[option] = given[name]
        if given["bearer"]:
            self._security["sasl_oauth_token_provider"] = lambda: given["bearer"]
        self._producer = self._consumer = None

    def open(self):
        if self._producer is not None:
            self._producer.stop()
        self._producer = sync.Producer(**self._security, transactional_id=self._given["name"], linger_ms=0)
        self._producer.start()

    def begin(self):
        self._producer.begin_transaction()

    def send(self, value):
        self._producer.send_and_wait(self._given["topic"], value)

    def commit(self):
        self._producer.commit_transaction()

    def abort(self):
        self._producer.abort_transaction()

    def read(self, seconds):
        if self._consumer is None:
            reading = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            self._consumer = sync.Consumer(
                self._given["topic"], **self._security, **reading, group_id=self._given["name"]
            )
            self._consumer.start()
        return [each.value for each in self._consumer.poll(int(seconds * 1000))]

    def complaints(self):
        return []

    def refusal(self):
        return ""

    def close(self):
        for each in (self._producer, self._consumer):
            if each is not None:
                each.stop()


if __name__ == "__main__":
    sys.exit(main(Ours))
