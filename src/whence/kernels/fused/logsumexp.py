"""The logarithm of the sum of each query's exponentials, where the forward pass left none."""

import triton
import triton.language as tl

from whence.kernels.fused.tile import exponents, in_band, lines

_LOG_2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["queries", "keys"])
def logsumexp_kernel(
    q,
    k,
    real,
    out,
    q_batch,
    q_head,
    q_line,
    k_batch,
    k_head,
    k_line,
    real_batch,
    queries,
    keys,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    FEATURES: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    LEFT: tl.constexpr,
    RIGHT: tl.constexpr,
    WORK: tl.constexpr,
    PRECISION: tl.constexpr,
    KEYS: tl.constexpr,
    QUERIES: tl.constexpr,
):
    blocks = tl.cdiv(queries, QUERIES)
    first_query = (blocks - 1 - tl.program_id(0) % blocks) * QUERIES
    which = (tl.program_id(0) // blocks).to(tl.int64)  # batch and head
    batch, head = which // HEADS, which % HEADS
    q += batch * q_batch + head * q_head
    k += batch * k_batch + head // GROUP * k_head
    if real is not None:
        real += batch * real_batch

    query = first_query + tl.arange(0, QUERIES)
    low, high = 0, keys  # the keys that one of these queries sees
    if LEFT is not None:
        low = tl.maximum(low, first_query - LEFT) // KEYS * KEYS
    if RIGHT is not None:
        high = tl.minimum(high, first_query + QUERIES + RIGHT)

    q_lines = lines(q, query, queries, q_line, WIDTH, FEATURES, True)
    top = tl.full([QUERIES], float("-inf"), WORK)
    total = tl.zeros([QUERIES], WORK)
    for start in tl.range(low, high, KEYS):
        key = start + tl.arange(0, KEYS)
        there = key < keys
        if real is not None:
            there = there & tl.load(real + key, there, False).to(tl.int1)
        k_lines = lines(k, key, keys, k_line, WIDTH, FEATURES, True)
        scores = tl.dot(q_lines, tl.trans(k_lines), input_precision=PRECISION)
        seen = in_band(query[:, None], key[None, :], LEFT, RIGHT) & there[None, :]
        power = tl.where(seen, exponents(scores, SCALE, SOFTCAP), float("-inf"))
        higher = tl.maximum(top, tl.max(power, 1))
        level = tl.where(
            higher == float("-inf"), 0.0, higher
        )  # a query may have seen nothing so far
        total = total * tl.exp2(top - level) + tl.sum(tl.exp2(power - level[:, None]), 1)
        top = higher
    tl.store(out + which * queries + query, (top + tl.log2(total)) * _LOG_2, query < queries)
