"""A step of decoding for 6 requests, whose keys and values lie in pages of 16 tokens all over the
cache, f16: 4 heads of keys, each for 4 heads of queries, of dimension 128. Lengths follow a power
of 2, from 16 to 64 tokens, evenly in the logarithm; queries and keys are normal(0, 1), values
normal(0, 0.5), and pages that belong to no request hold zeros.
"""

import numpy as np
import triton
import triton.language as tl

TITLE = "paged attention of LLM decoding, Triton, f16, grouped queries"
REQUESTS, KEY_HEADS, TOGETHER, DIMENSION, PAGE, LONGEST = 6, 4, 4, 128, 16, 64
GRID = (REQUESTS, KEY_HEADS, 1)
OPTIONS = {"num_warps": 2, "num_stages": 2}
TOLERANCE = 2e-3  # weights are rounded to f16 before they meet the values


@triton.jit
def paged_attention(
    query,
    key_cache,
    value_cache,
    table,
    length,
    output,
    scale,
    heads,
    table_stride,
    page_stride,
    token_stride,
    TOGETHER: tl.constexpr,
    ROWS: tl.constexpr,
    DIMENSION: tl.constexpr,
    PAGE: tl.constexpr,
    PAGES: tl.constexpr,
):
    request = tl.program_id(0)
    head = tl.program_id(1)
    tokens = tl.load(length + request)
    row = tl.arange(0, ROWS)
    depth = tl.arange(0, DIMENSION)
    step = tl.arange(0, PAGE * PAGES)
    real = (row < TOGETHER)[:, None]
    mine = ((request * heads + head * TOGETHER + row) * DIMENSION)[:, None] + depth[None, :]
    q = tl.load(query + mine, mask=real, other=0.0)
    largest = tl.full((ROWS,), -1e30, tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, DIMENSION), tl.float32)
    for start in range(0, tokens, PAGE * PAGES):
        token = start + step
        inside = token < tokens
        page = tl.load(table + request * table_stride + token // PAGE, mask=inside, other=0)
        at = page * page_stride + token % PAGE * token_stride + head * DIMENSION
        k = tl.load(key_cache + at[None, :] + depth[:, None], mask=inside[None, :], other=0.0)
        score = tl.where(inside[None, :], tl.dot(q, k) * (scale * 1.44269504), -1e30)
        new_largest = tl.maximum(largest, tl.max(score, axis=1))
        p = tl.exp2(score - new_largest[:, None])
        rescale = tl.exp2(largest - new_largest)
        weight = weight * rescale + tl.sum(p, axis=1)
        v = tl.load(value_cache + at[:, None] + depth[None, :], mask=inside[:, None], other=0.0)
        total = tl.dot(p.to(tl.float16), v, total * rescale[:, None])
        largest = new_largest
    tl.store(output + mine, (total / weight[:, None]).to(tl.float16), mask=real)


def arguments(random: np.random.Generator) -> dict:
    pages = REQUESTS * LONGEST // PAGE
    length = np.rint(2 ** random.uniform(4, 6, REQUESTS)).astype(np.int32)
    table = random.permutation(pages).astype(np.int32).reshape(REQUESTS, -1)
    shape = (pages, PAGE, KEY_HEADS, DIMENSION)
    key, value = np.zeros(shape, np.float16), np.zeros(shape, np.float16)
    for own, tokens in zip(table, length, strict=True):
        used = own[: -(-tokens // PAGE)]
        key[used] = random.standard_normal((len(used), *shape[1:]))
        value[used] = random.normal(0, 0.5, (len(used), *shape[1:]))
    query = random.standard_normal((REQUESTS, KEY_HEADS * TOGETHER, DIMENSION)).astype(np.float16)
    return {
        "query": query,
        "key_cache": key,
        "value_cache": value,
        "table": table,
        "length": length,
        "output": np.zeros_like(query),
        "scale": DIMENSION**-0.5,
        "heads": KEY_HEADS * TOGETHER,
        "table_stride": table.shape[1],
        "page_stride": PAGE * KEY_HEADS * DIMENSION,
        "token_stride": KEY_HEADS * DIMENSION,
        "TOGETHER": TOGETHER,
        "ROWS": 16,  # as matrix cores want them
        "DIMENSION": DIMENSION,
        "PAGE": PAGE,
        "PAGES": 2,  # at once
    }


def expected(query, key_cache, value_cache, table, length, output, scale, **rest) -> dict:
    result = np.zeros(output.shape)
    for request, tokens in enumerate(length):

        def read(cache: np.ndarray, request: int = request, tokens: int = tokens) -> np.ndarray:
            rows = cache[table[request]].reshape(-1, KEY_HEADS, DIMENSION)[:tokens]
            return np.repeat(rows.astype(float), TOGETHER, axis=1)

        score = np.einsum("hd,thd->ht", query[request].astype(float), read(key_cache)) * scale
        weight = np.exp(score - score.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        result[request] = np.einsum("ht,thd->hd", weight, read(value_cache))
    return {"output": result}
