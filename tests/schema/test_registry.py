"""The registry's client, against answers of the REST API's documentation."""

from __future__ import annotations

import asyncio
import base64

import httpx
import pytest

from oncelog.errors import ConfigurationError, SchemaRegistryError
from oncelog.schema.registry import AsyncSchemaRegistry, Cache, Reference, Schema, SchemaRegistry
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
    "options",
    [{"timeout_ms": 0}, {"retries": -1}, {"cache_size_max": True}, {"basic_auth": ("a", "b"), "bearer_token": "c"}],
)
def test_a_wrong_option_is_refused(options: dict) -> None:
    with pytest.raises(ConfigurationError, match="schema registry: "):
        SchemaRegistry(URL, **options)


def test_an_address_has_a_scheme() -> None:
    with pytest.raises(ConfigurationError, match="is no address"):
        SchemaRegistry("registry:8081")


def test_references_come_with_those_without_any_first_and_circles_end() -> None:
    answers = RegistryForTests()
    answers.put("c", '"c"')
    answers.put("b", '"b"', references=[{"name": "C", "subject": "c", "version": 1}])
    schema = Schema('"a"', "AVRO", (Reference("B", "b", 1), Reference("C", "c", 1)))
    with client(answers) as registry:
        assert list(registry.run(registry.references_steps(schema))) == ["C", "B"]
        answers.put("d", '"d"', references=[{"name": "D", "subject": "d", "version": 1}])
        assert list(registry.run(registry.references_steps(Schema('"e"', "AVRO", (Reference("D", "d", 1),))))) == ["D"]


def test_the_cache_keeps_what_was_used_last() -> None:
    cache: Cache[int] = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
