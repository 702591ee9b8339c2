"""The registry's client, against answers of the REST API's documentation."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
import threading
from typing import Any

import httpx
import pytest

from oncelog.errors import (
    ConfigurationError,
    IllegalState,
    InvalidArgument,
    SchemaNotFound,
    SchemaRegistryError,
    SchemaRegistryRefused,
    SchemaRegistryUnavailable,
)
from oncelog.schema.registry import AsyncSchemaRegistry, Reference, Schema, SchemaRegistry
from tests.schema.registry_for_tests import RegistryForTests

TEXT = '{"type": "string"}'
URL = "http://registry.test:8081/"


def client(answers: RegistryForTests, **options: object) -> SchemaRegistry:
    return SchemaRegistry(URL, transport=answers.transport, retry_backoff_ms=1, **options)


def test_a_schema_is_registered_once_and_read_once() -> None:
    answers = RegistryForTests()
    with client(answers) as registry:
        assert [registry.register("a/b-value", Schema(TEXT)) for _ in range(3)] == [1, 1, 1]
        assert [registry.schema(1) for _ in range(3)] == [Schema(TEXT)] * 3
        assert registry.latest("a/b-value").schema_id == 1
    assert answers.asked == [
        "POST /subjects/a%2Fb-value/versions",
        "GET /schemas/ids/1",
        "GET /subjects/a%2Fb-value/versions/latest",
    ]


def test_the_async_client_asks_the_same() -> None:
    answers = RegistryForTests()

    async def main() -> None:
        async with AsyncSchemaRegistry(URL, transport=answers.transport) as registry:
            assert await registry.register("orders-value", Schema(TEXT)) == 1
            assert await registry.schema(1) == Schema(TEXT)
            assert (await registry.latest("orders-value")).schema == Schema(TEXT)
            with pytest.raises(SchemaRegistryError, match=r"schema 9: Schema not found .HTTP 404, code 40403"):
                await registry.schema(9)

    asyncio.run(main())


def test_an_incompatible_schema_is_one_line() -> None:
    answers = RegistryForTests()
    said = {"error_code": 409, "message": "Schema being registered is incompatible\n  with an earlier schema"}
    answers.answers_first = [httpx.Response(409, json=said)]
    with client(answers) as registry, pytest.raises(SchemaRegistryError) as caught:
        registry.register("orders-value", Schema(TEXT))
    assert str(caught.value) == (
        "subject 'orders-value': the schema is incompatible with what is registered: "
        "Schema being registered is incompatible with an earlier schema (code 409)"
    )
    assert len(answers.asked) == 1


def test_what_may_pass_is_tried_again() -> None:
    answers = RegistryForTests()
    answers.put("s", TEXT)
    answers.answers_first = [httpx.Response(503), httpx.ConnectError("refused"), httpx.Response(429)]
    with client(answers) as registry:
        assert registry.schema(1).text == TEXT
    assert len(answers.asked) == 4


def test_retries_end() -> None:
    answers = RegistryForTests()
    answers.answers_first = [httpx.ConnectError("refused")] * 3
    with client(answers, retries=2) as registry, pytest.raises(SchemaRegistryError, match="did not answer within 10 s"):
        registry.schema(1)
    assert len(answers.asked) == 3


def test_an_async_question_ends_in_time() -> None:
    async def never(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def main() -> None:
        async with AsyncSchemaRegistry(URL, transport=httpx.MockTransport(never), timeout_ms=20) as registry:
            with pytest.raises(SchemaRegistryError, match="no answer in time"):
                await registry.schema(1)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(200, content=b"<html>"), "<html>"),
        (httpx.Response(200, json={}), "has no schema"),
        (httpx.Response(200, json={"schema": TEXT, "references": [{}]}), "has no schema"),
        (httpx.Response(401, json={"message": "Unauthorized"}), "refuses: Unauthorized .HTTP 401.: see basic_auth"),
        (httpx.Response(200, content=b" " * 101), "more than response_bytes_max=100"),
    ],
)
def test_an_answer_that_is_none_is_said_so(answer: httpx.Response, words: str) -> None:
    answers = RegistryForTests()
    answers.answers_first = [answer]
    with client(answers, response_bytes_max=100) as registry, pytest.raises(SchemaRegistryError, match=words):
        registry.schema(1)


def test_an_answer_of_just_the_size_that_may_come_is_read() -> None:
    answers = RegistryForTests()
    answers.answers_first = [httpx.Response(200, content=b'{"schema": "\\"string\\""}'.ljust(100))]
    with client(answers, response_bytes_max=100) as registry:
        assert registry.schema(1).text == '"string"'


def test_who_asks_is_said() -> None:
    answers = RegistryForTests()
    answers.put("s", TEXT)
    with client(answers, basic_auth=("anna", "secret")) as registry:
        registry.schema(1)
    assert answers.authorization == "Basic " + base64.b64encode(b"anna:secret").decode()
    with client(answers, bearer_token="token") as registry:
        registry.schema(1)
    assert answers.authorization == "Bearer token"


@pytest.mark.parametrize(
    "answer",
    [b"[" * 100_000, b'{"id": 5000000000}', b'{"id": -1}', b'{"id": 1.5}', b"[]", b'{"id": ' + b"9" * 5000 + b"}"],
    ids=["deep", "large", "negative", "broken", "a list", "longer than an int may be"],
)
def test_an_id_that_no_record_can_hold_is_refused_before_it_is_kept(answer: bytes) -> None:
    answers = RegistryForTests()
    answers.answers_first = [httpx.Response(200, content=answer)]
    with client(answers) as registry:
        with pytest.raises(SchemaRegistryError):
            registry.register("s", Schema(TEXT))
        assert registry.register("s", Schema(TEXT)) == 1


def test_what_passes_by_itself_is_told_apart() -> None:
    answers = RegistryForTests()
    with client(answers, retries=0) as registry:
        for first in (httpx.Response(503), httpx.ConnectError("refused")):
            answers.answers_first = [first]
            with pytest.raises(SchemaRegistryUnavailable):
                registry.schema(1)
        with pytest.raises(SchemaRegistryError, match="not found") as raised:
            registry.schema(1)
        assert not isinstance(raised.value, SchemaRegistryUnavailable)


def test_an_answer_that_comes_byte_by_byte_ends_in_time() -> None:
    """Also where the blocking client waits, and also in the answer's headers, of which httpx waits for each part anew."""
    line, is_over = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000, threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            for byte in line:
                connection.send(bytes((byte,)))
                if is_over.wait(0.01):
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with SchemaRegistry(url, timeout_ms=200, retries=0) as registry, pytest.raises(SchemaRegistryUnavailable):
            registry.schema(1)
        assert not is_over.is_set()
        is_over.set()
        thread.join()


def test_a_client_that_is_closed_says_so() -> None:
    registry = client(RegistryForTests())
    registry.close()
    registry.close()
    with pytest.raises(IllegalState, match="is closed: make a new one"):
        registry.schema(1)


def test_an_async_client_belongs_to_one_event_loop() -> None:
    answers = RegistryForTests()
    answers.put("s", TEXT)
    registry = AsyncSchemaRegistry(URL, transport=answers.transport)

    async def ask() -> Schema:
        return await registry.schema(1)

    with asyncio.Runner() as runner:
        assert runner.run(ask()) == Schema(TEXT)
        with pytest.raises(IllegalState, match="another event loop"):
            asyncio.run(ask())
        runner.run(registry.close())
        with pytest.raises(IllegalState, match="is closed"):
            runner.run(ask())


@pytest.mark.parametrize("subject", [None, 5, b"s", "\ud800"])
def test_a_subject_is_text(subject: Any) -> None:
    with client(RegistryForTests()) as registry, pytest.raises(InvalidArgument, match="the subject must be text"):
        registry.register(subject, Schema(TEXT))


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_ms": 0},
        {"timeout_ms": 10**30},
        {"retries": -1},
        {"cache_size_max": True},
        {"basic_auth": ("a", "b"), "bearer_token": "c"},
        {"basic_auth": "user:secret"},
        {"basic_auth": ("user", None)},
        {"basic_auth": ("user", "secret\ud800")},
        {"bearer_token": "secret\n"},
        {"bearer_token": 5},
        {"ssl_context": "ca.pem"},
    ],
)
def test_a_wrong_option_is_refused(options: dict) -> None:
    with pytest.raises(ConfigurationError, match="schema registry: ") as raised:
        SchemaRegistry(URL, **options)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["registry:8081", "http://", "http://[::", "http://r:99999", "http://a b/", "http://\ud800", None, 5]
)
def test_an_address_is_checked(url: Any) -> None:
    with pytest.raises(ConfigurationError, match="no address"):
        SchemaRegistry(url)


def test_a_user_in_the_address_logs_in_and_is_shown_nowhere() -> None:
    answers = RegistryForTests()
    with SchemaRegistry("http://alice:se%2Fcret@registry.test:8081/", transport=answers.transport) as registry:
        assert registry.register("s", Schema(TEXT)) == 1
        assert answers.authorization == "Basic " + base64.b64encode(b"alice:se/cret").decode()
        assert repr(registry) == "SchemaRegistry('http://registry.test:8081')"
        answers.answers_first = [httpx.ConnectError("refused")] * 4
        with pytest.raises(SchemaRegistryUnavailable) as told:
            registry.schema(1)
        assert "http://registry.test:8081 did not answer" in str(told.value)


@pytest.mark.parametrize(
    "url", ["http://alice:secret@h:99999", "http://alice:se/secret@h", "http://alice:secret@", "//alice:secret@h"]
)
def test_a_wrong_address_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="no address") as raised:
        SchemaRegistry(url)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_two_users_are_one_too_many() -> None:
    for more in ({"basic_auth": ("bob", "other")}, {"bearer_token": "token"}):
        with pytest.raises(ConfigurationError, match="the address has a user"):
            SchemaRegistry("http://alice:secret@h", **more)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_login_is_an_error_of_its_own(status: int) -> None:
    answers = RegistryForTests()
    answers.answers_first = [httpx.Response(status, json={"error_code": status, "message": "who are you"})]
    with client(answers) as registry, pytest.raises(SchemaRegistryRefused, match="see basic_auth, bearer_token"):
        registry.schema(1)


def test_an_id_that_is_not_there_is_not_the_registrys_fault() -> None:
    answers = RegistryForTests()
    with client(answers) as registry:
        with pytest.raises(SchemaNotFound, match="schema 7: Schema not found"):
            registry.schema(7)
        with pytest.raises(SchemaRegistryError) as told:
            registry.latest("nothing-value")
        assert not isinstance(told.value, ValueError)
        of_a_wrong_path = {"error_code": 404, "message": "HTTP 404 Not Found"}
        for answer in (httpx.Response(404, text="no such page"), httpx.Response(404, json=of_a_wrong_path)):
            answers.answers_first = [answer]
            with pytest.raises(SchemaRegistryError) as told:
                registry.schema(7)
            assert not isinstance(told.value, ValueError)


def test_references_come_with_those_without_any_first_and_circles_end() -> None:
    answers = RegistryForTests()
    answers.put("c", '"c"')
    answers.put("b", '"b"', references=[{"name": "C", "subject": "c", "version": 1}])
    schema = Schema('"a"', "AVRO", (Reference("B", "b", 1), Reference("C", "c", 1)))
    with client(answers) as registry:
        assert list(registry.run(registry.references_steps(schema))) == ["C", "B"]
        answers.put("d", '"d"', references=[{"name": "D", "subject": "d", "version": 1}])
        assert list(registry.run(registry.references_steps(Schema('"e"', "AVRO", (Reference("D", "d", 1),))))) == ["D"]


@pytest.mark.parametrize("given", [None, ssl.create_default_context()])
def test_certificates_are_checked_where_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch, given: ssl.SSLContext | None
) -> None:
    made: list[Any] = []
    real = httpx.AsyncClient

    def client_of(**options: Any) -> httpx.AsyncClient:
        made.append(options["verify"])
        return real(**options)

    monkeypatch.setattr("oncelog.schema.registry.httpx.AsyncClient", client_of)
    with SchemaRegistry("https://registry.example", ssl_context=given):
        pass
    assert made == [True if given is None else given]
