"""Writes docs/attacks.md: every attack of `evidence/attacks`, what oncelog does, what Apache Kafka 4.3 did with the same bytes.

`python -m tools.attacks_page` writes it; `evidence/attacks/test_attacks_page.py` compares.
"""

from __future__ import annotations

import pathlib
import re

from evidence.attacks.attack import ATTACKS, Attack
from evidence.attacks.kinds import KINDS, of_kind
from evidence.attacks.record import recorded

from oncelog.errors import ErrorCode

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "attacks.md"
TITLES = {"tls": "TLS", "scram": "SCRAM", "json web tokens": "JSON Web Tokens", "tokens": "Delegation tokens"}
INTRO = """\
# Attacks
{count} attacks on a secured broker, each a function of `evidence/attacks/` (one file for each kind): real bytes over real
sockets, from a loopback address of the attacker's own. After each it is looked at what the attacker got, that a line of the log
names its address and why, that no line has control characters, a password, key or token in it, and that a user who is connected
is still served. `make attacks` runs them, and so does `make test`. How oncelog is secured: [security.md](security.md).

Apache Kafka 4.3.0 got the same bytes, with the same listeners, users and rights ({asked} attacks;
`python -m evidence.attacks.record` asks it anew, with `--check` it compares); where it did not, the reason stands there.
*Same*: both end alike. In **bold**: the attacker got what it wanted, or was not stopped.

"closed": the connection ends without an answer; numbers are Kafka's error codes: {codes}.
"served" or a code of 0 means: let in. Written by `tools/attacks_page.py` from the code and `evidence/attacks/recorded.json`.
"""
_WON = re.compile(
    r"\b0, served|\bserved on|^served|^taken$|^resolved$|renegotiated|as fast as ever|lives on|told apart|^stored$|^0$|a salt$"
)


def what_kafka_did(attack: Attack, held: dict[str, str]) -> str:
    """A cell of the table."""
    if attack.not_asked:
        return attack.not_asked
    end = held[attack.name]
    if end == attack.ends:
        return "same"
    return f"**{end}**" if _WON.search(end) else end


def render() -> str:
    """The page."""
    held = recorded()
    text = " ".join([*(each.ends for each in ATTACKS.values()), *held.values()])
    found = sorted({int(each) for each in re.findall(r"\b\d\d\b", text)} & {int(code) for code in ErrorCode})
    codes = ", ".join(f"{code} {ErrorCode(code).name}" for code in found)
    parts = [INTRO.format(count=len(ATTACKS), asked=len(held), codes=codes)]
    for kind in KINDS:
        attacks = of_kind(kind)
        title = TITLES.get(kind, kind.capitalize())
        parts += [f"## {title} ({len(attacks)})", "| the attacker | oncelog | Apache Kafka 4.3 |", "|---|---|---|"]
        for each in attacks:
            said = each.text.replace("|", "\\|")
            parts.append(f"| {said} | {each.ends} | {what_kafka_did(each, held)} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"{PAGE.name} written")
