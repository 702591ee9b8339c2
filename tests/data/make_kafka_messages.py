"""Writes kafka_messages.json: field names, types, versions, defaults and tags of the APIs that oncelog knows.

Facts only, read from the message definitions inside Apache Kafka's client jar:

    python tests/data/make_kafka_messages.py kafka-clients-4.3.0.jar
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import zipfile
from typing import Any

from oncelog.wire.api import APIS

DIGEST = pathlib.Path(__file__).with_name("kafka_messages.json")
FOLDER = "common/message/"


def without_comments(text: str) -> str:
    text = re.sub(r"(?m)^\s*//.*$", "", text)
    return re.sub(r"(?m)(?<=[\[\]{},])\s*//.*$", "", text)


def field_facts(definition: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {key: definition[key] for key in ("name", "type", "versions")}
    for key, short in {"nullableVersions": "nullable", "taggedVersions": "tagged", "tag": "tag"}.items():
        if key in definition:
            facts[short] = definition[key]
    if "default" in definition:
        facts["default"] = str(definition["default"]).lower() if definition["type"] == "bool" else definition["default"]
    if definition.get("ignorable") in (True, "true"):
        facts["ignorable"] = True
    if "fields" in definition:
        facts["fields"] = [field_facts(inner) for inner in definition["fields"]]
    return facts


def message_facts(definition: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "key": definition["apiKey"],
        "versions": definition["validVersions"],
        "flexible": definition["flexibleVersions"],
        "fields": [field_facts(inner) for inner in definition["fields"]],
    }
    if definition.get("latestVersionUnstable") in (True, "true"):
        facts["latest_version_unstable"] = True
    if "commonStructs" in definition:
        facts["common"] = {
            struct["name"]: [field_facts(inner) for inner in struct["fields"]] for struct in definition["commonStructs"]
        }
    return facts


def digest(jar: pathlib.Path) -> dict[str, Any]:
    """What the jar says about each request and response, by message name."""
    messages = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith(FOLDER) and name.endswith(".json"):
                definition = json.loads(without_comments(archive.read(name).decode()))
                if definition.get("apiKey") in APIS:
                    messages[definition["name"]] = message_facts(definition)
    return dict(sorted(messages.items()))


def to_text(messages: dict[str, Any]) -> str:
    lines = (f"{json.dumps(name)}:{json.dumps(facts, separators=(',', ':'))}" for name, facts in messages.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    DIGEST.write_text(to_text(digest(pathlib.Path(sys.argv[1]))))
