"""Trust card payloads (JSON) written by hand for report tests: every verdict and gap, several methods, removals."""

from typing import Any

TEXT = "the plot is thin, but the actors are wonderful"
AT = [step / 10 for step in range(11)]

_FALLS = [0.99, 0.95, 0.61, 0.34, 0.2, 0.14, 0.12, 0.15, 0.2, 0.26, 0.31]
_RISES = [0.31, 0.74, 0.93, 0.97, 0.98, 0.99, 0.98, 0.99, 0.99, 0.99, 0.99]
_MEAN = [0.99, 0.94, 0.88, 0.81, 0.74, 0.66, 0.58, 0.5, 0.43, 0.37, 0.31]

_RULES = {
    "deletion": "Does the probability fall when the words it points at are removed?",
    "sufficiency": "Is the prediction kept when only the words it points at are kept?",
    "leave_one_out": "Does it agree with removing one word at a time?",
    "stability": "Does it stay the same when the input hardly changes?",
    "randomisation": "Does it change when the model forgets what it learned?",
    "class_sensitivity": "Does it say something else about another class?",
    "completeness": "Do the scores add up to what they explain?",
    "conservation": "Does every layer pass on as much as it gets?",
}


def curve(values: list[float]) -> dict[str, Any]:
    """Return a curve with a band of random rankings around a plain fall."""
    mean = _MEAN if values[0] > values[-1] else _MEAN[::-1]
    width = [min(1.4 * step * (1 - step), 0.28) for step in AT]
    return {
        "at": AT,
        "values": values,
        "null_low": [max(0.0, m - w) for m, w in zip(mean, width, strict=True)],
        "null_mean": mean,
        "null_high": [min(1.0, m + w * 0.6) for m, w in zip(mean, width, strict=True)],
    }


def test_of(name: str, verdict: str, value: float | None = None, **more: Any) -> dict[str, Any]:
    """Return one test; what is not given is not there."""
    return {
        "name": name, "remove": None, "value": value, "null": None, "percentile": None, "interval": None,
        "beaten": None, "of": None, "direction": "higher", "verdict": verdict, "why": "", "curve": None,
        **more,
    }  # fmt: skip


test_of.__test__ = False


def ranked(name: str, verdict: str, value: float, beaten: float, **more: Any) -> dict[str, Any]:
    """Return a test that was held against random rankings."""
    return test_of(
        name, verdict, value, remove="mask", null={"mean": 0.58, "low": 0.364, "high": 0.791},
        percentile=beaten, interval=[max(0.0, beaten - 5.5), min(100.0, beaten + 2.4)], beaten=beaten, of=100,
        **more,
    )  # fmt: skip


def method(name: str = "attcat", verdict: str = "weak", **more: Any) -> dict[str, Any]:
    """Return one method's part: two tests hold, one each is weak, fails, was not tested."""
    return {
        "method": name,
        "params": {"layers": None},
        "verdict": verdict,
        "sentence": "The words it points at carry the prediction, but the scores change when the input hardly does.",
        "scores": [0.3, 0.05, 0.1, -0.02, -0.37, 0.0, 0.57, 0.02, 0.11, -0.04, 0.47, -1.9],
        "word_scores": [0.05, 0.1, -0.02, -0.37, 0.0, 0.57, 0.02, 0.11, -0.04, 0.47],
        "signed": True,
        "tests": [
            ranked("deletion", "holds", 0.312, 97.0, direction="lower", curve=curve(_FALLS),
                   why="Removing the words in its order beats 97 of 100 random orders (0.31 against 0.58)."),
            ranked("sufficiency", "weak", 0.912, 88.0, curve=curve(_RISES),
                   why="Keeping the words in its order beats 88 of 100 random orders; 95 are needed to hold."),
            ranked("leave_one_out", "holds", 0.64, 99.0,
                   why="Its order agrees with removing one word at a time (tau-b 0.64)."),
            test_of("stability", "fails", 0.31,
                    why="Under noise that leaves the prediction alone, scores change by up to 0.31 of their size."),
            test_of("randomisation", "holds", 0.04,
                    why="With weights drawn at random it becomes another explanation (correlation 0.04)."),
            test_of("class_sensitivity", "not tested",
                    why="The model has one output: there is no other class to explain."),
            test_of("completeness", "not tested", why="The method does not promise it."),
            test_of("conservation", "not tested", why="The method does not promise it."),
        ],
        **more,
    }  # fmt: skip


def other_removals(test: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a test again under other kinds of removal, where it removes anything."""
    if test["remove"] is None:
        return [test]
    kinds = {"mask": 0.0, "delete": -9.0, "pad": -31.5, "unk": -2.0, "draw": -14.0}
    return [
        {**test, "remove": kind, "percentile": test["percentile"] + off, "beaten": test["beaten"] + off,
         "verdict": "weak" if off < -5 else test["verdict"]}
        for kind, off in kinds.items()
    ]  # fmt: skip


def card(*methods: dict[str, Any], every_removal: bool = False, **more: Any) -> dict[str, Any]:
    """Return a card of these methods, or of one."""
    chosen = [{**m, "tests": list(m["tests"])} for m in methods or (method(),)]
    if every_removal:
        for one in chosen:
            one["tests"] = [again for test in one["tests"] for again in other_removals(test)]
    tokens, words, at = [_special("[CLS]")], [], 0
    for piece in ("the", "plot", "is", "thin", ",", "but", "the", "actors", "are", "wonderful"):
        start = TEXT.index(piece, at)
        at = start + len(piece)
        place = {"text": piece, "start": start, "end": at, "segment": 0}
        words.append({**place, "tokens": [len(tokens)]})
        tokens.append({**place, "special": False, "id": 100 + len(tokens)})
    tokens.append(_special("[SEP]"))
    return {
        "version": 1,
        "model": {"name": "reviews", "revision": None, "class": "BertForSequenceClassification",
                  "fingerprint": "c0ffee", "labels": ["negative", "positive"]},
        "input": {"text": TEXT, "pair": None, "dropped": 0},
        "tokens": tokens,
        "words": words,
        "prediction": {"label": "positive", "index": 1, "probability": 0.996,
                       "probabilities": {"negative": 0.004, "positive": 0.996}, "logits": [-2.7, 2.8]},
        "target": {"label": "positive", "index": 1, "against": None, "of": "logit"},
        "remove": ["mask", "delete", "pad", "unk", "draw"] if every_removal else ["mask"],
        "unit": "token",
        "units": 10,
        "rankings": 100,
        "budget": 2000,
        "cost": {"forward": 1234, "backward": 12, "seconds": 1.23, "tests": 1200},
        "sentence": "Believe this explanation with care: it names words that matter, but not reliably in this order.",
        "rules": [
            {"name": name, "question": question, "holds": "beats at least 95% of random rankings",
             "weak": "beats at least 75%", "fails": "beats fewer"}
            for name, question in _RULES.items()
        ],
        "methods": chosen,
        "removal_matters": "The choice of removal moves the percentiles by up to 31.5 points."
        if every_removal else None,
        "provenance": {"whence": "0.3.0", "torch": "2.6.0", "transformers": "5.0.0", "numpy": "2.0.0",
                       "python": "3.11.7", "device": "cpu", "dtype": "float32"},
        **more,
    }  # fmt: skip


def _special(text: str) -> dict[str, Any]:
    return {"text": text, "start": None, "end": None, "segment": 0, "special": True, "id": 2}
