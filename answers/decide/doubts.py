"""What a decision has to be read with: answers that break, losses, unlike engines, launches apart, what a mix lacks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.choice.expected import Candidate
from analysis.choice.gather import DECIDING
from analysis.choice.judged import Judged
from analysis.evidence.words import LIKELY_LOSS, LOSS
from analysis.flags.validity import BREAKING_DEFECT, SHOWN_DEFECT
from analysis.frames import listed, plain, records
from analysis.matching.comparison import STUDY_TABLE
from analysis.matching.fields import READ, EngineDifference, differences, differing, sentence
from analysis.matching.pairing import shown
from answers.decide.shown import WORTH_SAYING, DecisionCase, number
from answers.decide.values import Against, ArmDifference, Forgone
from answers.decide.words import change
from answers.ground import Ground
from answers.wording import listed as in_words
from answers.wording import percent
from warehouse.loads import Load

#: What repeats without stated server starts have to be read with.
_UNKNOWN_LAUNCHES = (
    "Which files shared a server start is not known, so nothing here is more than likely; say so "
    "with --set launch=NAME, one name for each start."
)
#: What a table of K has to be read with.
_TABLE = (
    "The table of K is put together from arms with one K each: measure it as an arm of its own "
    "before you rely on it."
)


def doubts(
    ground: Ground, case: DecisionCase, lost: Sequence[Forgone], parts: dict[str, Judged], engines: bool
) -> tuple[str, ...]:  # fmt: skip
    """Return what a reader must keep in mind of a decision. ``parts``: the datasets of a mix;
    ``engines``: whether it is told elsewhere in what the engines differ."""
    drafting = [arm for _, arm in case.drafts_at()]
    every = {load for part in parts.values() for load in part.loads} - set(case.judged.loads)
    lacking = {
        load: [name for name, part in parts.items() if load not in part.loads]
        for load in sorted(every, key=lambda x: x.order)
    }
    return (
        *([] if case.judged.independent else [_UNKNOWN_LAUNCHES]),
        *(
            f"At {load.text} nothing is known of the mix: {in_words(names)} was not measured there with "
            "its baseline."
            for load, names in lacking.items()
            if names
        ),
        *(
            f"On {one.dataset} alone {one.best} is expected to be {percent(one.loss, sign=False)} better "
            "than this one arm for all."
            for one in lost
            if one.loss > WORTH_SAYING
        ),
        *(text for setting in case.settings for text in _not_interleaved(ground, setting)),
        *([] if case.choice.server.table is None else [_TABLE]),
        *_arms_that_choose_k(case),
        *(
            text
            for setting in (() if engines else case.settings)
            for text in _flagged(ground, setting, drafting, case, "less_cache")
        ),
    )


def _arms_that_choose_k(case: DecisionCase) -> Iterator[str]:
    """Say of each measured table of K its gain beside that of the K which it takes at the same load,
    and of an arm that is taken whose engine sets K what that means."""
    judged, arms = case.judged, case.judged.field.candidates
    for place, one in enumerate(arms):
        parts = []
        for at, load in enumerate(judged.loads) if one.chooser == "table" else ():
            alone = _fixed_alone(judged, one, at)
            if np.isfinite(judged.expected[place, at]) and alone is not None:
                gain, other = (float(judged.expected[arm, at]) for arm in (place, alone))
                parts.append(
                    f"{percent(gain)} at {load.text}, {arms[alone].label} {percent(other)}"
                )
        if parts:
            yield f"{one.label}, measured as an arm of its own: {'; '.join(parts)}."
    for place in sorted({place for place in case.choice.server.at if place is not None}):
        if arms[place].chooser in ("adaptive", "match"):
            yield (
                f"The engine sets the draft tokens of {arms[place].label} as it goes, from what it sees: "
                "other traffic gives it other K, and what was measured holds for traffic like this."
            )


def _fixed_alone(judged: Judged, table: Candidate, at: int) -> int | None:
    """Return the place of the arm of the same method whose fixed K is the one that the table takes
    at a load."""
    load = judged.loads[at]
    if load.kind != "concurrency" or load.value is None:
        return None
    wanted = [k for start, _, k in table.table if start <= load.value][-1:]
    method = table.family.split(" (")[0]
    for place, one in enumerate(judged.field.candidates):
        same = [one.k] == wanted and one.family.split(" (")[0] == method
        if same and np.isfinite(judged.expected[place, at]):
            return place
    return None


def _flagged(
    ground: Ground, setting: int, arms: Iterable[int], case: DecisionCase, name: str
) -> Iterator[str]:
    """Yield of each arm the first flag of that name, after what the arm is called."""
    names = {one.arm_id: one.label for one in case.judged.field.candidates}
    for arm in dict.fromkeys(arms):
        flags = ground.flags.get((setting, arm), ())
        for text in [flag.sentence for flag in flags if flag.name == name][:1]:
            yield f"{names[arm]}: {text.removeprefix('speculative: ')}"


# --- Launches of an arm and of its baseline that followed one another in time.


def _not_interleaved(ground: Ground, setting: int) -> Iterator[str]:
    """Yield a sentence where the launches of an arm and its baseline followed one another in time.

    What drifts meanwhile (temperature, neighbours) then looks like a difference between the arms.
    The drift that could hide is estimated from the arms' own launches: slope per hour times the
    hours between the middles of both arms.
    """
    hours = ground.hours_apart.get(setting)
    if hours is None:
        return
    pairs = ground.pairs[setting]
    rows = pairs[(pairs["baseline"] > 0) & (pairs["speculative"] > 0)]
    there = set(zip(rows["metric"].astype(str), rows["statistic"].astype(str), strict=True))
    metric, statistic = next((line for line in DECIDING if line in there), ("", ""))
    rows = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic)]
    parts = []
    for arm, value in (("baseline_id", "baseline"), ("speculative_id", "speculative")):
        own = rows[["arm_id", "load", arm, value]].astype({arm: object})
        own = own.rename(columns={arm: "cell_id", value: "value"})
        parts.append(own.assign(arm=arm).drop_duplicates("cell_id"))
    every = pd.concat(parts, ignore_index=True)
    every = every[every["value"] > 0]  # Of nothing served there is no logarithm.
    every = every.assign(
        at=ground.hours.reindex(every["cell_id"]).to_numpy(dtype=np.float64),
        log=np.log(every["value"].to_numpy(dtype=np.float64)),
    ).dropna(subset=["at", "log"])
    group = every.groupby(["arm", "arm_id", "load"])
    at = every["at"] - group["at"].transform("mean")
    log = every["log"] - group["log"].transform("mean")
    spread = float((at**2).sum())
    slope, minutes = (float((at * log).sum() / spread) if spread > 0 else None), round(hours * 60)
    apart = f"{minutes} minutes apart" if minutes > 1 else "about a minute apart"
    if hours >= 1:
        apart = f"{hours:.1f} hours apart"
    hidden = (
        ""
        if slope is None
        else f", and a drift like theirs of {percent(slope)} an hour could hide or feign "
        f"{percent(slope * hours, sign=False)}"
    )
    yield (
        "The arms were not interleaved: all launches of one came before those of the other, "
        f"{apart}{hidden}."
    )


# --- What speaks against the server as pasted: what it makes worse, settled or likely, and broken answers.


#: A smaller loss (ratio) is none that anybody weighs.
SMALLEST = 0.01
#: Drafts that yield fewer tokens a step than this do nothing.
_NOTHING = 1.1
#: How the names of datasets begin whose prompts a load generator makes.
_RANDOM = ("random", "synthetic")


def against(ground: Ground, case: DecisionCase) -> Iterator[Against]:
    """Yield what probably breaks of the answers that the server as pasted would give, then each loss of
    at least SMALLEST that it has at a load where it drafts, once; settled ones first, the largest
    first."""
    drafts = set(case.drafts_at())
    for setting in case.settings:
        for answers in ground.broken.get(setting, ()):
            if not answers.settled and (answers.load, answers.arm_id) in drafts:
                unknown = ArmDifference(
                    "output_tokens", "p05", LIKELY_LOSS, None, None, None, None, None
                )
                yield Against(answers.load, answers.arm, unknown, f"{answers.sentence}: likely")
    lines = {*STUDY_TABLE, *case.judged.lines}
    found: dict[tuple[Load, str, str], Against] = {}
    for setting in case.settings:
        for row in records(ground.losing[setting]) if setting in ground.losing else ():
            load, line = ground.found.loads[row["load"]], (row["metric"], row["statistic"])
            lost = -(number(row["improvement"]) or 0.0) >= SMALLEST
            if lost and line in lines and (load, row["arm_id"]) in drafts:
                one = _against(ground, case, row)
                found[load, *line] = min(found.get((load, *line), one), one, key=_weight)
    yield from sorted(found.values(), key=_weight)


def _against(ground: Ground, case: DecisionCase, row: dict[str, Any]) -> Against:
    labels = {one.arm_id: one.label for one in case.judged.field.candidates}
    names = ("improvement", "low", "high", "adjusted_low", "adjusted_high")
    difference = ArmDifference(
        row["metric"], row["statistic"], row["word"], *(number(row[name]) for name in names)
    )
    arm, load = labels[row["arm_id"]], ground.found.loads[row["load"]]
    on = ""
    if len(case.settings) > 1:
        on = f" on {ground.found.keys['dataset'].loc[row['setting']].iloc[0]}"
    sure = "settled" if difference.word == LOSS else "likely"
    return Against(load, arm, difference, f"{arm}{on} at {load.text}: {change(difference)}, {sure}")


def _weight(one: Against) -> tuple[bool, float]:
    return one.difference.word != LOSS, one.difference.improvement or 0.0


def barred_arms(ground: Ground, case: DecisionCase) -> tuple[str, ...]:
    """Return a sentence, without its full stop, for each arm that is no candidate since its answers
    break."""
    arms = {one.arm_id for one in case.judged.field.candidates}
    every = [one for setting in case.settings for one in ground.broken.get(setting, ())]
    out = {one.arm_id: one for one in every[::-1] if one.settled and one.arm_id in arms}
    return tuple(f"{one.sentence}, so it is no candidate" for one in out.values())


def shown_defects(ground: Ground, case: DecisionCase) -> tuple[str, ...]:
    """Return a sentence, without its full stop, for each arm whose engine has a known defect that shows
    in what was measured: of the arms that the decision names by their acceptance, of any by answers
    that break where the baseline's do not."""
    arms = [one.arm_id for one in case.judged.field.candidates]
    named = [arms[case.choice.best], *(arm for _, arm in case.drafts_at())]
    texts: list[str] = []
    for setting in case.settings:
        breaks = [x.arm_id for x in ground.broken.get(setting, ()) if x.arm_id in arms]
        texts += _flagged(ground, setting, named, case, SHOWN_DEFECT)
        texts += _flagged(ground, setting, breaks, case, BREAKING_DEFECT)
    return tuple(text.rstrip(".") for text in dict.fromkeys(texts))


def unlike_real_answers(ground: Ground, case: DecisionCase) -> tuple[str, ...]:
    """Return what makes the answers of the arms that are taken unlike those of real traffic: drafts
    that do nothing, made-up prompts, answers forced past their end."""
    arms = dict.fromkeys(arm for _, arm in case.drafts_at())
    every = [(setting, arm) for setting in case.settings for arm in arms]
    return tuple(dict.fromkeys(text for key in every for text in _unlike_real(ground, *key)))


def _unlike_real(ground: Ground, setting: int, arm_id: int) -> list[str]:
    keys = records(ground.found.keys.loc[[(setting, arm_id)]])[0]
    mine = ground.pairs[setting]["arm_id"] == arm_id
    cells = ground.pairs[setting].loc[mine, "speculative_id"].unique()
    length = max((ground.lengths[cell] for cell in cells if cell in ground.lengths), default=np.nan)
    told = {
        f"The drafts of {keys['arm_label']} do nothing: a step yields {length:.2f} tokens, so what "
        "differs comes from elsewhere.": length < _NOTHING,
        f"The prompts ({keys['dataset']}) were made by the load generator: what is accepted there says "
        "nothing of real traffic, so measure with your own.":
            str(keys["dataset"]).lower().startswith(_RANDOM),
        "Answers were forced past their end (ignore_eos), where texts repeat themselves: drafts are "
        "accepted there that real answers do not have.": bool(plain(keys["ignore_eos"])),
    }  # fmt: skip
    return [text for text, holds in told.items() if holds]


# --- Whether two arms ran the same engine, and what was compared by leave.


#: Fields of a server: where one differs by leave, the arm without its drafts is no baseline.
_OF_A_SERVER = (
    "model", "model_revision", "precision", "engine", "engine_version", "gpu", "gpu_count",
    "tensor_parallel_size", "prefix_caching", "server_args",
)  # fmt: skip
_LEAVE = " (by leave)"


def engine_differences(ground: Ground, setting: int, arm_id: int) -> tuple[EngineDifference, ...]:
    """Return in what an arm differs from its baseline: by leave, then what the method brings with
    equal arguments; each field once, as the first pair has it."""
    # Most warehouses say nothing of it, and every decision asks.
    if not ground.tells_engines:
        return ()
    rows = ground.pairs[setting].drop_duplicates("speculative_id")
    names = ("baseline_id", "speculative_id", "allowed")
    pairs = list(listed(rows[rows["arm_id"] == arm_id], *names))
    ids = list(dict.fromkeys(cell for *both, _ in pairs for cell in both))
    read = ground.by_id.columns.intersection([*READ, *(x for *_, each in pairs for x in each)])
    cells = dict(zip(ids, records(ground.by_id.loc[ids, read]), strict=True))
    found: dict[str, EngineDifference] = {}
    for baseline, arm, allowed in pairs:
        one, other = cells[baseline], cells[arm]
        engines = (tuple(cell.get(name) for name in READ) for cell in (one, other))
        for each in (*_by_leave(one, other, allowed), *differences(*engines)):
            found.setdefault(each.field, each)
    return tuple(found.values())


def _by_leave(
    one: Mapping[str, Any], other: Mapping[str, Any], allowed: tuple[str, ...]
) -> Iterator[EngineDifference]:
    arguments = differing(one.get("server_args"), other.get("server_args"))
    for name in allowed:
        both = {name: (shown(one.get(name)), shown(other.get(name)))}
        kind = name.partition(".")[0]
        if kind == "server_args":
            both = {x: values for x, values in arguments.items() if name in (x, kind)} or both
        for field, (here, there) in both.items():
            yield EngineDifference(field, field, here, there, kind in _OF_A_SERVER, _LEAVE)


def engines_differ(
    ground: Ground, settings: Collection[int], arm_id: int, arm: str
) -> tuple[str, ...]:
    """Return what a paragraph says of an arm's engine beside its baseline's, each sentence once."""
    found = [engine_differences(ground, setting, arm_id) for setting in settings]
    texts = (words(one, arm) for one in found for words in (engine_words, allowed_words))
    return tuple(filter(None, dict.fromkeys(texts)))


def engine_words(found: Collection[EngineDifference], arm: str) -> str:
    """Say in what the engine of an arm, which is called ``arm``, differs with equal arguments; empty
    for nothing."""
    return sentence([one for one in found if one.cause != _LEAVE], arm)


def allowed_words(found: Collection[EngineDifference], arm: str) -> str:
    """Say in what an arm differs from its baseline by leave, with both values; empty for
    nothing."""
    leave = [one for one in found if one.cause == _LEAVE]
    if not leave:
        return ""
    values = "; ".join(f"{one.baseline} in the baseline, {one.arm} in {arm}" for one in leave)
    differ = "differs" if len(leave) == 1 else "differ"
    return f"Compared by leave although {' and '.join(x.field for x in leave)} {differ}: {values}."
