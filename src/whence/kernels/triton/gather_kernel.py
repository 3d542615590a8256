"""Map times column: one program for every head and block of queries, which goes through the keys that they see.

As in `contract`, with the sides changed: queries and gradients stay, keys and values stream past.
"""

import triton
import triton.language as tl

from whence.kernels.fused.tile import LOG2_E, exponents, in_band, lines, not_negative


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
    # The last queries see most, and start first: what is left for the end should be short.
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
    low, high = 0, keys  # the keys that one of these queries sees
    if LEFT is not None:
        low = tl.maximum(low, first_query - LEFT)
    if RIGHT is not None:
        high = tl.minimum(high, first_query + QUERIES + RIGHT)
    if row is not None:  # queries without a weight need no sums
        weight = tl.load(row + batch * row_batch + query, query < queries, 0.0)
        high = tl.where(tl.max((weight != 0).to(tl.int32)) > 0, high, low)
    low = low // KEYS * KEYS
    high = tl.maximum(low, tl.cdiv(high, KEYS) * KEYS)
    whole_low, whole_high = low, tl.minimum(high, keys // KEYS * KEYS)  # those that all of them see
    if LEFT is not None:
        whole_low = tl.maximum(low, tl.cdiv(first_query + QUERIES - 1 - LEFT, KEYS) * KEYS)
    if RIGHT is not None:
        whole_high = tl.minimum(whole_high, (first_query + RIGHT + 1) // KEYS * KEYS)
    if real is not None:  # padding may be anywhere
        whole_high = low
    whole_low = tl.minimum(whole_low, high)
    whole_high = tl.maximum(whole_high, whole_low)

    q_lines = lines(q, query, queries, q_line, WIDTH, FEATURES, True)
    grad_lines, share_lines, rest_lines = q_lines, q_lines, q_lines
    if grad is not None:
        grad += batch * grad_batch + head * grad_head
        grad_lines = lines(grad, query, queries, grad_line, VALUE_WIDTH, VALUE_FEATURES, True)
    if share is not None:
        share += batch * share_batch + head * share_head
        share_lines = lines(share, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, True)
    if rest is not None:
        rest += batch * share_batch + head * share_head
        rest_lines = lines(rest, query, queries, share_line, VALUE_WIDTH, VALUE_FEATURES, True)
    shift = tl.load(logsumexp + query, query < queries, 0.0).to(WORK) * LOG2_E

    total = tl.zeros([QUERIES, 8], WORK)
    for start in tl.range(whole_low, whole_high, KEYS):
        total += _block(
            q_lines, grad_lines, share_lines, rest_lines, shift, k, v, column, real, k_line, v_line,
            query, start, keys, grad is not None, share is not None, rest is not None, WIDTH, FEATURES, VALUE_WIDTH,
            VALUE_FEATURES, SCALE, SOFTCAP, LEFT, RIGHT, POSITIVE, WORK,
            PRECISION, SHARE_PRECISION, KEYS, QUERIES, False,
        )  # fmt: skip
    before = whole_low - low
    for step in tl.range(0, high - low - (whole_high - whole_low), KEYS):
        start = tl.where(step < before, low + step, whole_high + step - before)
        total += _block(
            q_lines, grad_lines, share_lines, rest_lines, shift, k, v, column, real, k_line, v_line,
            query, start, keys, grad is not None, share is not None, rest is not None, WIDTH, FEATURES, VALUE_WIDTH,
            VALUE_FEATURES, SCALE, SOFTCAP, LEFT, RIGHT, POSITIVE, WORK,
            PRECISION, SHARE_PRECISION, KEYS, QUERIES, True,
        )  # fmt: skip

    found = tl.sum(total, 1) / HEADS
    if share is not None:
        found *= 0.5
    tl.store(out + which * queries + query, found, query < queries)


@triton.jit
def _block(
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
    """Return what a block of queries takes from a block of keys, (queries, a few columns to be added up)."""
    key = start + tl.arange(0, KEYS)
    if EDGE:
        there = key < keys
        if real is not None:
            there = there & tl.load(real + key, there, False).to(tl.int1)
        weight = tl.load(column + key, there, 0.0).to(WORK)
    else:
        weight = tl.load(column + key).to(WORK)
    k_lines = lines(k, key, keys, k_line, WIDTH, FEATURES, EDGE)
    scores = tl.dot(q_lines, tl.trans(k_lines), input_precision=PRECISION)
    power = exponents(scores, SCALE, SOFTCAP) - shift[:, None]
    if EDGE:
        seen = in_band(query[:, None], key[None, :], LEFT, RIGHT) & there[None, :]
        power = tl.where(seen, power, float("-inf"))
    found = tl.exp2(power)
    if GRADIENT or RELEVANCE:
        v_lines = lines(v, key, keys, v_line, VALUE_WIDTH, VALUE_FEATURES, EDGE)
        if GRADIENT:
            found *= tl.dot(grad_lines, tl.trans(v_lines), input_precision=PRECISION)
        if RELEVANCE:
            wide = tl.trans(v_lines.to(share_lines.dtype))
            relevance = tl.dot(share_lines, wide, input_precision=SHARE_PRECISION)
            if REST:
                relevance = tl.dot(rest_lines, wide, relevance)
            found *= relevance
    # A padded key may hold anything, a NaN too: clamping drops it, and else it is left out by name.
    if POSITIVE:
        found = not_negative(found)
    elif EDGE:
        found = tl.where(seen, found, 0.0)
    found *= weight[None, :]
    # Of 8 columns of a product, a thread holds two, and the same ones of the next 8.
    return tl.sum(tl.reshape(found, [QUERIES, KEYS // 8, 8]), 1)
