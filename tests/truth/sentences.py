"""What a decision says in words against its own map, and its serve line against both."""

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

from analysis.evidence.words import GAIN, LIKELY_GAIN, LIKELY_LOSS, LOSS, OPEN, Word
from answers.decide.values import Decision, MapLevel
from answers.wording import percent
from tests.truth.random_arms import k_at
from warehouse.contract import table_of

_DOES: dict[str, Word] = {
    "probably pays at": LIKELY_GAIN, "pays at": GAIN, "is open at": OPEN,
    "probably loses at": LIKELY_LOSS, "loses at": LOSS,
}  # fmt: skip
_IDLE, _UNKNOWN = "drafts nothing at", "was not measured at"
_CLAUSE = re.compile("(?:^| )(" + "|".join([*_DOES, _IDLE, _UNKNOWN]) + ") ")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?= requests/s| at once|,| and )")


def loads_named(one: Decision) -> bool:
    """The loads that the headline names for each word are those of the map, no more and no less."""
    parts = _CLAUSE.split(one.headline)
    said = {verb: _numbers(text) for verb, text in zip(parts[1::2], parts[2::2], strict=True)}
    return (
        not said
        or all(
            values == {x.load.value for x in one.levels if _word(x) == verb}
            for verb, values in said.items()
        )
        and {_word(x) for x in one.levels} == set(said)
    )


def _word(level: MapLevel) -> str:
    if not level.drafts:
        return _IDLE
    if level.own is None:
        return _UNKNOWN
    return next(verb for verb, word in _DOES.items() if word == level.own.word)


def _numbers(text: str) -> set[float]:
    return {float(number) for number in _NUMBER.findall(text)}


def figure(one: Decision) -> bool:
    """The gain that the paragraph gives at the operating load is the map's."""
    size = one.operating.difference.improvement
    there = [x for x in one.levels if x.load == one.operating.load]
    if size is None or not there:
        return False
    return percent(size, sign=False) in one.paragraph and (
        there[0].served is not None or there[0].difference == one.operating.difference
    )


def saving(one: Decision) -> bool:
    """What a token costs less is what the gain makes of it."""
    if one.saving is None:
        return True
    size = one.operating.difference.improvement or 0.0
    return abs(one.saving.per_output_token - size / (1 + size)) < 1e-9 and (
        one.operating.num_speculative_tokens != 0
    )


def answer(one: Decision) -> bool:
    """The answer is what the words of the map make of it."""
    own = [x.own.word for x in one.levels if x.own is not None]
    loses = LOSS in own or LIKELY_LOSS in own
    pays = one.operating.drafts and one.operating.difference.word == GAIN
    if one.answer == "yes":
        return pays and not loses
    if one.answer == "at some loads":
        return pays and loses
    return not pays


def first_words(one: Decision) -> bool:
    """The headline begins with the answer; nothing is said to be best where an arm gains there."""
    nothing = re.search(r"drafting nothing is (expected to be )?best", one.paragraph)
    gains = [x.difference.improvement or 0 for x in one.arms if x.load == one.operating.load]
    return one.headline.lower().startswith(one.answer) and not (nothing and max(gains) > 0)


def serve_line(one: Decision) -> bool:
    """What is pasted drafts at each load what the map says that its server drafts there."""
    if one.serve is None or one.config is None:
        return one.serve is None and one.config is None
    words = shlex.split(one.serve)
    config = json.loads(words[words.index("--speculative-config") + 1])
    return config == json.loads(one.config) and all(_drafts(config, x, one) for x in one.levels)


def _drafts(config: dict[str, Any], level: MapLevel, one: Decision) -> bool:
    told = level.served or level
    if level.load.kind == "concurrency" and (table := table_of(config)):
        k = k_at(table, level.load.value or 1)
        return told.num_speculative_tokens is None or told.num_speculative_tokens == k
    if told.num_speculative_tokens is None:
        return told.arm == one.arm
    return bool(told.num_speculative_tokens == config["num_speculative_tokens"])


def no_line(one: Decision) -> bool:
    """Who is told not to draft gets nothing to paste; a table is that of the line."""
    if one.answer == "no":
        return one.serve is None
    if one.table is None or one.config is None:
        return True
    return [list(x) for x in one.table] == [list(x) for x in table_of(json.loads(one.config))]


def against(one: Decision) -> bool:
    """Only what the server as pasted would lose, and of at least one per cent."""
    idle = {x.load for x in one.levels if not x.drafts}
    return all(
        x.load not in idle and (x.difference.improvement or -1.0) <= -0.01 for x in one.against
    )


RULES: dict[str, Callable[[Decision], bool]] = {
    "loads named are those of the map": loads_named, "its figure is the map's": figure,
    "the saving is the gain's": saving, "the answer is that of the words": answer,
    "first words hold": first_words, "the serve line drafts what the map says": serve_line,
    "nothing to paste after a no, table = line": no_line,
    "against it: what the server would lose": against,
}  # fmt: skip
