"""The Job of a launch, held against the published schemas; what Kubernetes says of one, read."""

from collections.abc import Callable
from typing import Any, NamedTuple

import kubernetes_validate
import pytest

from runners.executors import Submitted
from runners.executors.kubernetes_job import LAUNCH, instance, label, manifest, submitted_in
from runners.executors.settings import KubernetesSettings

#: The oldest in which all of it is stable, and the newest that there are schemas of.
VERSIONS = ("1.31", "1.37")


class PodRequest(NamedTuple):
    study: str
    launch_id: str
    text: str
    gpus: int
    arguments: tuple[str, ...] = ()


WANTED = PodRequest(
    "gpt-oss", "r0-eagle3-k3-tp2", "name: gpt-oss\n", 2, ("--only", "arm=eagle3-k3")
)
PLAIN = KubernetesSettings(image="registry.example.com/draftboard-nightly:1")
FULL = KubernetesSettings(
    image="x:1", claim="mine", results="/out", mounts={"models": "/models"}, study="/models/s.yaml",
    environment={"HF_HOME": "/models/hf"}, secrets=("hub",), gpu_resource="amd.com/gpu", cpus=16,
    memory="200Gi", time_s=3600, restarts=0, keep_s=60,
    pod={"nodeSelector": {"gpu": "h200"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]},
)  # fmt: skip


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("settings", [PLAIN, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("gpus", [0, 8])
def test_a_job_keeps_the_published_schema(settings: KubernetesSettings, gpus: int) -> None:
    wanted = PodRequest("s", "r0-baseline-tp1", "" if settings.study else "name: s\n", gpus)
    for version in VERSIONS:
        made = manifest(*wanted, settings)
        assert kubernetes_validate.validate(made, version, strict=True) == version


def test_a_misspelt_key_of_the_cluster_options_is_no_job() -> None:
    wrong = PLAIN.model_copy(update={"pod": {"nodeSelektor": {"gpu": "h200"}}})
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest(*WANTED, wrong), VERSIONS[0], strict=True)


def test_a_pod_measures_its_launch_into_the_claim_and_finds_the_study() -> None:
    pod = pod_of(manifest(*WANTED, PLAIN))
    (container,) = pod["containers"]

    assert container["command"] == [
        "draftboard", "run", "/study/study.yaml", "--results", "/data/results",
        "--launch", "r0-eagle3-k3-tp2", "--only", "arm=eagle3-k3",
    ]  # fmt: skip
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert places.keys() == volumes.keys()
    claims = {v["persistentVolumeClaim"]["claimName"]: places[name]
              for name, v in volumes.items() if "persistentVolumeClaim" in v}  # fmt: skip
    assert claims == {"draftboard-results": "/data/results"}
    (item,) = volumes["study"]["downwardAPI"]["items"]
    annotation = item["fieldRef"]["fieldPath"].partition("'")[2].rstrip("']")
    told = manifest(*WANTED, PLAIN)["spec"]["template"]["metadata"]["annotations"]
    assert (places["study"], item["path"]) == ("/study", "study.yaml")
    assert told[annotation] == WANTED.text


def test_a_study_on_a_claim_is_not_sent_along() -> None:
    wanted = PodRequest("s", "r0", "", 1)
    assert pod_of(manifest(*wanted, FULL))["containers"][0]["command"][2] == "/models/s.yaml"
    assert "annotations" not in manifest(*wanted, FULL)["spec"]["template"]["metadata"]
    assert "study" not in [volume["name"] for volume in pod_of(manifest(*wanted, FULL))["volumes"]]


def test_a_pod_keeps_the_restricted_standard() -> None:
    pod = pod_of(manifest(*WANTED, PLAIN))
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip


def test_another_study_image_or_selection_is_another_job_and_names_fit() -> None:
    def name(wanted: PodRequest = WANTED, settings: KubernetesSettings = PLAIN) -> str:
        return str(manifest(*wanted, settings)["metadata"]["name"])

    edited = PodRequest(WANTED.study, WANTED.launch_id, "name: other\n", 2, WANTED.arguments)
    long = PodRequest("A_very.long" * 9, "r0-" + "x" * 90, "", 1)
    found = [name(), name(edited), name(settings=FULL), name(long)]

    assert len(set(found)) == 4
    assert name() == name()
    assert all(len(one) <= 63 for one in found)
    assert all(len(one) <= 63 for one in manifest(*long, PLAIN)["metadata"]["labels"].values())
    assert label("r0-baseline-tp1") == "r0-baseline-tp1"
    assert label("r0_x-") != "r0_x-"
    assert instance("s", PLAIN) != instance("s", FULL)


def job(name: str = "j", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": {LAUNCH: "r0"}, "creationTimestamp": name}
    return {"kind": "Job", "metadata": metadata, "status": status}


def pod(owner: str = "j", **status: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "ownerReferences": [{"kind": "Job", "name": owner}]},
        "spec": {"nodeName": "node07"},
        "status": status,
    }


def condition(kind: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def waiting(reason: str) -> dict[str, Any]:
    return {"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": "m"}}}]}


UNSCHEDULABLE = {
    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
}  # fmt: skip
ENDED: Callable[..., dict[str, Any]] = lambda *words: {"conditions": [condition(*words)]}  # noqa: E731


@pytest.mark.parametrize(
    ("jobs", "pods", "stage", "where"),
    [
        ([job()], [], "waiting", "its pod is not made yet"),
        ([job(**ENDED("Suspended"))], [], "waiting", "suspended"),
        ([job()], [pod(phase="Pending", conditions=[UNSCHEDULABLE])], "waiting", "Insufficient"),
        ([job()], [pod(phase="Pending", **waiting("ImagePullBackOff"))], "waiting", "ImagePullB"),
        ([job()], [pod(phase="Running")], "running", "node07"),
        ([job(**ENDED("Complete"))], [pod(phase="Succeeded")], "done", ""),
        ([job(**ENDED("Failed", "DeadlineExceeded"))], [], "failed", "time limit"),
        ([job(**ENDED("Failed", "PodFailurePolicy"))], [], "failed", "ended with cells missing"),
        ([job(**ENDED("Failed", "BackoffLimitExceeded"))], [], "failed", "again and again"),
        ([job(**ENDED("Failed", "Other", "as said."))], [], "failed", r"failed (as said)"),
    ],
)  # fmt: skip
def test_what_kubernetes_says_of_a_launch_in_words(jobs, pods, stage, where) -> None:
    found = submitted_in([*jobs, *pods])["r0"]
    assert (found.job, found.state, found.never) == ("j", stage, False)
    assert where in found.where


def test_memory_is_named_where_it_was_the_reason() -> None:
    ended = {"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    failed = job(**ENDED("Failed", "BackoffLimitExceeded"))
    found = submitted_in([failed, pod(containerStatuses=[ended])])
    assert "more memory than it was allowed" in found["r0"].where


def test_what_can_never_start_is_told_from_what_waits() -> None:
    bad = pod(phase="Pending", **waiting("InvalidImageName"))
    assert submitted_in([job(), bad])["r0"].never


def test_of_several_jobs_the_one_at_work_counts_and_one_that_is_being_deleted_does_not() -> None:
    done, works = job("1", **ENDED("Complete")), job("0")
    assert submitted_in([done, works])["r0"] == Submitted("0", "waiting", "its pod is not made yet")
    works["metadata"]["deletionTimestamp"] = "now"
    assert submitted_in([done, works])["r0"].job == "1"
