"""A registry in memory that answers as the REST API's documentation says; a transport of httpx."""

from __future__ import annotations

import json
import urllib.parse

import httpx


class RegistryForTests:
    def __init__(self) -> None:
        self.by_id: list[dict] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.answers_first: list[httpx.Response | httpx.HTTPError] = []
        self.authorization = ""

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self)

    def put(self, subject: str, text: str, kind: str = "AVRO", references: list[dict] | None = None) -> int:
        content = {"schema": text, "schemaType": kind, "references": references or []}
        if content not in self.by_id:
            self.by_id.append(content)
        number = self.by_id.index(content) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        self.asked.append(f"{request.method} {path}")
        self.authorization = request.headers.get("Authorization", "")
        if self.answers_first:
            first = self.answers_first.pop(0)
            if isinstance(first, httpx.HTTPError):
                raise first
            return first
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        body = json.loads(request.content or b"{}")
        if parts[:2] in (["schemas", "ids"], ["schemas", "guids"]):
            number = int(parts[2].replace("-", ""), 16 if parts[1] == "guids" else 10)
            if not 1 <= number <= len(self.by_id):
                return httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})
            content = self.by_id[number - 1]
            unsaid = {"schemaType": "AVRO", "references": []}  # what is so is left out
            return httpx.Response(200, json={key: it for key, it in content.items() if unsaid.get(key) != it})
        subject = parts[1]
        if request.method == "POST":
            content = (body["schema"], body.get("schemaType", "AVRO"), body.get("references"))
            if len(parts) == 3:
                return httpx.Response(200, json={"id": self.put(subject, *content)})
            wanted = {"schema": content[0], "schemaType": content[1], "references": content[2] or []}
            for version, number in enumerate(self.subjects.get(subject, []), 1):
                if self.by_id[number - 1] == wanted:
                    return httpx.Response(200, json={"subject": subject, "id": number, "version": version} | wanted)
            return httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})
        versions = self.subjects.get(subject, [])
        index = len(versions) if parts[3] == "latest" else int(parts[3])
        if not 1 <= index <= len(versions):
            return httpx.Response(404, json={"error_code": 40401, "message": f"Subject '{subject}' not found."})
        number = versions[index - 1]
        return httpx.Response(200, json={"subject": subject, "id": number, "version": index} | self.by_id[number - 1])
