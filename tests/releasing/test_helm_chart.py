"""The Helm chart: Helm renders it, and what it rendered is started here, with other directories and ports.

`make chart` has Helm (HELM_PATH, the PATH, else built with Go) and PyYAML. Without them only what a file says is looked at.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from evidence.world.ports import free_port
from tools.distribution import ROOT, version

from tests.releasing.packaging_files import containerfile

CHART = ROOT / "packaging/helm/oncelog"
HELM = os.environ.get("HELM_PATH") or shutil.which("helm")
TIMEOUT_S = 60.0
PASSWORD = "a-password-of-the-test"


def test_the_chart_has_the_versions_and_the_user_of_the_rest() -> None:
    about = (CHART / "Chart.yaml").read_text()
    assert re.findall(r"^(version|appVersion): (.*)$", about, re.MULTILINE) == [
        ("version", version()),
        ("appVersion", version()),
    ]
    pod = (CHART / "templates/statefulset.yaml").read_text()
    assert set(re.findall(r"(?:runAsUser|runAsGroup|fsGroup): (\d+)", pod)) == set(containerfile()["USER"].split(":"))


@pytest.fixture
def helm() -> str:
    pytest.importorskip("yaml", reason="`make chart` has PyYAML")
    if HELM is None:
        pytest.skip("`make chart` has Helm")
    return HELM


def rendered(helm: str, *settings: str) -> dict[str, Any]:
    """By kind; `helm template` knows of no cluster."""
    import yaml

    words = [part for each in settings for part in ("--set", each)]
    done = subprocess.run(
        [helm, "template", "orders", CHART, "--namespace", "shop", *words], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}


def test_helm_takes_it(helm: str) -> None:
    done = subprocess.run(
        [helm, "lint", "--strict", CHART, "--set", "tls.secretName=keys"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_without_a_certificate_it_is_refused_with_what_to_say(helm: str) -> None:
    done = subprocess.run([helm, "template", "orders", CHART], capture_output=True, text=True)
    assert done.returncode != 0
    assert "tls.secretName: name a secret with the key broker.pem" in done.stderr


def test_one_broker_without_rights_that_keeps_its_data_and_starts_anew_when_its_configuration_changes(
    helm: str,
) -> None:
    before = rendered(helm, "tls.secretName=keys")
    spec = before["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["replicas"] == 1
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts[spec["volumeClaimTemplates"][0]["metadata"]["name"]] == containerfile()["WORKDIR"]
    assert container["image"] == f"oncelog:{version()}"
    after = rendered(helm, "tls.secretName=keys", "config.log\\.retention\\.hours=24")
    assert "\nlog.retention.hours=24\n" in after["ConfigMap"]["data"]["server.properties"] + "\n"
    annotations = [each["StatefulSet"]["spec"]["template"]["metadata"]["annotations"] for each in (before, after)]
    assert annotations[0]["oncelog/server-properties"] != annotations[1]["oncelog/server-properties"]


def test_what_is_set_wins_and_stands_once(helm: str) -> None:
    lines = rendered(helm, "insecure=true", "config.node\\.id=7")["ConfigMap"]["data"]["server.properties"].splitlines()
    assert [line for line in lines if line.startswith("node.id=")] == ["node.id=7"]
    assert len({line.partition("=")[0] for line in lines}) == len(lines)


def test_numbers_of_a_file_of_values_stay_whole(helm: str, tmp_path: pathlib.Path) -> None:
    values = tmp_path / "values.yaml"
    wanted = "tls: {secretName: keys}\nconfig: {log.retention.ms: 604800000, log.cleaner.min.cleanable.ratio: 0.25}\n"
    values.write_text(wanted)
    command = [helm, "template", "orders", CHART, "-f", values]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "\n    log.retention.ms=604800000\n" in done.stdout
    assert "\n    log.cleaner.min.cleanable.ratio=0.25\n" in done.stdout
    values.write_text(wanted.replace("604800000", str(2**63 - 1)))
    assert (
        "config.log.retention.ms: a number as large" in subprocess.run(command, capture_output=True, text=True).stderr
    )
    values.write_text(wanted.replace("604800000", f'"{2**63 - 1}"'))
    assert f"log.retention.ms={2**63 - 1}\n" in subprocess.run(command, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("replicaCount=3", "replicaCount"),
        ("tls.secretname=keys", "secretname"),
        ("insecure=true", "say one of them"),
        ("insecure=yes", "insecure"),
        ("clients.port=99999", "port"),
        ("clients.port=abc", "port"),
        ("clients.port=9092", "two different ports"),
        ("metrics.port=9094", "two different ports"),
        ("clients.host=a:b", "host"),
        ("clients.service.type=Bogus", "type"),
        ("storage.size=lots", "size"),
        ("config.a.b=c", "config"),
    ],
)
def test_values_that_make_no_broker_are_refused(helm: str, setting: str, says: str) -> None:
    command = [helm, "template", "orders", CHART, "--set", "tls.secretName=keys", "--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0, done.stdout
    assert says in done.stderr


def here(chart: dict[str, Any], place: pathlib.Path) -> tuple[pathlib.Path, dict[str, str]]:
    """The pod's files in `place`, on this machine's loopback with free ports; the ports by the names of the pod."""
    (container,) = chart["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    ports = {each["name"]: str(free_port()) for each in container["ports"]} | {"local": str(free_port())}
    text = chart["ConfigMap"]["data"]["server.properties"]
    for each in container["ports"]:
        text = text.replace(f":{each['containerPort']}", f":{ports[each['name']]}")
    text = text.replace(":9092", f":{ports['local']}").replace("0.0.0.0", "127.0.0.1")
    text = text.replace("orders-oncelog.shop.svc", "localhost")
    text = text.replace("/etc/oncelog", str(place)).replace("/var/lib/oncelog", str(place))
    (place / "server.properties").write_text(text)
    return place / "server.properties", ports


def is_well(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
        return bool(answer.status == 200)
    return False


@contextlib.contextmanager
def running(words: list[str], properties: pathlib.Path, ready: str) -> Iterator[None]:
    """The container's own words; until its readiness probe says so."""
    assert words[-1] == "/etc/oncelog/server.properties"
    broker = subprocess.Popen(
        [sys.executable, "-m", "oncelog", *words[:-1], properties], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        ends_s = time.monotonic() + TIMEOUT_S
        while not is_well(ready):
            assert broker.poll() is None, broker.communicate()
            assert time.monotonic() < ends_s
        yield
        broker.terminate()
        assert broker.wait(TIMEOUT_S) == 0
    finally:
        broker.kill()
        broker.communicate()


def test_the_pod_as_rendered_serves_a_user_who_logs_in(helm: str, tmp_path: pathlib.Path) -> None:
    chart = rendered(helm, "tls.secretName=keys")
    properties, ports = here(chart, tmp_path)
    home = tmp_path / "home"
    secure = [sys.executable, "-m", "oncelog", "secure", home, "--host", "localhost", "-y"]
    subprocess.run(secure, check=True, capture_output=True)
    (tmp_path / "tls").mkdir()
    shutil.copy(home / "broker.pem", tmp_path / "tls")
    (tmp_path / "tls" / "broker.pem").chmod(0o440)  # as the chart's volume has it
    (container,) = chart["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    probe = container["readinessProbe"]["httpGet"]

    def oncelog(port: str, *words: str, given: str = "") -> str:
        command = [sys.executable, "-m", "oncelog", "-b", f"localhost:{ports[port]}", *words]
        done = subprocess.run(command, capture_output=True, text=True, input=given, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout

    login = tmp_path / "client.properties"
    login.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.username=admin\nsasl.password={PASSWORD}\nssl.truststore.location={home / 'ca.pem'}\n"
    )
    login.chmod(0o600)
    client = ["--command-config", str(login)]
    with running(container["args"], properties, f"http://127.0.0.1:{ports[probe['port']]}{probe['path']}"):
        oncelog("local", "credentials", "set", "admin", "--mechanism", "SCRAM-SHA-512", "-y", given=f"{PASSWORD}\n")
        oncelog("clients", *client, "topics", "create", "orders")
        oncelog("clients", *client, "produce", "orders", given="one\n")
        assert oncelog("clients", *client, "consume", "orders", "-e") == "one\n"
