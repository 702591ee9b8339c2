"""The tokens of one client: had from where its options say, kept for most of their life, shared by its connections.

A token is used for four fifths of its life. One that cannot be renewed then is used on for as long as it holds, with a
warning; one that a broker has refused is forgotten.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import quote_plus, urlencode

from oncelog.client.token_options import ByEndpoint, ByFile, ByProvider, TokenConfig, Unsigned
from oncelog.core.json_web_token import expiry_of, unsigned_token
from oncelog.errors import AuthenticationFailed, KafkaError, Network
from oncelog.host.host import Host
from oncelog.host.tls import TlsInvalid, read_secret_file
from oncelog.host.web import WebFailed, fetch
from oncelog.lazy_dataclass import dataclass

_log = logging.getLogger("oncelog.client")

RENEW_FROM = 0.80  # of a token's life
ENDPOINT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Token:
    """What is shown to a broker. `expires_s` is since 1970; None: nobody knows, so it is used once."""

    text: str = field(repr=False)
    expires_s: float | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


class TokenSource:
    """One client's. Its calls belong to one event loop."""

    def __init__(self, config: TokenConfig, host: Host) -> None:
        self._config = config
        self._host = host
        self._kept: Token | None = None
        self._renew_s = 0.0
        self._asking = asyncio.Lock()

    async def token(self) -> Token:
        """One that holds. Raises AuthenticationFailed where no retry helps, else Network."""
        async with self._asking:
            kept = self._kept
            if kept is not None and self._now_s() < self._renew_s:
                return kept
            try:
                found = await self._new_token()
            except KafkaError as error:
                if kept is None or kept.expires_s is None or kept.expires_s <= self._now_s() or not error.retriable:
                    raise
                _log.warning("the token for OAUTHBEARER is used on, as there is no new one: %s", error)
                return kept
            now_s = self._now_s()
            if found.expires_s is not None and found.expires_s <= now_s:
                raise AuthenticationFailed("OAUTHBEARER: the token that was given has expired")
            self._kept = None if found.expires_s is None else found
            self._renew_s = 0.0 if found.expires_s is None else now_s + (found.expires_s - now_s) * RENEW_FROM
            return found

    def forget(self, token: Token) -> None:
        """A broker did not believe it."""
        if self._kept is token:
            self._kept = None

    def _now_s(self) -> float:
        return self._host.clock.now_ms() / 1000

    async def _new_token(self) -> Token:
        origin, extensions = self._config.origin, self._config.extensions
        if isinstance(origin, ByEndpoint):
            return await self._of_endpoint(origin, extensions)
        if isinstance(origin, ByFile):
            try:
                text = read_secret_file(origin.path).strip()
            except TlsInvalid as error:
                raise AuthenticationFailed(f"OAUTHBEARER: {error}") from None
            return Token(text, expiry_of(text), extensions)
        if isinstance(origin, Unsigned):
            now_s = self._now_s()
            claims = {"sub": origin.user, "iat": now_s, "exp": now_s + origin.lifetime_s}
            return Token(unsigned_token(claims), now_s + origin.lifetime_s, extensions)
        return await self._of_provider(origin, extensions)

    # the application's

    async def _of_provider(self, origin: ByProvider, extensions: Mapping[str, str]) -> Token:
        answers: list[Any] = await asyncio.gather(self._asked(origin), return_exceptions=True)
        answer = answers[0]
        if isinstance(answer, KafkaError):
            raise answer
        if isinstance(answer, BaseException):
            raise Network(f"OAUTHBEARER: the token's provider raised {type(answer).__name__}: {answer}") from answer
        return _token_of(answer[0], {**extensions, **answer[1]})

    async def _asked(self, origin: ByProvider) -> tuple[Any, Mapping[str, str]]:
        method = getattr(origin.provider, "token", None)
        own = getattr(origin.provider, "extensions", None)
        answer = await self._call(method if callable(method) else origin.provider, *origin.argument)
        return answer, (await self._call(own) or {}) if callable(own) else {}

    async def _call(self, function: Callable[..., Any], *arguments: str) -> Any:
        """In the loop, if it is a coroutine function; else in a thread, since it may wait."""
        if inspect.iscoroutinefunction(function):
            return await function(*arguments)
        answer = await self._host.worker.run(lambda _pace: function(*arguments))
        return await answer if inspect.isawaitable(answer) else answer

    # an identity provider's

    async def _of_endpoint(self, origin: ByEndpoint, extensions: Mapping[str, str]) -> Token:
        names = (origin.client_id, origin.client_secret)
        pair = ":".join(map(quote_plus, names) if origin.is_header_url_encoded else names)
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode('ascii')}",
        }
        form = {"grant_type": "client_credentials"} | ({"scope": origin.scope} if origin.scope else {})
        try:
            answer = await fetch(
                self._host.network,
                origin.address,
                headers=headers,
                body=urlencode(form).encode("ascii"),
                tls=origin.tls,
                timeout_s=ENDPOINT_TIMEOUT_S,
            )
        except WebFailed as error:
            kind = Network if error.retriable else AuthenticationFailed
            raise kind(f"OAUTHBEARER: no token for client {origin.client_id!r}: {error}") from None
        where = origin.address.name
        try:
            members = json.loads(answer)
        except (ValueError, RecursionError):
            raise AuthenticationFailed(f"OAUTHBEARER: {where} answered no JSON") from None
        text = members.get("access_token") if isinstance(members, dict) else None
        if not isinstance(text, str) or not text:
            raise AuthenticationFailed(f"OAUTHBEARER: {where} answered no access_token")
        expires_s = expiry_of(text)
        lifetime_s = members.get("expires_in")
        if expires_s is None and isinstance(lifetime_s, int) and 0 < lifetime_s < 1e12:
            expires_s = self._now_s() + lifetime_s
        return Token(text, expires_s, extensions)


def _token_of(answer: Any, extensions: Mapping[str, str]) -> Token:
    """A text, or (text, seconds since 1970[, principal[, extensions]]) as librdkafka's callback gives it."""
    if isinstance(answer, str):
        return Token(answer, expiry_of(answer), extensions)
    if isinstance(answer, tuple | list) and 2 <= len(answer) <= 4 and isinstance(answer[0], str):
        text, expires_s = answer[:2]
        more = answer[3] if len(answer) == 4 and answer[3] else {}
        if isinstance(expires_s, int | float) and not isinstance(expires_s, bool) and isinstance(more, Mapping):
            return Token(text, float(expires_s), {**extensions, **more})
    raise AuthenticationFailed(
        "OAUTHBEARER: the token's provider must give a text, or a text and when it ends (seconds since 1970), "
        f"not {type(answer).__name__}"
    )
