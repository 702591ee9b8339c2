"""The tables of this part on docs/compatibility.md, from what was saved."""

from __future__ import annotations

from collections import Counter
from typing import Any

from evidence.compat.clients.security.ways import LOAD, TRANSACTION, WAYS, WRONG
from evidence.compat.stories_of_secured_tools import SECURED_STORIES

Outcome = dict[str, Any]
Found = dict[str, dict[str, Outcome]]
KEPT = ("result", "detail", "errors", "again")
# Of a wrong secret, the best first.
RANKS = ("passed", "told", "refused", "failed")
SIGNS = {"passed": "✓", "told": "log", "refused": "mute", "failed": "**✗**", "absent": "-"}
ASKED = {
    "wrong authority (SSL)": "SSL",
    "no certificate (mTLS)": "mTLS",
    "wrong password (PLAIN)": "SASL_SSL PLAIN",
    "wrong password (SCRAM)": "SASL_SSL SCRAM-SHA-512",
    "token for somebody else (OAUTHBEARER)": "SASL_SSL OAUTHBEARER",
}
SERVERS = {"oncelog": "oncelog", "kafka": "Apache Kafka"}


def count(found: Found) -> Counter[str]:
    """Results by their name."""
    return Counter(outcome["result"] for outcomes in found.values() for outcome in outcomes.values())


def kept(client: dict[str, Any]) -> dict[str, Any]:
    """What is saved of a client's results: nothing that differs from run to run."""
    saved: dict[str, Any] = {key: value for key, value in client.items() if key not in SERVERS}
    for server in SERVERS:
        if server in client:
            saved[server] = {
                way: {
                    step: {key: outcome[key] for key in KEPT if outcome.get(key) not in (None, "", [])}
                    for step, outcome in steps.items()
                }
                for way, steps in client[server].items()
            }
    return saved


def worse(clients: dict[str, Any]) -> list[str]:
    """Cells that are poorer with oncelog than with Apache Kafka."""
    found = []
    for name, client in clients.items():
        for way, steps in client.get("oncelog", {}).items():
            for step, ours in steps.items():
                theirs = client.get("kafka", {}).get(way, {}).get(step)
                if theirs is None or ours["result"] == "absent" == theirs["result"]:
                    continue
                ranks = [
                    RANKS.index(each["result"]) if each["result"] in RANKS else len(RANKS) for each in (ours, theirs)
                ]
                if (
                    ranks[0] > ranks[1]
                    or (ours.get("errors") and not theirs.get("errors"))
                    or (theirs.get("again") and not ours.get("again"))
                ):
                    found.append(f"{name}, {way}, {step}: {ours} / {theirs}")
    return found


def _table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ["---"] * len(heads), *rows))


def _sign(client: dict[str, Any], server: str, way: str, step: str) -> str:
    outcome = client.get(server, {}).get(way, {}).get(step)
    if outcome is None:
        return "not run"
    if step != LOAD or outcome["result"] != "passed":
        return SIGNS[outcome["result"]]
    if outcome.get("errors"):
        return "says so"
    # seen by a relay before the listener without TLS
    seen = client[server].get(way.replace("SASL_SSL", "SASL_PLAINTEXT"), {}).get(step, {})
    return "✓" if seen.get("again") else "back"


def matrix(clients: dict[str, Any], server: str) -> str:
    """A row for each way."""
    rows = []
    for name, way in WAYS.items():
        cells = []
        for client in clients.values():
            signs = ["not run"] if "missing" in client else [_sign(client, server, name, step) for step in way.steps]
            cells.append(signs[0] if len(set(signs)) == 1 and signs[0] in ("-", "not run") else " ".join(signs))
        rows.append([name, *cells])
    return _table(["way", *clients], rows)


def refusals(clients: dict[str, Any]) -> str:
    """What each client says, with oncelog."""
    rows = []
    for name, client in clients.items():
        cells = []
        for way in ASKED.values():
            outcome = client.get("oncelog", {}).get(way, {}).get(WRONG, {"result": "not run"})
            said = outcome.get("detail", "").replace("|", "/").replace("`", "'")
            cells.append(f"`{said[:160]}`" if said else outcome["result"])
        rows.append([name, *cells])
    return _table(["client", *ASKED], rows)


def remarks(clients: dict[str, Any]) -> str:
    """Why a cell is -, **✗**, or `says so`."""
    lines: dict[str, list[str]] = {}
    for name, client in clients.items():
        if "missing" in client:
            _add(lines, client["missing"], f"{name} (not run)")
        for server, called in SERVERS.items():
            for way, steps in client.get(server, {}).items():
                for step, outcome in steps.items():
                    where = "" if server == "oncelog" else f" with {called}"
                    if outcome["result"] == "absent" and step == TRANSACTION and server == "oncelog":
                        _add(lines, outcome["detail"], f"{name}: {WAYS[way].by or way}")
                    elif outcome["result"] == "failed":
                        _add(lines, f"{outcome['detail']} (FAILED)", f"{name}: {way} {step}{where}")
                    for error in outcome.get("errors", ()):
                        _add(lines, f"`{error[:200]}`", f"{name}: {way} {step}{where}")
    return "\n".join(f"* {', '.join(who)}: {detail}" for detail, who in sorted(lines.items())) or "* none"


def _add(lines: dict[str, list[str]], reason: str, who: str) -> None:
    names = lines.setdefault(reason, [])
    if who not in names:
        names.append(who)


def tools(results: dict[str, dict[str, str]]) -> str:
    """A row for each story."""
    rows = []
    for name, told in SECURED_STORIES.items():
        result = results.get(name, {})
        cells = [SIGNS.get(result.get(server, "").partition(":")[0], "not run") for server in SERVERS]
        rows.append([told.tool, told.what, *cells, result.get("printed", "not compared").splitlines()[0]])
    return _table(["tool", "what was done", "oncelog", "Apache Kafka 4.3", "printed"], rows)
