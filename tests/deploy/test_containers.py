"""Image, compose file and Kubernetes objects: valid by the published schemas, and fenced in."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from runners.planning.plan import make_plan
from runners.planning.study_file import read_study
from tests.deploy.files import (
    DEPLOY,
    MANIFESTS,
    ROOT,
    compose,
    dockerfile_json,
    manifests,
    pods,
    text,
)  # fmt: skip

#: The oldest in which all of it is stable, and the newest that there are schemas of.
VERSIONS = ("1.31", "1.37")
CONTAINERS = [container for pod in pods() for container in pod["containers"]]


def schema_says(schema: str, file: Path) -> str:
    """What a schema that the package brings along has against a file; empty where it is fine."""
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("vendor.compose-spec", "compose.yaml"),
        ("vendor.github-workflows", "deploy/github/nightly.yaml"),
        ("vendor.github-workflows", "deploy/github/pull-request.yaml"),
        ("vendor.github-actions", "deploy/github/action.yml"),
    ],
)
def test_the_published_schema_holds(tmp_path: Path, schema: str, file: str) -> None:
    assert schema_says(schema, ROOT / file) == ""

    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        text(file)
        .replace("restart:", "restrat:")
        .replace("runs-on:", "runs-onn:")
        .replace("using:", "usign:")
    )
    assert schema_says(schema, wrong) != ""


@pytest.mark.parametrize(
    "manifest", manifests(), ids=lambda m: f"{m['kind']} {m['metadata']['name']}"
)
def test_each_kubernetes_object_keeps_the_published_schema(manifest: dict[str, Any]) -> None:
    for version in VERSIONS:
        assert kubernetes_validate.validate(manifest, version, strict=True) == version


def test_a_misspelt_key_of_kubernetes_is_found() -> None:
    manifest = next(m for m in manifests() if m["kind"] == "CronJob")
    wrong = {**manifest, "spec": {**manifest["spec"], "shedule": "0 22 * * *"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_the_kustomization_names_every_file_and_every_image() -> None:
    found = yaml.safe_load(text("deploy/kubernetes/kustomization.yaml"))
    assert found["resources"] == [f"{name}.yaml" for name in MANIFESTS]
    assert {one["name"] for one in found["images"]} == {c["image"] for c in CONTAINERS}
    (study,) = found["configMapGenerator"]
    used = {v["configMap"]["name"] for pod in pods() for v in pod["volumes"] if "configMap" in v}
    assert used == {study["name"]}
    assert all((DEPLOY / "kubernetes" / name).is_file() for name in study["files"])


def test_every_claim_that_a_pod_mounts_is_made() -> None:
    made = {m["metadata"]["name"] for m in manifests() if m["kind"] == "PersistentVolumeClaim"}
    used = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in pods()
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert used == made
    for pod in pods():
        names = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} == names


def test_the_study_of_the_cluster_is_one(tmp_path: Path) -> None:
    plan = make_plan(read_study(DEPLOY / "kubernetes" / "study.yaml"))
    assert {cell.arm for cell in plan.cells} == {"baseline", "eagle3-k3"}


@pytest.mark.parametrize("pod", pods(), ids=lambda pod: pod["containers"][0]["name"])
def test_each_pod_keeps_the_restricted_standard_and_writes_only_to_its_volumes(
    pod: dict[str, Any],
) -> None:
    context = pod["securityContext"]
    assert context["runAsNonRoot"]
    assert context["runAsUser"] == int(users_of_the_image()[-1].split(":")[0])
    assert context["seccompProfile"]["type"] == "RuntimeDefault"
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_every_service_of_compose_is_as_fenced_in() -> None:
    for service in compose()["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert any(place.startswith("/tmp") for place in service["tmpfs"])
        assert "healthcheck" in service or service["build"]["target"] == "runtime"


def test_compose_opens_the_dashboard_to_this_machine_only() -> None:
    (port,) = compose()["services"]["dashboard"]["ports"]
    assert port.startswith("127.0.0.1:")
    (of_image,) = re.findall(r"^EXPOSE (\d+)$", text("Dockerfile"), re.MULTILINE)
    assert port.endswith(f":{of_image}")


def test_compose_builds_stages_that_are_there_and_mounts_volumes_that_it_makes() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", text("Dockerfile"), re.MULTILINE))
    found = compose()
    services = found["services"].values()
    assert {service["build"]["target"] for service in services} <= stages
    named = {place.split(":")[0] for service in services for place in service["volumes"]}
    assert {place for place in named if not place.startswith(".")} == set(found["volumes"])


def test_services_of_compose_share_the_bucket_and_the_results_and_nothing_else() -> None:
    services = compose()["services"]
    ours = ("dashboard", "watcher", "nightly")
    places = {name: {place.split(":")[0] for place in services[name]["volumes"]} for name in ours}
    assert places["dashboard"] & places["watcher"] == set()
    assert places["dashboard"] & places["nightly"] == set()
    assert places["watcher"] & places["nightly"] == {"results"}
    wanted = {"DRAFTBOARD_WAREHOUSE", "AWS_ENDPOINT_URL", "AWS_REGION", "DRAFTBOARD_CACHE"}
    for name in ours:
        told = services[name]["environment"]
        assert {one: told[one] for one in wanted} == {
            one: services["watcher"]["environment"][one] for one in wanted
        }
        assert any(
            place.endswith(f":{told['DRAFTBOARD_CACHE']}") for place in services[name]["volumes"]
        )
        assert services[name]["depends_on"] == {
            "make-bucket": {"condition": "service_completed_successfully"}
        }
    assert "ports" not in services["bucket"]


def test_compose_holds_no_key_and_does_not_start_without_one() -> None:
    for service in compose()["services"].values():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert (
                service.get("environment", {}).get(name, f"${{{name}:?").startswith(f"${{{name}:?")
            )
    assert ".env" in text(".gitignore").splitlines()


def test_the_bucket_that_is_made_is_the_one_that_is_used() -> None:
    services = compose()["services"]
    used = services["watcher"]["environment"]["DRAFTBOARD_WAREHOUSE"]
    (place,) = re.findall(r":-s3://(\w+)/\w+}$", used)
    (made,) = re.findall(r"s3\.bucket\.create -name (\w+)", services["make-bucket"]["command"][0])
    assert made == place


def users_of_the_image() -> list[str]:
    return re.findall(r"^USER (\S+)$", text("Dockerfile"), re.MULTILINE)


def test_the_image_is_pinned_runs_as_nobody_special_and_says_how_it_is() -> None:
    pinned = dict(re.findall(r"^ARG (PYTHON|VLLM)=(\S+)$", text("Dockerfile"), re.MULTILINE))
    assert re.search(r":3\.11\.\d+-\S+@sha256:[0-9a-f]{64}$", pinned["PYTHON"])
    assert re.search(r":v\d+\.\d+\.\d+$", pinned["VLLM"])
    assert users_of_the_image() == ["10001:10001"] * 3
    assert text("Dockerfile").rstrip().splitlines()[-1].startswith("CMD")
    health = [words for words in dockerfile_json("CMD") if words[0] == "python"]
    assert len(health) == 1


def test_hadolint_finds_nothing_in_the_dockerfile(tmp_path: Path) -> None:
    hadolint = str(Path(sys.executable).with_name("hadolint"))
    wrong = tmp_path / "Dockerfile"
    wrong.write_text(text("Dockerfile").replace("USER 10001:10001", "USER root"))
    done = [
        subprocess.run([hadolint, str(file)], capture_output=True, text=True, check=False)
        for file in (ROOT / "Dockerfile", wrong)
    ]
    assert (done[0].returncode, done[0].stdout) == (0, "")
    assert "root" in done[1].stdout


def test_nothing_but_the_product_goes_into_an_image() -> None:
    lines = [line for line in text(".dockerignore").splitlines() if line and line[0] != "#"]
    assert lines[0] == "*"
    let_in = [line for line in lines[1:] if line.startswith("!")]
    assert lines[1:] == [*let_in, "**/__pycache__", "**/*.pyc"]
    assert all((ROOT / line[1:]).exists() for line in let_in)
