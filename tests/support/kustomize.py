"""As much of kustomize as our manifests need: the resources of a folder, and of the folders that it names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]


def kustomization(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


def resources(folder: Path) -> Iterator[Resource]:
    """Every resource, before patches. A file that is named and not there raises FileNotFoundError."""
    for name in kustomization(folder)["resources"]:
        named = (folder / name).resolve()
        if named.is_dir():
            yield from resources(named)
        else:
            yield from yaml.safe_load_all(named.read_text())


def pod_of(resource: Resource) -> dict[str, Any]:
    """The pod's spec of a Deployment or Job."""
    found: dict[str, Any] = resource["spec"]["template"]["spec"]
    return found
