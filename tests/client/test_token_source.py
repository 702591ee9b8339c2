"""Tokens kept, renewed, refused and failing: with a clock that a test moves, and a provider that answers over a socket."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

import pytest
from evidence.world.identity_provider import claims, provider, signed

from oncelog.client.config import ClientConfig
from oncelog.client.token_options import ByProvider, TokenConfig
from oncelog.client.token_source import TokenSource
from oncelog.errors import AuthenticationFailed, LeaderNotAvailable, Network
from oncelog.host.host import real_host

NOW_MS = 1_800_000_000_000
BASE = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}


class Clock:
    """Stands until a test moves it."""

    def __init__(self):
        self.ms = NOW_MS

    def now_ms(self):
        return self.ms


def source(given, argument=()):
    clock = Clock()
    config = given if isinstance(given, TokenConfig) else TokenConfig(ByProvider(given, argument), {"own": "x"})
    return TokenSource(config, replace(real_host(), clock=clock)), clock


def run(work):
    return asyncio.run(asyncio.wait_for(work, 30))


def numbered(life_s=100):
    """A function that gives a token with another text each time."""
    given = []

    def ask():
        given.append(f"t{len(given)}")
        return given[-1], NOW_MS / 1000 + life_s * len(given)

    return ask


def test_a_token_is_kept_for_four_fifths_of_its_life():
    async def work():
        ask = numbered()
        tokens, clock = source(ask)
        texts = []
        for at_ms in (0, 79_000, 81_000, 170_000, 190_000):
            clock.ms = NOW_MS + at_ms
            texts.append((await tokens.token()).text)
        assert texts == ["t0", "t0", "t1", "t1", "t2"]
        clock.ms = NOW_MS
        both = await asyncio.gather(tokens.token(), tokens.token())
        assert both[0] is both[1], "one question for all who wait"

    run(work())


async def coroutine():
    return signed(claims(NOW_MS / 1000))


class AioKafkas:
    async def token(self):
        return await coroutine()

    def extensions(self):
        return {"more": "y"}


class KafkaPythons:
    def token(self):
        return signed(claims(NOW_MS / 1000))


@pytest.mark.parametrize("given", [coroutine, lambda: coroutine(), AioKafkas(), KafkaPythons(), KafkaPythons().token])
def test_forms_of_a_provider(given):
    async def work():
        token = await source(given)[0].token()
        assert token.expires_s == NOW_MS / 1000 + 600
        assert token.extensions == {"own": "x"} | ({"more": "y"} if isinstance(given, AioKafkas) else {})
        assert token.text not in repr(token)

    run(work())


def test_confluents_callback():
    def callback(config):
        assert config == "principal=olga"
        return "opaque", NOW_MS / 1000 + 60, "olga", {"more": "y"}

    token = run(source(callback, ("principal=olga",))[0].token())
    assert (token.text, token.expires_s, token.extensions) == ("opaque", NOW_MS / 1000 + 60, {"own": "x", "more": "y"})


def test_a_token_without_an_end_is_used_once():
    async def work():
        texts = iter(("a", "b"))
        tokens, _ = source(lambda: next(texts))
        assert [(await tokens.token()).text for _ in range(2)] == ["a", "b"]

    run(work())


@pytest.mark.parametrize("answer", [None, 7, b"t", ("t",), ("t", "soon"), ("t", True), (7, 1.0), ("t", 2e9, "p", 5)])
def test_answers_that_are_no_token(answer):
    with pytest.raises(AuthenticationFailed, match="must give a text"):
        run(source(lambda: answer)[0].token())


def test_a_token_that_has_ended_already():
    with pytest.raises(AuthenticationFailed, match="has expired"):
        run(source(lambda: ("t", NOW_MS / 1000))[0].token())


def test_what_a_provider_raises():
    """It is tried again, as a connection that failed; who knows better raises one of ours."""

    def wrong():
        raise RuntimeError("the vault is shut")

    def knows():
        raise AuthenticationFailed("no such client")

    with pytest.raises(Network, match="RuntimeError: the vault is shut") as failed:
        run(source(wrong)[0].token())
    assert failed.value.retriable
    with pytest.raises(AuthenticationFailed, match="no such client"):
        run(source(knows)[0].token())


def test_without_a_new_token_the_old_one_is_used_while_it_holds(caplog):
    async def work():
        answers = [("a", NOW_MS / 1000 + 100), LeaderNotAvailable("later"), Network("gone"), ("b", NOW_MS / 1000 + 300)]

        def ask():
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        tokens, clock = source(ask)
        assert (await tokens.token()).text == "a"
        clock.ms = NOW_MS + 90_000
        assert (await tokens.token()).text == "a"
        clock.ms = NOW_MS + 101_000
        with pytest.raises(Network, match="gone"):
            await tokens.token()
        assert (await tokens.token()).text == "b"

    run(work())
    assert any("is used on" in record.getMessage() for record in caplog.records)


def test_a_refused_token_is_forgotten():
    async def work():
        ask = numbered()
        tokens, _ = source(ask)
        first = await tokens.token()
        tokens.forget(first)
        second = await tokens.token()
        assert (first.text, second.text) == ("t0", "t1")
        tokens.forget(first)
        assert await tokens.token() is second, "what a slower connection was refused with"

    run(work())


def of_endpoint(found, **options):
    config = ClientConfig.of(
        BASE
        | {
            "sasl_oauthbearer_token_endpoint_url": found.url("/token"),
            "sasl_oauthbearer_client_id": "batch job",
            "sasl_oauthbearer_client_secret": "w:rd",
        }
        | options
    )
    return source(config.security().sasl.tokens)


def test_client_credentials():
    async def work():
        async with provider() as found:
            found.answers["/token"] = b'{"access_token": "opaque", "expires_in": 50, "token_type": "Bearer"}'
            tokens, _ = of_endpoint(found, sasl_oauthbearer_scope="read write")
            token = await tokens.token()
            assert (token.text, token.expires_s) == ("opaque", NOW_MS / 1000 + 50)
            path, headers, form = found.asked[0]
            assert (path, form) == ("/token", {"grant_type": "client_credentials", "scope": "read write"})
            assert base64.b64decode(headers["authorization"].removeprefix("Basic ")) == b"batch job:w:rd"
            jwt = signed(claims(NOW_MS / 1000, exp=NOW_MS / 1000 + 20))
            found.answers["/token"] = b'{"access_token": "%s", "expires_in": 50}' % jwt.encode()
            tokens, _ = of_endpoint(found, sasl_oauthbearer_header_urlencode="true")
            assert (await tokens.token()).expires_s == NOW_MS / 1000 + 20
            encoded = found.asked[1][1]["authorization"].removeprefix("Basic ")
            assert base64.b64decode(encoded) == b"batch+job:w%3Ard"
            assert found.asked[1][2] == {"grant_type": "client_credentials"}

    run(work())


@pytest.mark.parametrize(
    ("status", "body", "kind", "says"),
    [
        (401, b'{"error": "invalid_client"}', AuthenticationFailed, "no token for client 'batch job'.*status 401"),
        (302, b"", AuthenticationFailed, "status 302"),
        (503, b"", Network, "status 503"),
        (200, b"<html>", AuthenticationFailed, "answered no JSON"),
        (200, b"[]", AuthenticationFailed, "answered no access_token"),
        (200, b'{"access_token": ""}', AuthenticationFailed, "answered no access_token"),
    ],
)
def test_an_endpoint_that_gives_no_token(status, body, kind, says):
    async def work():
        async with provider() as found:
            found.status, found.answers["/token"] = status, body
            with pytest.raises(kind, match=says) as failed:
                await of_endpoint(found)[0].token()
            assert "w:rd" not in str(failed.value)

    run(work())


def test_a_file_that_something_else_keeps_fresh(tmp_path):
    path = tmp_path / "token"
    path.write_text(signed(claims(NOW_MS / 1000, exp=NOW_MS / 1000 + 20)) + "\n")

    async def work():
        config = ClientConfig.of(BASE | {"sasl_oauthbearer_token_endpoint_url": f"file:{path}"})
        tokens, clock = source(config.security().sasl.tokens)
        path.chmod(0o644)
        with pytest.raises(AuthenticationFailed, match="others can read it"):
            await tokens.token()
        path.chmod(0o600)
        assert (await tokens.token()).expires_s == NOW_MS / 1000 + 20
        clock.ms += 17_000
        path.write_text(signed(claims(NOW_MS / 1000, exp=NOW_MS / 1000 + 50)))
        assert (await tokens.token()).expires_s == NOW_MS / 1000 + 50

    run(work())
