"""Concurrent requests: no errors, and every client gets its own answers."""

from concurrent.futures import ThreadPoolExecutor

import httpx

import whence
from tests.web.serving import bearer, serve_in_thread
from whence.app.settings import Settings

CLIENTS, REQUESTS = 8, 50
MODELS = ("reviews", "decoy")
TEXTS = [f"{a} {b} film" for a in ("a good", "a bad", "the dull") for b in ("old", "new", "long")]


def choose_request(number):
    """Say what a request of this number is about; neighbours differ in model, text and question."""
    return MODELS[number % 2], TEXTS[number % len(TEXTS)], ("attcat", "rollout")[number // 2 % 2]


def test_eight_concurrent_clients_get_the_answers_of_the_library():
    explainers = {name: whence.load(name) for name in MODELS}
    every = {choose_request(number) for number in range(CLIENTS * REQUESTS)}
    scores = {
        one: explainers[one[0]].explain(one[1], method=one[2]).scores.tolist() for one in every
    }
    shares = {one: explainers[one[0]].inside(one[1]).flow()["shares"] for one in every}

    settings = Settings(models=MODELS)

    def client(which, home):
        wrong = []
        with httpx.Client(base_url=home, headers=bearer(settings), timeout=120) as session:
            for number in range(which * REQUESTS, (which + 1) * REQUESTS):
                model, text, method = one = choose_request(number)
                given = {"model": model, "text": text}
                if number % 5 == 4:  # some ask for the flow instead
                    answer = session.post("/api/flow", json={"input": given})
                    right = answer.json().get("shares") == shares[one]
                else:
                    asks = {"input": given, "methods": [method]}
                    answer = session.post("/api/explain", json=asks)
                    (own,) = answer.json().get("explanations", [{}])
                    right = own.get("scores") == scores[one]
                if not right:
                    wrong.append((one, answer.status_code, answer.text[:200]))
        return wrong

    with serve_in_thread(settings) as home, ThreadPoolExecutor(CLIENTS) as pool:
        found = list(pool.map(client, range(CLIENTS), [home] * CLIENTS))
    assert found == [[]] * CLIENTS
