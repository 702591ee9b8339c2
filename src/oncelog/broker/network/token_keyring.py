"""Delegation tokens as listeners know them: which hold, and the keys that prove them, worked out at a token's first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog.broker.config.config import BrokerConfig
from oncelog.core.metadata.delegation_tokens import is_expired, mac_of
from oncelog.core.sasl.token_login import TokenKeys, derived_keys
from oncelog.wire.log_records.cluster_metadata import DelegationTokenRecord

SPARE_COUNT = 100  # of keys of tokens that are gone, before they are looked for


class TokenKeyring:
    """Of one broker. `tokens` is the metadata's own mapping."""

    def __init__(
        self,
        tokens: Mapping[str, DelegationTokenRecord],
        config: Callable[[], BrokerConfig],
        now_ms: Callable[[], int],
    ) -> None:
        self._tokens = tokens
        self._config = config
        self._now_ms = now_ms
        self._derived: dict[tuple[str, str], tuple[bytes, bytes]] = {}  # by token and mechanism

    def keys(self, mechanism: str, token_id: str, salt: bytes) -> TokenKeys | None:
        """What proves a token; None where there is none, or it holds no longer. A token's salt is always the same."""
        token = self._live(token_id)
        if token is None:
            return None
        derived = self._derived.get((token_id, mechanism))
        if derived is None:
            self._forget_gone()
            secret = self._config().delegation_token_secret_key.text.encode()
            derived = self._derived[token_id, mechanism] = derived_keys(mechanism, mac_of(secret, token_id), salt)
        ends_ms = min(token.expiry_timestamp_ms, token.max_timestamp_ms)
        lifetime_ms = max(ends_ms - self._now_ms(), 1)
        return TokenKeys(token.owner.partition(":")[2], lifetime_ms, salt, *derived)

    def holds(self, token_id: str) -> bool:
        """Whether who came by this token could still."""
        return self._live(token_id) is not None

    def _live(self, token_id: str) -> DelegationTokenRecord | None:
        token = self._tokens.get(token_id) if self._config().delegation_token_secret_key else None
        return None if token is None or is_expired(token, self._now_ms()) else token

    def _forget_gone(self) -> None:
        if len(self._derived) > 2 * len(self._tokens) + SPARE_COUNT:
            self._derived = {key: value for key, value in self._derived.items() if key[0] in self._tokens}
