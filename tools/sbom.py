"""The bill of materials of an environment in which only oncelog is installed, in CycloneDX's JSON (cyclonedx-python-lib)."""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib.metadata
import pathlib
import re
import uuid
from collections.abc import Iterable

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from tools.smoke import normal


def bill_of_materials(site_packages: pathlib.Path, artifacts: Iterable[pathlib.Path], at_s: int) -> str:
    """The document's text: what oncelog needs at run time, each with version, licence and what it needs itself.

    `artifacts` are oncelog's own files (their SHA-256 is given), `at_s` is the moment it tells (seconds since 1970): the
    same environment and moment give the same text.
    """
    installed = {
        normal(each.metadata["Name"]): each for each in importlib.metadata.distributions(path=[str(site_packages)])
    }
    components = {name: component(each) for name, each in installed.items()}
    own = components["oncelog"]
    own.type = ComponentType.APPLICATION
    own.components = [
        Component(
            name=path.name,
            type=ComponentType.FILE,
            bom_ref=path.name,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(path.read_bytes()).hexdigest())],
        )
        for path in artifacts
    ]
    bom = Bom(
        components=[each for name, each in components.items() if name != "oncelog"],
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{own.purl} {at_s}"),
        metadata=BomMetaData(component=own, timestamp=dt.datetime.fromtimestamp(at_s, dt.UTC)),
    )
    for name, each in installed.items():
        bom.register_dependency(components[name], [components[other] for other in needed(each) if other in components])
    text: str = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)
    return text + "\n"


def needed(distribution: importlib.metadata.Distribution) -> list[str]:
    """The names that it needs, extras' ones left out."""
    lines = (line for line in distribution.requires or () if "extra ==" not in line)
    return [normal(re.split(r"[\s\[<>=!~(;]", line.strip())[0]) for line in lines]


def component(distribution: importlib.metadata.Distribution) -> Component:
    """A distribution as a component, with its licence as its authors state it."""
    name, version = normal(distribution.metadata["Name"]), distribution.version
    purl = PackageURL("pypi", None, name, version)
    stated = distribution.metadata.get("License-Expression") or distribution.metadata.get("License")
    classified = [line for line in distribution.metadata.get_all("Classifier") or () if line.startswith("License ::")]
    texts = [stated.splitlines()[0]] if stated else [line.rpartition(" :: ")[2] for line in classified]
    licenses = [LicenseFactory().make_from_string(text) for text in texts]
    return Component(
        name=name, version=version, type=ComponentType.LIBRARY, bom_ref=str(purl), purl=purl, licenses=licenses
    )
