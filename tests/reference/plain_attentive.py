"""The models of Jain & Wallace again, one text at a time, in loops over tokens and features: slow and plain."""

import numpy as np


def logits(weights, config, passage, query=None):
    """Return the logits for the ids of one text, or of two, special tokens included and no padding anywhere."""
    encode = {"bilstm": _bilstm, "cnn": _cnn, "average": _average}[config.encoder]
    states, _ = encode(weights, config, "encoders.0.", passage)
    summary = None
    if query is not None:
        _, summary = encode(weights, config, "encoders.1.", query)
    content = [t for t, one in enumerate(passage) if one not in (2, 3)]
    scores = np.array([_score(weights, config, states[t], summary) for t in content])
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    context = sum(share * states[t] for share, t in zip(shares, content, strict=True))
    if summary is not None:
        mixed = _linear(weights, "decoder.passage", context)
        context = np.tanh(mixed + _linear(weights, "decoder.query", summary))
    output = _linear(weights, "decoder.output", context)
    if len(output) < config.num_labels:
        output = np.array([-output[0] / 2, output[0] / 2])
    return output, dict(zip(content, shares, strict=True))


def _linear(weights, name, x):
    made = weights[f"{name}.weight"] @ x
    return made + weights[f"{name}.bias"] if f"{name}.bias" in weights else made


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _bilstm(weights, config, prefix, ids):
    both = []
    for suffix, order in (("", range(len(ids))), ("_reverse", reversed(range(len(ids))))):
        w, u, b, c = (
            weights[f"{prefix}lstm.{kind}_l0{suffix}"]
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        h = cell = np.zeros(config.hidden_size)
        states = {}
        for t in order:
            gates = w @ weights["embeddings.weight"][ids[t]] + b + u @ h + c
            enter, forget, new, leave = np.split(gates, 4)
            cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
            h = _sigmoid(leave) * np.tanh(cell)
            states[t] = h
        both.append((states, h))
    (ahead, last), (back, first) = both
    return [np.concatenate([ahead[t], back[t]]) for t in range(len(ids))], np.concatenate(
        [last, first]
    )


def _cnn(weights, config, prefix, ids):
    states = []
    for t, one in enumerate(ids):
        found = []
        for number, size in enumerate(config.kernels):
            total = weights[f"{prefix}filters.{number}.bias"].copy()
            for offset in range(size):
                place = t + offset - size // 2
                if 0 <= place < len(ids):
                    vector = weights["embeddings.weight"][ids[place]]
                    total += weights[f"{prefix}filters.{number}.weight"][:, :, offset] @ vector
            found.append(np.maximum(total, 0))
        states.append(np.concatenate(found) * (one not in (2, 3)))
    return states, np.max(states, axis=0)


def _average(weights, config, prefix, ids):
    states = [
        np.tanh(_linear(weights, f"{prefix}projection", weights["embeddings.weight"][one]))
        for one in ids
    ]
    return states, np.mean(states, axis=0)


def _score(weights, config, state, summary):
    if config.attention == "uniform":
        return 0.0
    if config.attention == "dot":
        vector = weights["attention.scores.vector.weight"][0] if summary is None else summary
        return vector @ state / np.sqrt(len(state))
    inner = _linear(weights, "attention.scores.states", state)
    if summary is not None:
        inner = inner + _linear(weights, "attention.scores.query", summary)
    return weights["attention.scores.score.weight"][0] @ np.tanh(inner)
