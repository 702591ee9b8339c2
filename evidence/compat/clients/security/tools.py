"""Apache Kafka's tools with `--command-config`: the stories on both secured brokers; what they print is compared."""

from __future__ import annotations

import difflib
import pathlib
from typing import Any

from evidence.compat.clients.security.servers import MODULES, Secured
from evidence.compat.clients.security.ways import (
    PASSWORDS,
    USER,
    WAYS,
    WRONG,
    Way,
    settings,
)
from evidence.compat.stories_of_secured_tools import SECURED_STORIES, SecuredStory
from evidence.compat.tool_runner import ToolRunner

LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def properties(given: dict[str, Any]) -> str:
    """A file for `--command-config`, from a program's settings."""
    lines = {"security.protocol": given["protocol"]}
    for name, key in (("ca", "truststore"), ("chained", "keystore")):
        if given[name]:
            lines |= {f"ssl.{key}.type": "PEM", f"ssl.{key}.location": given[name]}
    mechanism = given["mechanism"]
    if mechanism:
        options = f' username="{given["user"]}" password="{given["password"]}"' if given["user"] else ""
        more = ' tokenauth="true"' if given["tokenauth"] else ""
        lines |= {"sasl.mechanism": mechanism, "sasl.jaas.config": f"{MODULES[mechanism]} required{options}{more};"}
    if mechanism == "OAUTHBEARER":
        lines["sasl.login.callback.handler.class"] = LOGIN_HANDLER
        lines["sasl.oauthbearer.token.endpoint.url"] = f"file://{given['bearer_file']}"
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def _as(way: Way, secured: Secured, user: str) -> dict[str, Any]:
    step = WRONG if user == "wrong" else ""
    given = settings(way, step, secured.bootstrap(way), secured.secrets, "tools")
    return given | {"user": "admin", "password": PASSWORDS["admin"]} if user == "admin" else given


def teller(secured: Secured, run: ToolRunner, work: pathlib.Path) -> SecuredStory:
    """Who tells the stories of one broker."""
    logins: dict[Any, Any] = {}
    for way in WAYS.values():
        logins[way.name, USER] = properties(_as(way, secured, USER))
        if WRONG in way.steps:
            logins[way.name, "wrong"] = properties(_as(way, secured, "wrong"))
    by_password = WAYS["SASL_SSL SCRAM-SHA-512"]
    logins[by_password.name, "admin"] = properties(_as(by_password, secured, "admin"))
    options = {
        "security_protocol": "SASL_SSL",
        "ssl_ca_location": str(secured.secrets.ca),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "admin",
        "sasl_password": PASSWORDS["admin"],
    }
    addresses = {way.name: secured.bootstrap(way) for way in WAYS.values()}
    return SecuredStory(run, work, addresses, logins, options)


def tell(secured: Secured, launcher: str, work: pathlib.Path, only: str = "") -> dict[str, dict[str, Any]]:
    """Every story: its lines, and the error that it ended with."""
    found: dict[str, dict[str, Any]] = {}
    with ToolRunner(launcher, *_allowed(secured)) as run:
        for name, told in SECURED_STORIES.items():
            if only and only not in name:
                continue
            x = teller(secured, run, work)
            error = ""
            try:
                told.tell(x)
            except Exception as failure:  # noqa: BLE001 - reported
                error = f"{type(failure).__name__}: {failure}"
            found[name] = {"lines": x.lines, "error": error}
    return found


def _allowed(secured: Secured) -> list[str]:
    urls = ",".join(f"file://{file}" for file in (secured.secrets.bearer, secured.secrets.wrong_bearer))
    return [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={urls}"]


def judged(told: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, str]]:
    """By story: what each server's telling came to, and whether both printed the same."""
    results: dict[str, dict[str, str]] = {}
    for server, stories in told.items():
        for name, one in stories.items():
            results.setdefault(name, {})[server] = f"failed: {one['error']}" if one["error"] else "passed"
    if len(told) == 2:
        ours, theirs = told.values()
        for name, result in results.items():
            lines = difflib.unified_diff(theirs[name]["lines"], ours[name]["lines"], lineterm="", n=0)
            differing = [line for line in lines if not line.startswith(("@@", "---", "+++"))]
            result["printed"] = "the same" if not differing else "\n".join(differing)
    return results
