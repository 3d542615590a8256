"""The kernels that share relevance of an attention's output: one holds a block of keys, the other one of queries."""

import triton
import triton.language as tl

from whence.kernels.fused.pointwise import divided

_LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _through(to_map, scores, scale, SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr):
    """Hand what a map carries through the sum with its mask to the scores."""
    if SIGNED or not MASKED:
        return to_map
    scaled = scores * scale
    return divided(to_map, scaled, SIZE, SIGNED) * scaled


@triton.jit
def _tile(
    scores, products, lse, i, j, key_seen, left, right, scale,
    SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    """Return the weights of a tile, twice what its map carries, that after the mask, and that over the scores."""
    weight = tl.exp2(scores * (scale * _LOG2E) - lse * _LOG2E)
    if BANDED:
        weight = tl.where(key_seen & (j <= i + right) & (j >= i - left), weight, 0.0)
    to_map = weight * products
    to_scores = _through(to_map, scores, scale, SIZE, SIGNED, MASKED)
    return weight, to_map, to_scores, divided(to_scores, scores, SIZE, SIGNED)


@triton.jit
def _keys_step(
    start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, key_seen, queries, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr, BM: tl.constexpr,
    SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    # A query beyond the last one is a line of zeros, which hands on nothing.
    i, d, dv = start + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, DV)
    row, at = (i < queries)[:, None], i[:, None].to(tl.int64)
    q = tl.load(Q + at * sqn + d[None, :], mask=row & (d < WIDTH)[None, :], other=0.0)
    s = tl.load(S + at * ssn + dv[None, :], mask=row & (dv < VALUES)[None, :], other=0.0)
    lse = tl.load(L + i, mask=i < queries, other=0.0)
    scores = tl.dot(k, tl.trans(q), input_precision=PRECISION)
    products = tl.dot(v, tl.trans(s), input_precision=PRECISION)
    weight, _, _, quotient = _tile(
        scores, products, lse[None, :], i[None, :], j[:, None], key_seen[:, None], left, right, scale,
        SIZE, SIGNED, MASKED, BANDED,
    )  # fmt: skip
    to_v += tl.dot(weight.to(s.dtype), s, input_precision=PRECISION)
    to_k += tl.dot(quotient.to(q.dtype), q, input_precision=PRECISION)
    return to_k, to_v


@triton.jit
def keys_kernel(
    Q, K, V, S, L, Seen, Active, ToK, ToV,
    sqb, sqh, sqn, skb, skh, skn, svb, svh, svn, ssb, ssh, ssn,
    heads, groups, queries, keys, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr,
    PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    block, bh = tl.program_id(0), tl.program_id(1)
    b, h = (bh // heads).to(tl.int64), (bh % heads).to(tl.int64)
    kh = h // groups
    low = block * BN
    j, d, dv = low + tl.arange(0, BN), tl.arange(0, D), tl.arange(0, DV)
    key_seen = j < keys
    if PADDED:
        key_seen = key_seen & (tl.load(Seen + b * keys + j, mask=key_seen, other=0) != 0)
    at = j[:, None].to(tl.int64)
    k_at, v_at = (
        b * skb + kh * skh + at * skn + d[None, :],
        b * svb + kh * svh + at * svn + dv[None, :],
    )
    k = tl.load(K + k_at, mask=key_seen[:, None] & (d < WIDTH)[None, :], other=0.0)
    v = tl.load(V + v_at, mask=key_seen[:, None] & (dv < VALUES)[None, :], other=0.0)
    to_k, to_v = tl.zeros([BN, D], tl.float32), tl.zeros([BN, DV], tl.float32)
    Q += b * sqb + h * sqh
    S += b * ssb + h * ssh
    L += bh.to(tl.int64) * queries
    first = tl.maximum(tl.maximum(tl.load(Active), low - right), 0) // BM * BM
    last = tl.minimum(tl.minimum(tl.load(Active + 1), queries), low + BN + left)
    # Between these, every query sees every one of the keys, and needs no mask.
    clear = tl.maximum((tl.maximum(low + BN - 1 - right, 0) + BM - 1) // BM * BM, first)
    until = tl.minimum(queries, low + left + 1) // BM * BM
    if PADDED:
        until = clear
    until = tl.where(low + BN <= keys, until, clear)
    for start in range(first, tl.minimum(clear, last), BM):
        to_k, to_v = _keys_step(
            start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, key_seen, queries, left, right, scale,
            WIDTH, D, VALUES, DV, BM, SIZE, SIGNED, MASKED, PRECISION, True,
        )  # fmt: skip
    for start in range(clear, tl.minimum(until, last), BM):
        to_k, to_v = _keys_step(
            start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, key_seen, queries, left, right, scale,
            WIDTH, D, VALUES, DV, BM, SIZE, SIGNED, MASKED, PRECISION, False,
        )  # fmt: skip
    for start in range(tl.maximum(clear, until), last, BM):
        to_k, to_v = _keys_step(
            start, k, v, to_k, to_v, Q, S, L, sqn, ssn, j, key_seen, queries, left, right, scale,
            WIDTH, D, VALUES, DV, BM, SIZE, SIGNED, MASKED, PRECISION, True,
        )  # fmt: skip
    # Half of the output's goes to the map, and half of the map's to the keys; the other half to the values.
    to_k = to_k * k.to(tl.float32) * 0.25
    to_v = to_v * v.to(tl.float32) * 0.5
    base = (
        b * keys + at
    ) * heads + h  # a token's heads side by side, as models have them before and after
    tl.store(ToK + base * WIDTH + d[None, :], to_k, mask=(j < keys)[:, None] & (d < WIDTH)[None, :])
    tl.store(
        ToV + base * VALUES + dv[None, :], to_v, mask=(j < keys)[:, None] & (dv < VALUES)[None, :]
    )


@triton.jit
def _queries_step(
    start, q, s, lse, to_q, before, after, K, V, Seen, skn, svn, i, keys, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr, BN: tl.constexpr,
    SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr, PADDED: tl.constexpr,
    PRECISION: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    j, d, dv = start + tl.arange(0, BN), tl.arange(0, D), tl.arange(0, DV)
    key_seen, at = j < keys, j[:, None].to(tl.int64)
    if PADDED:
        key_seen = key_seen & (tl.load(Seen + j, mask=key_seen, other=0) != 0)
    k = tl.load(K + at * skn + d[None, :], mask=key_seen[:, None] & (d < WIDTH)[None, :], other=0.0)
    v = tl.load(
        V + at * svn + dv[None, :], mask=key_seen[:, None] & (dv < VALUES)[None, :], other=0.0
    )
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    products = tl.dot(s, tl.trans(v), input_precision=PRECISION)
    _, to_map, to_scores, quotient = _tile(
        scores, products, lse[:, None], i[:, None], j[None, :], key_seen[None, :], left, right, scale,
        SIZE, SIGNED, MASKED, BANDED,
    )  # fmt: skip
    to_q += tl.dot(quotient.to(k.dtype), k, input_precision=PRECISION)
    if MASKED and not SIGNED:
        before += tl.sum(to_map, 1)
        after += tl.sum(to_scores, 1)
    return to_q, before, after


@triton.jit
def queries_kernel(
    Q, K, V, S, L, Seen, Active, ToQ, Sums,
    sqb, sqh, sqn, skb, skh, skn, svb, svh, svn, ssb, ssh, ssn,
    heads, groups, queries, keys, left, right, scale,
    WIDTH: tl.constexpr, D: tl.constexpr, VALUES: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, SIZE: tl.constexpr, SIGNED: tl.constexpr, MASKED: tl.constexpr,
    PADDED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # The last queries of a causal model see most keys: they go first.
    block, bh = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    b, h = (bh // heads).to(tl.int64), (bh % heads).to(tl.int64)
    kh = h // groups
    low = block * BM
    i, d, dv = low + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, DV)
    row, at = (i < queries)[:, None], i[:, None].to(tl.int64)
    q = tl.load(
        Q + b * sqb + h * sqh + at * sqn + d[None, :], mask=row & (d < WIDTH)[None, :], other=0.0
    )
    s = tl.load(
        S + b * ssb + h * ssh + at * ssn + dv[None, :], mask=row & (dv < VALUES)[None, :], other=0.0
    )
    lse = tl.load(L + bh.to(tl.int64) * queries + i, mask=i < queries, other=0.0)
    K += b * skb + kh * skh
    V += b * svb + kh * svh
    if PADDED:
        Seen += b * keys
    to_q = tl.zeros([BM, D], tl.float32)
    before, after = tl.zeros([BM], tl.float32), tl.zeros([BM], tl.float32)
    first = tl.maximum(low - left, 0) // BN * BN
    last = tl.minimum(keys, low + BM + right)
    # A block of queries that carry nothing has nothing to share.
    idle = (low >= tl.load(Active + 1)) | (low + BM <= tl.load(Active))
    last = tl.where(idle, first, last)
    # Between these, every one of the queries sees every key.
    clear = tl.maximum((tl.maximum(low + BM - 1 - left, 0) + BN - 1) // BN * BN, first)
    until = tl.minimum(keys, low + right + 1) // BN * BN
    if PADDED:
        until = clear
    for start in range(first, tl.minimum(clear, last), BN):
        to_q, before, after = _queries_step(
            start, q, s, lse, to_q, before, after, K, V, Seen, skn, svn, i, keys, left, right, scale,
            WIDTH, D, VALUES, DV, BN, SIZE, SIGNED, MASKED, PADDED, PRECISION, True,
        )  # fmt: skip
    for start in range(clear, tl.minimum(until, last), BN):
        to_q, before, after = _queries_step(
            start, q, s, lse, to_q, before, after, K, V, Seen, skn, svn, i, keys, left, right, scale,
            WIDTH, D, VALUES, DV, BN, SIZE, SIGNED, MASKED, PADDED, PRECISION, False,
        )  # fmt: skip
    for start in range(tl.maximum(clear, until), last, BN):
        to_q, before, after = _queries_step(
            start, q, s, lse, to_q, before, after, K, V, Seen, skn, svn, i, keys, left, right, scale,
            WIDTH, D, VALUES, DV, BN, SIZE, SIGNED, MASKED, PADDED, PRECISION, True,
        )  # fmt: skip
    # Half of the output's goes to the map, and half of the map's to the queries.
    to_q = to_q * q.to(tl.float32) * 0.25
    base = (b * queries + at) * heads + h
    tl.store(ToQ + base * WIDTH + d[None, :], to_q, mask=row & (d < WIDTH)[None, :])
    if MASKED and not SIGNED:
        tl.store(Sums + bh.to(tl.int64) * queries + i, before * 0.5, mask=i < queries)
        tl.store(
            Sums + (tl.num_programs(1) + bh).to(tl.int64) * queries + i,
            after * 0.5,
            mask=i < queries,
        )
