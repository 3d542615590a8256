"""Evaluation of QA, masked LM and tagging models: gold answers as rationale, texts without mask, first entity."""

import json

from tests.task_models import TAGS, explainer
from whence.studies.evaluation.evaluate import evaluate

ROWS = [
    {"question": "which", "context": "the plot is thin, the film well-made", "answers": [["thin", 12]]},
    {"question": "who acted", "context": "a gripping, beautifully acted film", "answers": [["film", 30]]},
]  # fmt: skip


def test_precision_at_k_counts_top_tokens_inside_the_gold_answer(tmp_path):
    path = tmp_path / "squad.jsonl"
    rows = [
        {**row, "answers": [{"text": text, "answer_start": at} for text, at in row["answers"]]} for row in ROWS
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    e = explainer("bert", "QuestionAnswering")
    settings = {"precision_at_k": {"preset": "attcat", "k": 4}}
    table = evaluate(
        e, path, methods=["gradient"], metrics=["precision_at_k"], metric_params=settings
    ).to_dict()
    (cell,) = table["cells"]
    # By hand: the four highest tokens of the text, and how many of them lie in the gold answer.
    counts = []
    for row in ROWS:
        found = e.explain((row["question"], row["context"]), method="gradient")
        ((text, start),) = row["answers"]
        content = [i for i, token in enumerate(found.tokens) if not token.special]
        top = sorted(content, key=lambda i: -found.scores[i])[:4]
        tokens = [found.tokens[i] for i in top if found.tokens[i].segment == 1]
        counts.append(sum(start <= t.start and t.end <= start + len(text) for t in tokens))
    assert cell["mean"] == sum(counts) / len(counts)
    assert cell["null"]["mean"] is not None


def test_evaluate_names_an_example_without_mask_and_explains_the_rest():
    e = explainer("bert", "MaskedLM")
    texts = ["a [MASK] film", "no mask"]
    table = evaluate(e, texts, methods=["gradient"], metrics=["deletion"]).to_dict()
    assert table["examples"]["explained"] == 1
    (why,) = table["examples"]["why_not"]
    assert "no mask" in why["why"] and why["examples"] == [1]


def test_trials_of_a_text_with_several_entities_take_the_first():
    e = explainer("bert", "TokenClassification", TAGS)
    text = "a gripping film, well-made but thin: the plot, and nothing else in it is good"
    first, *others = e.explain(text, method="gradient")
    assert others
    ((_, trial, found),) = e.trials([text], method="gradient")
    assert found["gradient"].read == first.read
    assert trial.item.reading == first.item.reading
