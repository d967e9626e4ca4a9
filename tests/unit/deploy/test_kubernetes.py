"""The manifests in deploy/kubernetes/ are valid, fit each other, and name settings, ports and commands that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from services.payment.api.command import DEFAULT_PORT
from surefoot.cli.main import build
from surefoot.http.server import GOODBYE_S
from surefoot.idempotency import IdempotencySettings
from tests.support.corpus import each_of
from tests.support.kustomize import Resource, kustomization, pod_of, resources
from tests.unit.test_settings import FIELDS

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "kubernetes"
VERSIONS = ("1.31", "1.37")
"""The oldest and the newest Kubernetes that the manifests are for."""
WHOLE = list(resources(FOLDER / "example"))
PODS = [one for one in WHOLE if one["kind"] in ("Deployment", "Job")]
DEPLOYMENTS = [one for one in WHOLE if one["kind"] == "Deployment"]
SETTINGS: dict[str, str] = next(one for one in WHOLE if one["kind"] == "ConfigMap")["data"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
SAME_AS = {"relay": "relay", "consumers": "shop", "orchestrator": "orchestrator", "dlq": "dlq", "migrate": "migrate"}
"""Which service of compose.yaml is the same process. Its tests run the commands."""
STOPPING = {"payments": IdempotencySettings().call_timeout.total_seconds()}
"""Seconds that what is under way may take, where it is more than the goodbye of an HTTP service."""
ALERTS_S = 5
"""So long a process that stops waits for its alerts to be posted."""


def name_of(resource: Resource) -> str:
    return f"{resource['kind']} {resource['metadata']['name']}"


def part_of(resource: Resource) -> str:
    return str(resource["metadata"]["name"]).removeprefix("surefoot-")


def container_of(resource: Resource) -> dict[str, Any]:
    (container,) = pod_of(resource)["containers"]
    found: dict[str, Any] = container
    return found


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


def variables_of_options(command: Any) -> Iterator[str]:
    for parameter in command.params:
        named = parameter.envvar or ()
        yield from [named] if isinstance(named, str) else named
    for inner in getattr(command, "commands", {}).values():
        yield from variables_of_options(inner)


@each_of("resource", WHOLE, named=name_of, expected=14)
def test_kubernetes_takes_every_resource(resource: Resource) -> None:
    for version in VERSIONS:
        kubernetes_validate.validate(resource, version, strict=True)


def test_a_misspelt_field_would_be_noticed() -> None:
    relay = yaml.safe_load(yaml.safe_dump(DEPLOYMENTS[0]))
    container_of(relay)["livenessProb"] = container_of(relay).pop("livenessProbe")
    with pytest.raises(kubernetes_validate.ValidationError, match="livenessProb"):
        kubernetes_validate.validate(relay, VERSIONS[-1], strict=True)


def test_every_file_is_a_resource_of_a_kustomization_and_no_name_is_there_twice() -> None:
    listed = {
        (path.parent / name).resolve()
        for path in FOLDER.glob("*/kustomization.yaml")
        for name in kustomization(path.parent)["resources"]
    }
    assert set(FOLDER.glob("*/*.yaml")) - set(FOLDER.glob("*/kustomization.yaml")) <= listed
    assert len({name_of(one) for one in WHOLE}) == len(WHOLE)
    assert [name_of(one) for one in resources(FOLDER / "base") if one["kind"] in ("Deployment", "Job")] == [
        *("Job surefoot-migrate", "Deployment surefoot-relay", "Deployment surefoot-consumers"),
        *("Deployment surefoot-orchestrator", "Deployment surefoot-dlq"),
    ]


@each_of("resource", DEPLOYMENTS, named=name_of, expected=5)
def test_every_selector_finds_the_pods_it_is_for(resource: Resource) -> None:
    labels = resource["spec"]["template"]["metadata"]["labels"].items()
    name = resource["metadata"]["name"]
    beside = [one["spec"]["selector"] for one in WHOLE if one is not resource and one["metadata"]["name"] == name]
    spread = pod_of(resource)["topologySpreadConstraints"][0]["labelSelector"]
    for selector in (resource["spec"]["selector"], spread, *beside):
        wanted = selector.get("matchLabels", selector).items()
        assert wanted
        assert wanted <= labels
        others = [one["spec"]["template"]["metadata"]["labels"] for one in PODS if one is not resource]
        assert not any(wanted <= other.items() for other in others)
    assert len(beside) == (2 if part_of(resource) in ("dlq", "payments") else 1)


@each_of("resource", PODS, named=name_of, expected=6)
def test_every_variable_is_a_setting_or_an_option(resource: Resource) -> None:
    known = {*FIELDS, *variables_of_options(get_command(build()))}
    named = {variable["name"] for variable in container_of(resource)["env"]}
    assert {name for name in named | SETTINGS.keys() if name.startswith("SUREFOOT_")} <= known
    assert "SUREFOOT_DATABASE" in named
    assert pod_of(resource)["enableServiceLinks"] is False


@each_of("resource", PODS, named=name_of, expected=6)
def test_secrets_are_named_and_not_written_down(resource: Resource) -> None:
    for variable in container_of(resource)["env"]:
        if variable["name"].startswith("SUREFOOT_"):
            assert variable.keys() == {"name", "valueFrom"}
            assert variable["valueFrom"].keys() == {"secretKeyRef"}
    words = "DATABASE|PASSWORD|SECRET|WEBHOOK|API_KEYS"
    assert not [name for name in SETTINGS if re.search(words, name)]
    assert not [one for one in WHOLE if one["kind"] == "Secret"]


@each_of("resource", PODS, named=name_of, expected=6)
def test_no_process_is_root_or_can_write_outside_of_tmp(resource: Resource) -> None:
    pod, container = pod_of(resource), container_of(resource)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108 - in the container
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}
    assert container["resources"]["limits"].keys() == {"memory"}


@each_of("resource", DEPLOYMENTS, named=name_of, expected=5)
def test_every_process_is_asked_on_the_port_where_it_answers(resource: Resource) -> None:
    container = container_of(resource)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports["metrics"] == int(SETTINGS["SUREFOOT_METRICS_PORT"])
    annotations = resource["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == SETTINGS["SUREFOOT_METRICS_PORT"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    served = [one for one in WHOLE if one["kind"] == "Service" and part_of(one) == part_of(resource)]
    assert {port["targetPort"] for one in served for port in one["spec"]["ports"]} == ports.keys() - {"metrics"}


def test_services_lead_to_the_ports_that_the_commands_serve_at() -> None:
    ports = {part_of(one): {port["containerPort"] for port in container_of(one)["ports"]} for one in DEPLOYMENTS}
    (of_dlq,) = COMPOSE["dlq"]["ports"]
    assert int(of_dlq.rpartition(":")[2]) in ports["dlq"]
    assert DEFAULT_PORT in ports["payments"]


@each_of("resource", PODS, named=name_of, expected=6)
def test_the_commands_are_those_of_compose(resource: Resource) -> None:
    if part_of(resource) in SAME_AS:
        command = list(COMPOSE[SAME_AS[part_of(resource)]]["command"])
        if "--metrics-port" in command:
            place = command.index("--metrics-port")
            del command[place : place + 2]
        assert container_of(resource)["command"] == command
    else:
        assert container_of(resource)["command"] == ["surefoot", "services", "payments", "--host", "0.0.0.0"]  # noqa: S104


@each_of("resource", DEPLOYMENTS, named=name_of, expected=5)
def test_every_process_has_time_to_stop_and_a_second_one_beside_it(resource: Resource) -> None:
    name, container, grace = (
        part_of(resource),
        container_of(resource),
        pod_of(resource)["terminationGracePeriodSeconds"],
    )
    before = container["lifecycle"]["preStop"]["exec"]["command"][1] if "lifecycle" in container else 0
    assert grace > int(before) + STOPPING.get(name, 0) + GOODBYE_S + ALERTS_S
    if name in SAME_AS:
        assert grace >= seconds(COMPOSE[SAME_AS[name]]["stop_grace_period"])
    assert resource["spec"]["replicas"] == 2
    (budget,) = [one["spec"] for one in WHOLE if name_of(one) == f"PodDisruptionBudget surefoot-{name}"]
    assert budget["maxUnavailable"] < resource["spec"]["replicas"]


def test_the_example_changes_what_is_there() -> None:
    example = kustomization(FOLDER / "example")
    (image,) = example["images"]
    assert {container_of(one)["image"].partition(":")[0] for one in PODS} == {image["name"]}
    for change in example["patches"]:
        target = f"{change['target']['kind']} {change['target']['name']}"
        (resource,) = [one for one in WHOLE if name_of(one) == target]
        for step in yaml.safe_load(change["patch"]):
            at: Any = resource
            for word in step["path"].strip("/").split("/"):
                at = at[word]
