"""Tokens of one listener's OAUTHBEARER: the keys in force, asked for again from time to time, and each token's verdict.

A token's way has no network on it: it is judged by the keys that are here. One that names an unknown key has them asked
for early, at most once in ten seconds; keys that cannot be had again stay, as in Apache Kafka. Unlike there a broker
starts where nobody answers at the keys' address, and takes no token until somebody does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from oncelog.broker.config.bearer_config import BearerConfig, KeysConfig
from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.metrics.metrics import Metrics
from oncelog.core.json_web_token import (
    UNSIGNED,
    JsonWebToken,
    TokenInvalid,
    TokenRules,
    claimed_name,
    holder_of,
    parse_token,
)
from oncelog.core.sasl.oauthbearer import NotVerified, Verified
from oncelog.host.json_web_keys import GOOD, UNKNOWN_KEY, JsonWebKeys, KeysInvalid
from oncelog.host.network import Network
from oncelog.host.randomness import Random
from oncelog.host.tls import TlsInvalid, read_public_file
from oncelog.host.web import WebFailed, fetch

_log = logging.getLogger("oncelog.server")

EARLY_INTERVAL_S = 10.0  # how often unknown keys may have the set asked for
FILE_INTERVAL_S = 5.0  # how often a file is looked at
NO_KEYS = "there are no keys yet"


class BearerTokens:
    """What a listener believes."""

    def __init__(
        self, config: BearerConfig, network: Network, random: Random, metrics: Metrics, now_s: Callable[[], float]
    ) -> None:
        self._config = config
        self._network = network
        self._random = random
        self._metrics = metrics
        self._now_s = now_s  # the wall's clock
        self._keys: JsonWebKeys | None = None
        self._text = b""
        self._told = ""
        self._is_wanted = asyncio.Event()
        self._early_s = float("-inf")

    def check(self) -> None:
        """Read the keys where they are in a file. Raises ConfigInvalid."""
        keys = self._config.keys
        if keys is not None and keys.path:
            try:
                self._take(_read(keys.path))
            except KeysInvalid as error:
                raise ConfigInvalid(str(error)) from None

    # tokens

    def verify(self, text: str) -> Verified | NotVerified:
        """Whether a token is believed, and for how long."""
        rules, now_s = self._config.rules, self._now_s()
        try:
            token = parse_token(text)
        except TokenInvalid as error:
            return NotVerified(str(error))
        wrong = self._wrong_signature(token, rules)
        if wrong:
            return NotVerified(wrong, claimed_name(token, rules))
        try:
            holder = holder_of(token, rules, now_s)
        except TokenInvalid as error:
            return NotVerified(str(error), claimed_name(token, rules))
        return Verified(holder.user, max(int((holder.expires_s - now_s) * 1000), 1))

    def _wrong_signature(self, token: JsonWebToken, rules: TokenRules) -> str:
        if token.algorithm not in rules.algorithms:
            return "its algorithm is not believed"
        if token.algorithm == UNSIGNED:
            return "it has a signature, and says that it has none" if token.signature else GOOD
        if self._keys is None:
            return NO_KEYS
        verdict = self._keys.verdict(token.algorithm, token.key_id, token.signed, token.signature)
        if verdict == UNKNOWN_KEY:
            self._ask_early()
        return verdict

    def _ask_early(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._early_s >= EARLY_INTERVAL_S:
            self._early_s = now_s
            self._is_wanted.set()

    # keys

    async def run(self) -> None:
        """For ever: have the keys that are in force now."""
        keys = self._config.keys
        if keys is None:
            return
        backoff_ms = keys.retry_backoff_ms
        while True:
            self._is_wanted.clear()
            try:
                self._take(await self._asked(keys))
            except (KeysInvalid, WebFailed) as error:
                self._failed(error)
                wait_s = self._random.uniform(0.5, 1.0) * backoff_ms / 1000
                backoff_ms = min(backoff_ms * 2, max(keys.retry_backoff_max_ms, keys.retry_backoff_ms))
                await asyncio.sleep(wait_s)  # an unknown key does not make it faster
                continue
            backoff_ms = keys.retry_backoff_ms
            interval_s = keys.refresh_ms / 1000
            try:
                async with asyncio.timeout(min(interval_s, FILE_INTERVAL_S) if keys.path else interval_s):
                    await self._is_wanted.wait()
            except TimeoutError:
                continue

    async def _asked(self, keys: KeysConfig) -> bytes:
        if keys.address is None:
            return _read(keys.path)
        return await fetch(self._network, keys.address, headers={"Accept": "application/json"}, tls=keys.tls)

    def _take(self, text: bytes) -> None:
        if text == self._text:
            self._told = ""
            return
        where = self._where
        try:
            found = JsonWebKeys.parse(text)
        except KeysInvalid as error:
            raise KeysInvalid(f"{where}: {error}") from None
        self._keys, self._text, self._told = found, text, ""
        self._metrics.add("oauthbearer_key_sets")
        _log.info("%d keys for OAUTHBEARER from %s", len(found), where)

    def _failed(self, error: Exception) -> None:
        self._metrics.add("oauthbearer_key_set_failures")
        if str(error) != self._told:
            self._told = str(error)
            what = "no token is taken until they can" if self._keys is None else "those in force stay"
            _log.error("keys for OAUTHBEARER cannot be had, %s: %s", what, error)

    @property
    def _where(self) -> str:
        keys = self._config.keys
        assert keys is not None
        return keys.path if keys.address is None else keys.address.name


def _read(path: str) -> bytes:
    try:
        return read_public_file(path).encode()
    except TlsInvalid as error:
        raise KeysInvalid(str(error)) from None
