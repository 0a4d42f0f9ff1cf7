"""``draftboard doctor``: what keeps a study from running on this machine, and how to mend it."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import click

from commands.output import Table, show, show_json
from runners.checks.doctor import examine
from runners.planning.study_file import read_study


@click.command()
@click.argument("study", required=False, type=click.Path(path_type=Path))
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Where the results will go.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def doctor(ctx: click.Context, study: Path | None, results: Path, as_json: bool) -> None:
    """Check whether STUDY can run here; without a study, what this machine has.

    Looks at executables, GPUs, speculative methods, memory, tokenizers, datasets, ports and disk.
    Starts no server and downloads no weights. Exit status: 1 if something keeps the study from
    running, else 0.

    Example: draftboard doctor studies/gpt-oss-120b-eagle3.yaml
    """
    asked = None if study is None else read_study(study)
    if not as_json:
        show("Asking vLLM, which takes some seconds …", err=True)
    situation, findings = examine(asked, results)
    counts = Counter(finding.status for finding in findings)
    if as_json:
        told = {
            "study": None if situation.plan is None else situation.plan.study.name,
            "blockers": counts["blocker"],
            "warnings": counts["warning"],
            "unknown": counts["unknown"],
            "findings": [asdict(finding) for finding in findings],
            "vllm": situation.vllm.version,
            "guidellm": situation.guidellm.version,
            "driver": situation.survey.driver,
            "gpus": [asdict(each) for each in situation.gpus],
        }
        show_json(told)
    else:
        rows = [
            (
                f.status,
                f.check,
                f.said if f.status == "ok" or f.fix is None else f"{f.said}\n→ {f.fix}",
            )
            for f in findings
        ]
        words = [f"{counts[s]} {s}{'s' if counts[s] > 1 and s != 'unknown' else ''}"
                 for s in ("blocker", "warning", "unknown") if counts[s]]  # fmt: skip
        said = ", ".join(words) or "all is well"
        then = "Mend the blockers first." if counts["blocker"] else "Nothing keeps it from running."
        show(
            Table(("status", "check", "what was found, and how to mend it"), rows),
            "",
            f"{said[:1].upper()}{said[1:]}. {then}",
        )
    ctx.exit(1 if counts["blocker"] else 0)
