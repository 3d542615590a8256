"""Triton kernel: a map of attention (x gradient or relevance) times a column, per head and block of queries.

As in `contract_kernel`, with the sides exchanged: queries and gradients stay, keys and values stream past.
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


@triton.jit(do_not_specialize=["queries", "keys"])
def gather_kernel(
    q,
    k,
    v,
    grad,
    share,
    rest,
    logsumexp,
    column,
    real,
    row,
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
    column_batch,
    real_batch,
    row_batch,
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
    blocks = tl.cdiv(queries, QUERIES)
    # The last queries see most keys and start first, so that the programs at the end are short.
    first_query = (blocks - 1 - tl.program_id(0) % blocks) * QUERIES
    which = (tl.program_id(0) // blocks).to(tl.int64)  # batch and head
    batch, head = which // HEADS, which % HEADS
    q += batch * q_batch + head * q_head
    k += batch * k_batch + head // GROUP * k_head
    v += batch * v_batch + head // GROUP * v_head
    logsumexp += batch * logsumexp_batch + head * logsumexp_head
    column += batch * column_batch
    if real is not None:
        real += batch * real_batch

    query = first_query + tl.arange(0, QUERIES)
    low, high = 0, keys  # range of the keys that one of these queries sees
    if LEFT is not None:
        low = tl.maximum(low, first_query - LEFT)
    if RIGHT is not None:
        high = tl.minimum(high, first_query + QUERIES + RIGHT)
    if row is not None:  # queries without a weight need no sums
        weight = tl.load(row + batch * row_batch + query, query < queries, 0.0)
        high = tl.where(tl.max((weight != 0).to(tl.int32)) > 0, high, low)
    low = low // KEYS * KEYS
    high = tl.maximum(low, tl.cdiv(high, KEYS) * KEYS)
    # range of the keys that all of these queries see
    whole_low, whole_high = low, tl.minimum(high, keys // KEYS * KEYS)
    if LEFT is not None:
        whole_low = tl.maximum(low, tl.cdiv(first_query + QUERIES - 1 - LEFT, KEYS) * KEYS)
    if RIGHT is not None:
        whole_high = tl.minimum(whole_high, (first_query + RIGHT + 1) // KEYS * KEYS)
    if real is not None:  # padding may be anywhere
        whole_high = low
    whole_low = tl.minimum(whole_low, high)
    whole_high = tl.maximum(whole_high, whole_low)

    q_lines = load_rows(q, query, queries, q_line, WIDTH, FEATURES, True)
    grad_lines, share_lines, rest_lines = q_lines, q_lines, q_lines
    if grad is not None:
        grad += batch * grad_batch + head * grad_head
        grad_lines = load_rows(grad, query, queries, grad_line, VALUE_WIDTH, VALUE_FEATURES, True)
    if share is not None:
        share += batch * share_batch + head * share_head
        share_lines = load_rows(
            share, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, True
        )
    if rest is not None:
        rest += batch * share_batch + head * share_head
        rest_lines = load_rows(rest, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, True)
    shift = tl.load(logsumexp + query, query < queries, 0.0).to(WORK) * LOG2_E

    total = tl.zeros([QUERIES, 8], WORK)
    for start in tl.range(whole_low, whole_high, KEYS):
        total += _gather_block(
            q_lines, grad_lines, share_lines, rest_lines, shift, k, v, column, real, k_line, v_line,
            query, start, keys, grad is not None, share is not None, rest is not None, WIDTH, FEATURES, VALUE_WIDTH,
            VALUE_FEATURES, SCALE, SOFTCAP, LEFT, RIGHT, POSITIVE, WORK,
            PRECISION, SHARE_PRECISION, KEYS, QUERIES, False,
        )  # fmt: skip
    before = whole_low - low
    for step in tl.range(0, high - low - (whole_high - whole_low), KEYS):
        start = tl.where(step < before, low + step, whole_high + step - before)
        total += _gather_block(
            q_lines, grad_lines, share_lines, rest_lines, shift, k, v, column, real, k_line, v_line,
            query, start, keys, grad is not None, share is not None, rest is not None, WIDTH, FEATURES, VALUE_WIDTH,
            VALUE_FEATURES, SCALE, SOFTCAP, LEFT, RIGHT, POSITIVE, WORK,
            PRECISION, SHARE_PRECISION, KEYS, QUERIES, True,
        )  # fmt: skip

    result = tl.sum(total, 1) / HEADS
    if share is not None:
        result *= 0.5
    tl.store(out + which * queries + query, result, query < queries)


@triton.jit
def _gather_block(
    q_lines,
    grad_lines,
    share_lines,
    rest_lines,
    shift,
    k,
    v,
    column,
    real,
    k_line,
    v_line,
    query,
    start,
    keys,
    GRADIENT: tl.constexpr,
    RELEVANCE: tl.constexpr,
    REST: tl.constexpr,
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
    """Return the partial sums of a block of queries over a block of keys, (QUERIES, 8)."""
    key = start + tl.arange(0, KEYS)
    if EDGE:
        valid = key < keys
        if real is not None:
            valid = valid & tl.load(real + key, valid, False).to(tl.int1)
        weight = tl.load(column + key, valid, 0.0).to(WORK)
    else:
        weight = tl.load(column + key).to(WORK)
    k_lines = load_rows(k, key, keys, k_line, WIDTH, FEATURES, EDGE)
    scores = tl.dot(q_lines, tl.trans(k_lines), input_precision=PRECISION)
    power = compute_exponents(scores, SCALE, SOFTCAP) - shift[:, None]
    if EDGE:
        visible = is_in_band(query[:, None], key[None, :], LEFT, RIGHT) & valid[None, :]
        power = tl.where(visible, power, float("-inf"))
    tile = tl.exp2(power)
    if GRADIENT or RELEVANCE:
        v_lines = load_rows(v, key, keys, v_line, VALUE_WIDTH, VALUE_FEATURES, EDGE)
        if GRADIENT:
            tile *= tl.dot(grad_lines, tl.trans(v_lines), input_precision=PRECISION)
        if RELEVANCE:
            wide = tl.trans(v_lines.to(share_lines.dtype))
            relevance = tl.dot(share_lines, wide, input_precision=SHARE_PRECISION)
            if REST:
                relevance = tl.dot(rest_lines, wide, relevance)
            tile *= relevance
    # A padding key may hold a NaN: clamping drops it; without clamping, hidden keys are masked out.
    if POSITIVE:
        tile = clamp_negative(tile)
    elif EDGE:
        tile = tl.where(visible, tile, 0.0)
    tile *= weight[None, :]
    # A thread holds the same two of each 8 columns of a product, so this sum stays in the thread.
    return tl.sum(tl.reshape(tile, [QUERIES, KEYS // 8, 8]), 1)
