"""Triton kernel: a row times a map of attention (x gradient or relevance), recomputed per head and key block.

The block of keys and values stays where it is; queries and gradients stream past. A thread adds up its own
products, and nothing passes between threads before the end.
"""

import triton
import triton.language as tl

from whence.kernels.triton.tile import (
    LOG2_E,
    clamp_negative,
    compute_exponents,
    is_in_band,
    load_rows,
)

_SCAN_BLOCK = tl.constexpr(1024)  # entries of a row per step of the search for weights


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
    low, high = 0, queries  # range of the queries that see one of these keys and have a weight
    if RIGHT is not None:
        low = tl.maximum(low, first_key - RIGHT)
    if LEFT is not None:
        high = tl.minimum(high, first_key + KEYS + LEFT)
    low = _find_first_weight(row, low, high)
    high = _find_last_weight(row, low, high)
    low = low // QUERIES * QUERIES
    high = tl.cdiv(high, QUERIES) * QUERIES
    # range of the queries that see all of these keys
    whole_low, whole_high = low, tl.minimum(high, queries // QUERIES * QUERIES)
    if RIGHT is not None:
        whole_low = tl.maximum(low, tl.cdiv(first_key + KEYS - 1 - RIGHT, QUERIES) * QUERIES)
    if LEFT is not None:
        whole_high = tl.minimum(whole_high, (first_key + LEFT + 1) // QUERIES * QUERIES)
    whole_low = tl.minimum(whole_low, high)
    whole_high = tl.maximum(whole_high, whole_low)

    k_lines = load_rows(k, key, keys, k_line, WIDTH, FEATURES, True)
    v_lines = load_rows(v, key, keys, v_line, VALUE_WIDTH, VALUE_FEATURES, True)
    v_wide = v_lines
    if share is not None:
        v_wide = v_lines.to(share.dtype.element_ty)

    total = tl.zeros([QUERIES // 2, KEYS], WORK)
    for start in tl.range(whole_low, whole_high, QUERIES):
        total += _contract_block(
            k_lines, v_lines, v_wide, q, grad, share, rest, logsumexp, row, q_line, grad_line, share_line,
            key, start, queries, WIDTH, FEATURES, VALUE_WIDTH, VALUE_FEATURES, SCALE, SOFTCAP,
            LEFT, RIGHT, POSITIVE, WORK, PRECISION, SHARE_PRECISION, KEYS, QUERIES, False,
        )  # fmt: skip
    before = whole_low - low
    for step in tl.range(0, high - low - (whole_high - whole_low), QUERIES):
        start = tl.where(step < before, low + step, whole_high + step - before)
        total += _contract_block(
            k_lines, v_lines, v_wide, q, grad, share, rest, logsumexp, row, q_line, grad_line, share_line,
            key, start, queries, WIDTH, FEATURES, VALUE_WIDTH, VALUE_FEATURES, SCALE, SOFTCAP,
            LEFT, RIGHT, POSITIVE, WORK, PRECISION, SHARE_PRECISION, KEYS, QUERIES, True,
        )  # fmt: skip

    result = tl.sum(total, 0) / HEADS
    if share is not None:
        result *= 0.5
    if real is not None:
        result = tl.where(tl.load(real + batch * real_batch + key, key < keys, False), result, 0.0)
    tl.store(out + which * keys + key, result, key < keys)


@triton.jit
def _contract_block(
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
    """Return the weighted sums of a block of queries for a block of keys, (QUERIES / 2, KEYS)."""
    query = start + tl.arange(0, QUERIES)
    if EDGE:
        weight = tl.load(row + query, query < queries, 0.0).to(WORK)
        shift = tl.load(logsumexp + query, query < queries, 0.0).to(WORK) * LOG2_E
    else:
        weight = tl.load(row + query).to(WORK)
        shift = tl.load(logsumexp + query).to(WORK) * LOG2_E
    # A query without a weight may hold any values; this makes its exponentials 0 or NaN, never inf.
    shift = tl.where(weight != 0, shift, float("inf"))
    q_lines = load_rows(q, query, queries, q_line, WIDTH, FEATURES, EDGE)
    scores = tl.dot(q_lines, tl.trans(k_lines), input_precision=PRECISION)
    power = compute_exponents(scores, SCALE, SOFTCAP) - shift[:, None]
    if EDGE:
        power = tl.where(
            is_in_band(query[:, None], key[None, :], LEFT, RIGHT), power, float("-inf")
        )
    tile = tl.exp2(power)
    if grad is not None:
        grad_lines = load_rows(grad, query, queries, grad_line, VALUE_WIDTH, VALUE_FEATURES, EDGE)
        tile *= tl.dot(grad_lines, tl.trans(v_lines), input_precision=PRECISION)
    if share is not None:
        share_lines = load_rows(
            share, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, EDGE
        )
        relevance = tl.dot(share_lines, tl.trans(v_wide), input_precision=SHARE_PRECISION)
        if rest is not None:
            rest_lines = load_rows(
                rest, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, EDGE
            )
            relevance = tl.dot(rest_lines, tl.trans(v_wide), relevance)
        tile *= relevance
    # Clamping drops a NaN; without clamping, queries without a weight are masked out.
    tile = clamp_negative(tile) if POSITIVE else tl.where((weight != 0)[:, None], tile, 0.0)
    tile *= weight[:, None]
    # A thread holds row i and row i + 8 of each 16 rows of a product, so this sum stays in the thread.
    tile = tl.sum(tl.reshape(tile, [QUERIES // 16, 2, 8, KEYS]), 1)
    return tl.reshape(tile, [QUERIES // 2, KEYS])


@triton.jit
def _find_first_weight(row, low, high):
    """Return the first position in [low, high) with a weight; high if there is none."""
    first, at = high, low
    while at < first:
        place = at + tl.arange(0, _SCAN_BLOCK)
        weights = tl.load(row + place, place < high, 0.0)
        first = tl.min(tl.where(weights != 0, place, high))
        at += _SCAN_BLOCK
    return first


@triton.jit
def _find_last_weight(row, low, high):
    """Return the position after the last one in [low, high) with a weight; low if there is none."""
    end, at = low, high
    while at > end:
        at -= _SCAN_BLOCK
        place = at + tl.arange(0, _SCAN_BLOCK)
        weights = tl.load(row + place, (place >= low) & (place < high), 0.0)
        end = tl.max(tl.where(weights != 0, place + 1, low))
    return end
