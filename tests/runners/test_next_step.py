"""What is said after launches failed: the reason of each once, and what to do next."""

from pathlib import Path

from runners.measuring.progress import FailedCell, next_step, next_step_elsewhere, reasons
from runners.planning.plan import make_plan
from runners.serving.diagnosis import Diagnosis
from runners.surroundings.layout import Layout

STUDY = Path("studies/tiny.yaml")
OUT_OF_MEMORY = Diagnosis("out_of_memory", "The GPU has too little memory.")


def test_a_launch_whose_server_did_not_start_is_told_once_with_doctor_and_log(study_of) -> None:
    plan, layout = make_plan(study_of()), Layout(Path("results"), "tiny")
    first = plan.launches[0]
    failed = [
        FailedCell(first.launch_id, cell, OUT_OF_MEMORY, no_server=True) for cell in first.cells
    ]

    assert reasons(failed) == [f"{first.launch_id}: The GPU has too little memory."]
    assert next_step(failed, layout, STUDY) == (
        "Next: `draftboard doctor studies/tiny.yaml` looks for what keeps its server from starting, "
        f"and results/tiny/logs/{first.launch_id}.log holds what it printed; the same command then "
        "tries only what is missing."
    )


def test_cells_that_failed_on_a_server_that_was_up_name_the_logs(study_of) -> None:
    plan, layout = make_plan(study_of()), Layout(Path("results"), "tiny")
    second = plan.launches[1]
    failed = [FailedCell(second.launch_id, cell, OUT_OF_MEMORY) for cell in second.cells]

    assert len(reasons(failed)) == len(failed)
    step = next_step(failed, layout, STUDY)
    assert "r0-ngram-k2-tp1.guidellm.log and results/tiny/logs/r0-ngram-k2-tp1.log" in step


def test_on_a_cluster_the_command_that_prints_the_log_is_named() -> None:
    layout = Layout(Path("results"), "tiny")
    said = next_step_elsewhere(["r0-baseline-tp1"], layout, "slurm", STUDY)
    assert "`draftboard cluster logs studies/tiny.yaml r0-baseline-tp1 --results results`" in said
    assert "results/tiny/logs" in next_step_elsewhere(["r0"], layout, "ray", STUDY)
    assert next_step_elsewhere([], layout, "ray", STUDY) == ""
