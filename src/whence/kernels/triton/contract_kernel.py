"""Row times map: one program for every head and block of keys, which goes through the queries that see them.

The block of keys and values stays where it is; queries and gradients stream past. A thread adds up what it made
itself, and nothing passes between threads before the end.
"""

import triton
import triton.language as tl

from whence.kernels.fused.tile import LOG2_E, exponents, in_band, lines, not_negative

_SCANNED = tl.constexpr(
    1024
)  # entries of a row that are looked at together, for the ones that count


@triton.jit(do_not_specialize=["queries", "keys"])
def contract_kernel(
    q,
    k,
    v,
    grad,
    share,
    rest,
    logsumexp,
    row,
    real,
    out,
    q_batch,
    q_head,
    q_line,
    k_batch,
    k_head,
    k_line,
    v_batch,
    v_head,
    v_line,
    grad_batch,
    grad_head,
    grad_line,
    share_batch,
    share_head,
    share_line,
    logsumexp_batch,
    logsumexp_head,
    row_batch,
    real_batch,
    queries,
    keys,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    FEATURES: tl.constexpr,
    VALUE_WIDTH: tl.constexpr,
    VALUE_FEATURES: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    POSITIVE: tl.constexpr,
    WORK: tl.constexpr,
    PRECISION: tl.constexpr,
    SHARE_PRECISION: tl.constexpr,
    KEYS: tl.constexpr,
    QUERIES: tl.constexpr,
):
    blocks = tl.cdiv(keys, KEYS)
    first_key = (tl.program_id(0) % blocks) * KEYS
    which = (tl.program_id(0) // blocks).to(tl.int64)  # batch and head
    batch, head = which // HEADS, which % HEADS
    q += batch * q_batch + head * q_head
    k += batch * k_batch + head // GROUP * k_head
    v += batch * v_batch + head // GROUP * v_head
    logsumexp += batch * logsumexp_batch + head * logsumexp_head
    row += batch * row_batch
    if grad is not None:
        grad += batch * grad_batch + head * grad_head
    if share is not None:
        share += batch * share_batch + head * share_head
    if rest is not None:
        rest += batch * share_batch + head * share_head

    key = first_key + tl.arange(0, KEYS)
    low, high = 0, queries  # the queries that see one of these keys and have a weight
    if RIGHT is not None:
        low = tl.maximum(low, first_key - RIGHT)
    if LEFT is not None:
        high = tl.minimum(high, first_key + KEYS + LEFT)
    low = _first_weight(row, low, high)
    high = _last_weight(row, low, high)
    low = low // QUERIES * QUERIES
    high = tl.cdiv(high, QUERIES) * QUERIES
    whole_low, whole_high = (
        low,
        tl.minimum(high, queries // QUERIES * QUERIES),
    )  # those that see all of them
    if RIGHT is not None:
        whole_low = tl.maximum(low, tl.cdiv(first_key + KEYS - 1 - RIGHT, QUERIES) * QUERIES)
    if LEFT is not None:
        whole_high = tl.minimum(whole_high, (first_key + LEFT + 1) // QUERIES * QUERIES)
    whole_low = tl.minimum(whole_low, high)
    whole_high = tl.maximum(whole_high, whole_low)

    k_lines = lines(k, key, keys, k_line, WIDTH, FEATURES, True)
    v_lines = lines(v, key, keys, v_line, VALUE_WIDTH, VALUE_FEATURES, True)
    v_wide = v_lines
    if share is not None:
        v_wide = v_lines.to(share.dtype.element_ty)

    total = tl.zeros([QUERIES // 2, KEYS], WORK)
    for start in tl.range(whole_low, whole_high, QUERIES):
        total += _block(
            k_lines, v_lines, v_wide, q, grad, share, rest, logsumexp, row, q_line, grad_line, share_line,
            key, start, queries, WIDTH, FEATURES, VALUE_WIDTH, VALUE_FEATURES, SCALE, SOFTCAP,
            LEFT, RIGHT, POSITIVE, WORK, PRECISION, SHARE_PRECISION, KEYS, QUERIES, False,
        )  # fmt: skip
    before = whole_low - low
    for step in tl.range(0, high - low - (whole_high - whole_low), QUERIES):
        start = tl.where(step < before, low + step, whole_high + step - before)
        total += _block(
            k_lines, v_lines, v_wide, q, grad, share, rest, logsumexp, row, q_line, grad_line, share_line,
            key, start, queries, WIDTH, FEATURES, VALUE_WIDTH, VALUE_FEATURES, SCALE, SOFTCAP,
            LEFT, RIGHT, POSITIVE, WORK, PRECISION, SHARE_PRECISION, KEYS, QUERIES, True,
        )  # fmt: skip

    found = tl.sum(total, 0) / HEADS
    if share is not None:
        found *= 0.5
    if real is not None:
        found = tl.where(tl.load(real + batch * real_batch + key, key < keys, False), found, 0.0)
    tl.store(out + which * keys + key, found, key < keys)


@triton.jit
def _block(
    k_lines,
    v_lines,
    v_wide,
    q,
    grad,
    share,
    rest,
    logsumexp,
    row,
    q_line,
    grad_line,
    share_line,
    key,
    start,
    queries,
    WIDTH: tl.constexpr,
    FEATURES: tl.constexpr,
    VALUE_WIDTH: tl.constexpr,
    VALUE_FEATURES: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    POSITIVE: tl.constexpr,
    WORK: tl.constexpr,
    PRECISION: tl.constexpr,
    SHARE_PRECISION: tl.constexpr,
    KEYS: tl.constexpr,
    QUERIES: tl.constexpr,
    EDGE: tl.constexpr,
):
    """Return what a block of queries gives to a block of keys, (half as many queries to be added up, keys)."""
    query = start + tl.arange(0, QUERIES)
    if EDGE:
        weight = tl.load(row + query, query < queries, 0.0).to(WORK)
        shift = tl.load(logsumexp + query, query < queries, 0.0).to(WORK) * LOG2_E
    else:
        weight = tl.load(row + query).to(WORK)
        shift = tl.load(logsumexp + query).to(WORK) * LOG2_E
    # A query without a weight may hold anything. Its exponentials are zero or NaN then, never infinite.
    shift = tl.where(weight != 0, shift, float("inf"))
    q_lines = lines(q, query, queries, q_line, WIDTH, FEATURES, EDGE)
    scores = tl.dot(q_lines, tl.trans(k_lines), input_precision=PRECISION)
    power = exponents(scores, SCALE, SOFTCAP) - shift[:, None]
    if EDGE:
        power = tl.where(in_band(query[:, None], key[None, :], LEFT, RIGHT), power, float("-inf"))
    found = tl.exp2(power)
    if grad is not None:
        grad_lines = lines(grad, query, queries, grad_line, VALUE_WIDTH, VALUE_FEATURES, EDGE)
        found *= tl.dot(grad_lines, tl.trans(v_lines), input_precision=PRECISION)
    if share is not None:
        share_lines = lines(share, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, EDGE)
        relevance = tl.dot(share_lines, tl.trans(v_wide), input_precision=SHARE_PRECISION)
        if rest is not None:
            rest_lines = lines(rest, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, EDGE)
            relevance = tl.dot(rest_lines, tl.trans(v_wide), relevance)
        found *= relevance
    # Clamping drops a NaN, and else it is left out by name.
    found = not_negative(found) if POSITIVE else tl.where((weight != 0)[:, None], found, 0.0)
    found *= weight[:, None]
    # Of 16 rows of a product, a thread holds one and the one 8 below it.
    found = tl.sum(tl.reshape(found, [QUERIES // 16, 2, 8, KEYS]), 1)
    return tl.reshape(found, [QUERIES // 2, KEYS])


@triton.jit
def _first_weight(row, low, high):
    """Return the first place from low to high that has a weight."""
    found, at = high, low
    while at < found:
        place = at + tl.arange(0, _SCANNED)
        here = tl.load(row + place, place < high, 0.0)
        found = tl.min(tl.where(here != 0, place, high))
        at += _SCANNED
    return found


@triton.jit
def _last_weight(row, low, high):
    """Return the place after the last one from low to high that has a weight."""
    found, at = low, high
    while at > found:
        at -= _SCANNED
        place = at + tl.arange(0, _SCANNED)
        here = tl.load(row + place, (place >= low) & (place < high), 0.0)
        found = tl.max(tl.where(here != 0, place + 1, low))
    return found
