"""What the gate found, as other tools read it: JUnit XML for the tests of a CI, SARIF for annotations."""

import hashlib
import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from answers.trend.answer import Line, Trend

Json = dict[str, Any]
#: The rules, as SARIF lists them: id -> (what it says, its level).
_RULES = {
    "regression": ("A series became worse by more than its budget.", "error"),
    "drift": ("A series becomes worse, a little every night.", "warning"),
}


def junit(found: "Trend") -> str:
    """Return one suite with a test case for each series: a regression is a failure, a series that
    cannot be judged yet is skipped."""
    suite = ElementTree.Element("testsuite", name="draftboard gate")
    for line in found.lines:
        _case(suite, line)
    for name, tag in (("tests", "testcase"), ("failures", ".//failure"), ("skipped", ".//skipped")):
        suite.set(name, str(len(suite.findall(tag))))
    suite.set("errors", "0")
    suites = ElementTree.Element("testsuites", suite.attrib)
    suites.append(suite)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, line: "Line") -> None:
    case = ElementTree.SubElement(
        suite, "testcase", name=_xml(f"{line.name}, {line.metric}"),
        classname=_xml(f"draftboard.{line.study or 'gate'}"), time="0",
    )  # fmt: skip
    if line.status == "regression":
        failure = ElementTree.SubElement(case, "failure", type="regression", message=_xml(line.why))
        failure.text = _xml(_told(line))
    elif line.status != "fine":
        ElementTree.SubElement(case, "skipped", message=_xml(line.why))


def _xml(text: str) -> str:
    """Return a text without the control characters that XML has no form for."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def _told(line: "Line") -> str:
    return f"{line.said}\nChanged with {line.since}: {line.changed_text}"


def sarif(found: "Trend", place: str | None) -> str:
    """Return a log of SARIF 2.1.0 with a result for each regression and each drift downwards.

    ``place``: the file of the repository at whose first line they stand, as GitHub asks for one.
    """
    results = [
        _result(line, rule, place)
        for line in found.lines
        for rule, holds in (
            ("regression", line.status == "regression"),
            ("drift", line.drift is not None and line.drift.total < 0),
        )
        if holds
    ]
    run = {"tool": {"driver": _driver()}, "results": results, "columnKind": "unicodeCodePoints"}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _driver() -> Json:
    rules = [
        {"id": name, "shortDescription": {"text": said}, "defaultConfiguration": {"level": level}}
        for name, (said, level) in _RULES.items()
    ]
    return {"name": "draftboard", "semanticVersion": version("draftboard"), "rules": rules}


def _result(line: "Line", rule: str, place: str | None) -> Json:
    name = f"{line.name}, {line.metric}"
    location: Json = {"logicalLocations": [{"fullyQualifiedName": name, "kind": "series"}]}
    if place is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": place}, "region": {"startLine": 1},
        }  # fmt: skip
    said = _told(line) if rule == "regression" else f"It {line.drift_text}."
    return {
        "ruleId": rule,
        "ruleIndex": list(_RULES).index(rule),
        "level": _RULES[rule][1],
        "message": {"text": f"{name}: {said}"},
        "locations": [location],
        # By it a finding of a later run is known to be the same one.
        "partialFingerprints": {"series/v1": hashlib.sha256(f"{rule} {name}".encode()).hexdigest()},
    }
