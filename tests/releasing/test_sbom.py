"""The bill of materials names what is installed, with versions, licences, dependencies and oncelog's own files."""

from __future__ import annotations

import hashlib
import json
import pathlib

from cyclonedx.model.bom import Bom
from tools.sbom import bill_of_materials

INSTALLED = {
    "oncelog": "Version: 0.1.0\nLicense-Expression: Apache-2.0\n"
    "Requires-Dist: Rich>=14\nRequires-Dist: pytest; extra == 'test'\n",
    "rich": "Version: 15.0.0\nLicense: MIT\nRequires-Dist: mdurl\n",
    "mdurl": "Version: 0.1.2\nClassifier: Topic :: X\nClassifier: License :: OSI Approved :: MIT License\n",
}


def test_a_bill(tmp_path: pathlib.Path) -> None:
    for name, lines in INSTALLED.items():
        (tmp_path / f"{name}.dist-info").mkdir()
        (tmp_path / f"{name}.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\n{lines}")
    wheel = tmp_path / "oncelog-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    text = bill_of_materials(tmp_path, [wheel], at_s=1_790_000_000)
    assert text == bill_of_materials(tmp_path, [wheel], at_s=1_790_000_000), "the same every time"
    bill = json.loads(text)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    mdurl, rich = sorted(bill["components"], key=lambda each: each["name"])
    assert mdurl["licenses"] == [{"license": {"name": "MIT License"}}]
    assert (rich["name"], rich["version"], rich["purl"]) == ("rich", "15.0.0", "pkg:pypi/rich@15.0.0")
    assert rich["licenses"] == [{"license": {"id": "MIT"}}]
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"]) == ("oncelog", "0.1.0")
    (file,) = own["components"]
    assert file["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"a wheel").hexdigest()}]
    assert {"ref": "pkg:pypi/oncelog@0.1.0", "dependsOn": ["pkg:pypi/rich@15.0.0"]} in bill["dependencies"]
    read = Bom.from_json(bill)
    assert {component.name for component in read.components} == {"rich", "mdurl"}
