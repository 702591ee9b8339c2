"""The ways a client comes in, what it is asked to do by each, and the settings that its program is given for it."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

TRANSACTION, WRONG, LOAD = "transaction", "wrong", "load"
STEPS = {
    TRANSACTION: "a transaction is aborted, one is committed, and read_committed reads the second only",
    WRONG: "with a wrong secret it is refused",
    LOAD: "transactions and a reader go on through several sessions",
}
SESSION_MS = 2_000
LOAD_S = 7.0
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOKEN = "delegation token"
TOKENS_MECHANISM = "SCRAM-SHA-256"
USER = "alice"
PASSWORDS = {"admin": "administrator-of-the-matrix", USER: "the-password-of-alice"}


@dataclass(frozen=True)
class Way:
    """A security protocol, and how a client says who it is."""

    protocol: str
    by: str = ""

    @property
    def name(self) -> str:
        return f"{self.protocol} {self.by}".strip()

    @property
    def mechanism(self) -> str:
        """For SASL."""
        return TOKENS_MECHANISM if self.by == TOKEN else self.by if self.is_sasl else ""

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def is_mutual(self) -> bool:
        return self.protocol == "mTLS"

    @property
    def security_protocol(self) -> str:
        """Kafka's name."""
        return "SSL" if self.is_mutual else self.protocol

    @property
    def steps(self) -> tuple[str, ...]:
        """Without a secret none can be wrong; only SASL has sessions."""
        if self.protocol == "PLAINTEXT":
            return (TRANSACTION,)
        return tuple(STEPS) if self.is_sasl else (TRANSACTION, WRONG)


WAYS = {
    way.name: way
    for way in (
        Way("PLAINTEXT"),
        Way("SSL"),
        Way("mTLS"),
        *(Way(protocol, by) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for by in (*MECHANISMS, TOKEN)),
    )
}


@dataclass(frozen=True)
class Secrets:
    """Everything that somebody could come in with. Paths of PEM files; `chained` is certificate and key in one."""

    ca: pathlib.Path
    other_ca: pathlib.Path
    certificate: pathlib.Path
    key: pathlib.Path
    chained: pathlib.Path
    bearer: pathlib.Path
    wrong_bearer: pathlib.Path
    token_id: str
    token_mac: str


def settings(way: Way, step: str, bootstrap: str, secrets: Secrets, name: str) -> dict[str, Any]:
    """What a program reads on stdin: neutral names, all of them always there.

    `topic` and `name` (of the transactional id, the group, and the client id) are its own; `seconds` is how long LOAD takes.
    A wrong secret is a wrong password or MAC, a token for another audience, another authority, or no certificate.
    """
    wrong = step == WRONG
    given: dict[str, Any] = {
        "step": step,
        "bootstrap": bootstrap,
        "protocol": way.security_protocol,
        "mechanism": way.mechanism,
        "topic": name,
        "name": name,
        "seconds": LOAD_S,
        **dict.fromkeys(("ca", "certificate", "key", "chained", "user", "password", "bearer", "bearer_file"), ""),
        "tokenauth": way.by == TOKEN,
    }
    if way.security_protocol.endswith("SSL"):
        given["ca"] = str(secrets.other_ca if wrong and way.protocol == "SSL" else secrets.ca)
    if way.is_mutual and not wrong:
        given |= {name: str(getattr(secrets, name)) for name in ("certificate", "key", "chained")}
    if way.mechanism == "OAUTHBEARER":
        file = secrets.wrong_bearer if wrong else secrets.bearer
        given |= {"bearer_file": str(file), "bearer": file.read_text()}
    elif way.is_sasl:
        user, password = (secrets.token_id, secrets.token_mac) if given["tokenauth"] else (USER, PASSWORDS[USER])
        given |= {"user": user, "password": f"{password[:-4]}no==" if wrong else password}
    return given
