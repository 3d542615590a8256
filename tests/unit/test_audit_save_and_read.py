"""Saved audits: an Audit gives its parts, and is read back from its file without loss."""

import json

import pytest

from tests import audit_payloads
from whence.core.errors import BadParameter, CannotRead, CannotWrite, UnknownExperiment
from whence.studies.audit.audit import Audit


def test_audit_gives_answer_conclusion_verdicts_and_experiments_by_name():
    found = Audit(audit_payloads.audit())
    assert found.answer == "no"
    assert found.conclusion == audit_payloads.audit()["conclusion"]
    assert [one["name"] for one in found.experiments] == list(audit_payloads.NAMES)
    assert found.verdicts["seeds"] == "undecided"
    assert found.experiment("adversarial")["effect"] == 0.481
    assert repr(found).startswith("<Audit no; correlation: fails, ")
    with pytest.raises(
        UnknownExperiment, match=r"no experiment 'permutatio'.* Did you mean 'permutation'\?"
    ):
        found.experiment("permutatio")
    part = Audit(audit_payloads.audit(audit_payloads.experiment("permutation")))
    with pytest.raises(UnknownExperiment, match=r"'seeds' was not run: not asked for"):
        part.experiment("seeds")


def test_audit_saved_and_read_back_is_equal_in_every_format(tmp_path):
    found = Audit(audit_payloads.audit())
    path = found.save(tmp_path / "audit.json")
    again = Audit.load(path)
    assert again.to_dict() == found.to_dict()
    assert json.loads(found.to_json()) == found.to_dict()
    assert str(again) == str(found)
    assert again.to_html() == found.to_html()
    assert found.save(tmp_path / "audit.HTML").read_text(encoding="utf-8") == found.to_html()
    found.to_markdown(tmp_path / "audit.md")
    assert (tmp_path / "audit.md").read_text(encoding="utf-8") == found.to_markdown()
    assert "<section" in found._repr_html_()


def test_audit_save_and_read_refuse_bad_paths_and_bad_content(tmp_path):
    found = Audit(audit_payloads.audit())
    with pytest.raises(
        BadParameter, match=r"saved as \.json, \.html, \.md or \.tex\. Got '.*audit\.pdf'"
    ):
        found.save(tmp_path / "audit.pdf")
    with pytest.raises(CannotWrite):
        found.save(tmp_path / "nowhere" / "audit.json")
    for payload, why in (
        ([], "not a saved audit"),
        ({"kind": "evaluation"}, "not a saved audit"),
        ({**audit_payloads.audit(), "version": 2}, "version 2"),
        ({**audit_payloads.audit(), "experiments": [{"name": "x"}]}, "KeyError"),
        ({**audit_payloads.audit(), "experiments": None}, "TypeError"),
    ):
        path = tmp_path / "bad.json"
        path.write_text(json.dumps(payload), encoding="utf-8")
        with pytest.raises(CannotRead, match=why):
            Audit.load(path)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(CannotRead, match=r"is not JSON .* Give a file that save\(\) wrote"):
        Audit.load(path)
    with pytest.raises(CannotRead, match=r"Give the path of a saved audit"):
        Audit.load(tmp_path / "nowhere.json")
