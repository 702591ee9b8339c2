"""What the configuration says about delegation tokens."""

from __future__ import annotations

from oncelog.broker.config.config import BrokerConfig
from oncelog.core.metadata.delegation_tokens import TokenTerms


def terms_of(config: BrokerConfig) -> TokenTerms:
    """The terms in force; without a secret key there are no tokens."""
    return TokenTerms(
        config.delegation_token_secret_key.text.encode(),
        config.delegation_token_max_lifetime_ms,
        config.delegation_token_expiry_time_ms,
        config.oncelog_max_delegation_tokens,
    )
