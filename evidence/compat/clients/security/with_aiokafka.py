"""aiokafka."""

from __future__ import annotations

import asyncio
import ssl
import sys

import aiokafka
from aiokafka.errors import AuthenticationFailedError, SaslAuthenticationFailed

from evidence.compat.clients.security.scenario import REFUSED_WITHIN_S, WAIT_S, Absent, Hangs, Log, main


class Tokens(aiokafka.abc.AbstractTokenProvider):
    def __init__(self, text):
        self._text = text

    async def token(self):
        return self._text


class Aiokafka:
    AUTHENTICATION = (AuthenticationFailedError, SaslAuthenticationFailed)

    def __init__(self, given):
        if given["tokenauth"]:
            raise Absent("SCRAM without the extension `tokenauth` of KIP-48")
        self._given = given
        self._log = Log("aiokafka")
        self._runner = asyncio.Runner()
        self._security = {
            "bootstrap_servers": given["bootstrap"],
            "client_id": given["name"],
            "security_protocol": given["protocol"],
        }
        if given["ca"]:
            context = ssl.create_default_context(cafile=given["ca"])
            if given["certificate"]:
                context.load_cert_chain(given["certificate"], given["key"])
            self._security["ssl_context"] = context
        if given["mechanism"]:
            self._security["sasl_mechanism"] = given["mechanism"]
        if given["user"]:
            self._security |= {"sasl_plain_username": given["user"], "sasl_plain_password": given["password"]}
        if given["bearer"]:
            self._security["sasl_oauth_token_provider"] = Tokens(given["bearer"])
        self._producer = self._consumer = None
        self._told = []

    def _run(self, coroutine, seconds=WAIT_S):
        async def bounded():
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: self._told.append(str(context.get("exception") or context["message"]))
            )
            return await asyncio.wait_for(coroutine, seconds)

        return self._runner.run(bounded())

    def open(self):
        async def started():
            if self._producer is not None:
                await self._producer.stop()
            self._producer = aiokafka.AIOKafkaProducer(**self._security, transactional_id=self._given["name"])
            await self._producer.start()

        try:
            self._run(started(), REFUSED_WITHIN_S if self._given["step"] == "wrong" else WAIT_S)
        except TimeoutError:
            raise Hangs from None

    def begin(self):
        self._run(self._producer.begin_transaction())

    def send(self, value):
        self._run(self._producer.send_and_wait(self._given["topic"], value))

    def commit(self):
        self._run(self._producer.commit_transaction())

    def abort(self):
        self._run(self._producer.abort_transaction())

    def read(self, seconds):
        async def read():
            if self._consumer is None:
                reading = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
                self._consumer = aiokafka.AIOKafkaConsumer(
                    self._given["topic"], **self._security, **reading, group_id=self._given["name"]
                )
                await self._consumer.start()
            found = await self._consumer.getmany(timeout_ms=int(seconds * 1000))
            return [record.value for records in found.values() for record in records]

        return self._run(read())

    def complaints(self):
        return self._told

    def refusal(self):
        return self._log.naming("SaslAuthentication|AuthenticationFailed|[Cc]ertificate|CERTIFICATE")

    def close(self):
        async def stopped():
            for each in (self._producer, self._consumer):
                if each is not None:
                    await each.stop()

        self._run(stopped())
        self._runner.close()


if __name__ == "__main__":
    sys.exit(main(Aiokafka))
