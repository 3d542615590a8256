"""App server for a benchmark: a model of 12 x 12 heads, texts of a given length, and many clients at once."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np

import whence
from whence.app.access_token import TOKEN_VARIABLE, make_token
from whence.core.seed import build_generator
from whence.models.model_files import find_builtin_folder

LAYERS = HEADS = 12
START = 120  # seconds
TOKEN = make_token()
BEARER = {"authorization": f"Bearer {TOKEN}"}


def save_large_model(folder: Path) -> Path:
    """Save an untrained, narrow BERT of 12 x 12 heads with the tokenizer of `reviews`."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(find_builtin_folder("reviews"))
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        hidden_size=16 * HEADS,
        intermediate_size=64 * HEADS,
        max_position_embeddings=512,
        id2label={0: "negative", 1: "positive"},
        label2id={"negative": 0, "positive": 1},
    )
    model = BertForSequenceClassification(config).eval()
    # So that heads prefer some tokens to others, as those of trained models do.
    for layer in model.bert.encoder.layer:
        layer.attention.self.query.weight.data.mul_(12)
        layer.attention.self.key.weight.data.mul_(12)
    model.save_pretrained(folder)
    tokenizer.model_max_length = 512
    tokenizer.save_pretrained(folder)
    return folder


def build_text(tokens: int, key: int = 0) -> str:
    """Return a text of so many tokens, the two special ones included."""
    tokenizer = whence.load("reviews").tokenizer
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha() and len(word) > 3)
    drawn = build_generator("bench", tokens, key).choice(words, size=2 * tokens)
    kept = [word for word in drawn if len(tokenizer(word)["input_ids"]) == 3]
    return " ".join(kept[: tokens - 2])


@contextmanager
def serve_app(*arguments: str) -> Iterator[str]:
    """Start the app as a user would, and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "whence", "app", "--no-open", "--port", str(port), *arguments]
    own = {"HF_HUB_OFFLINE": "1", TOKEN_VARIABLE: TOKEN}
    process = subprocess.Popen(command, env={**os.environ, **own})
    url = f"http://127.0.0.1:{port}/"
    try:
        until = time.monotonic() + START
        while not _is_answering(url):
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit("whence app did not start.")
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def post_json(url: str, path: str, asked: Any) -> Any:
    """Send a request to the server, and return its answer."""
    body = json.dumps(asked).encode()
    request = Request(url + path, body, {"content-type": "application/json", **BEARER})
    with urlopen(request, timeout=300) as answer:
        return json.load(answer)


def run_crowd(url: str, clients: int, requests: int) -> dict[str, Any]:
    """Let many clients send different requests at once; count errors and wrong answers.

    Every answer is held against what the library says about the same text in this process.
    """
    explainer = whence.load("reviews")
    texts = [f"{build_text(8 + i % 24, i)} number {i}" for i in range(requests)]
    expected = [explainer.explain(text) for text in texts]
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(lambda i: _send_request(url, i, texts[i]), range(requests)))
    seconds = time.perf_counter() - started
    mixed = sum(
        not isinstance(answer, str) and not _is_right(answer, text, why)
        for answer, text, why in zip(answers, texts, expected, strict=True)
    )
    wrong = [answer for answer in answers if isinstance(answer, str)]
    return {"errors": len(wrong), "mixed up": mixed, "seconds": seconds, "first": wrong[:1]}


def _send_request(url: str, number: int, text: str) -> Any:
    asked = {"model": "reviews", "text": text}
    try:
        if number % 2:
            return post_json(url, "api/flow", {"input": asked, "most": 500})
        return post_json(url, "api/explain", {"input": asked, "methods": ["attcat"]})
    except (URLError, OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _is_right(answer: Any, text: str, why: Any) -> bool:
    words: Sequence[str] = [token["text"] for token in answer["tokens"]]
    if list(words) != [token.text for token in why.tokens]:
        return False
    if answer.get("kind") == "flow":
        # Flow is conserved: the shares of the tokens sum to 1.
        return abs(sum(answer["shares"]) - 1) < 1e-4
    scores = answer["explanations"][0]["scores"]
    # float32, in batches of another shape.
    return answer["input"]["text"] == text and bool(np.allclose(scores, why.scores, atol=1e-4))


def _is_answering(url: str) -> bool:
    try:
        with urlopen(Request(url + "api/health", headers=BEARER), timeout=5) as answer:
            return bool(json.load(answer)["ok"])
    except (URLError, OSError):
        return False
