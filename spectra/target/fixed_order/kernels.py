"""The Triton kernels of `fixed_order.by_position`. To import it takes Triton; `TRITON_INTERPRET=1` runs them on a CPU.

A program has one row and the query heads that share one key head, so nothing that it computes depends on what other
rows there are. Numbers that differ between steps are not specialised on: one compiled kernel serves them all.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit(
    do_not_specialize=["window", "query_head", "query_row", "own_row", "parts"],
    do_not_specialize_on_alignment=["query", "length", "live", "positions", "own"],
)
def attend_part(
    query,  # [heads, rows, dim]
    key,  # [kv_heads, slots, dim]
    value,  # [kv_heads, slots, width]
    length,  # [1]: committed tokens
    live,  # [1]: rows that count
    positions,  # [rows]
    own,  # [rows, depth]: slot of each ancestor in the step, counted from the first behind the context
    mixed,  # out [rows, parts, heads, width]: weighted sums of values
    tops,  # out [rows, parts, heads]: highest scores
    totals,  # out [rows, parts, heads]: sums of weights
    scaling,
    window,
    query_head,
    query_row,
    key_head,
    key_slot,
    value_head,
    value_slot,
    own_row,
    parts,
    group_size: tl.constexpr,
    heads_full: tl.constexpr,  # group_size filled up for a matrix product
    dim: tl.constexpr,
    dim_full: tl.constexpr,
    width: tl.constexpr,
    width_full: tl.constexpr,
    block_size: tl.constexpr,  # positions of a block
    part_size: tl.constexpr,  # blocks of a part
    windowed: tl.constexpr,
    wide: tl.constexpr,  # products in fp32
) -> None:
    """One row's context from block `part_size * part` on, block after block: a softmax not yet divided."""
    part, row, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if row < tl.load(live):
        position = tl.load(positions + row).to(tl.int32)
        begin = tl.load(length).to(tl.int32)
        lowest = 0
        if windowed:
            lowest = tl.maximum(position - window + 1, 0)
        first = tl.maximum(part * part_size, lowest // block_size)
        end = tl.minimum(part * part_size + part_size, position // block_size + 1)
        if first < end:
            group, dims, widths = tl.arange(0, heads_full), tl.arange(0, dim_full), tl.arange(0, width_full)
            heads = head * group_size + group
            asked = tl.load(
                query + heads[:, None].to(tl.int64) * query_head + row * query_row + dims[None, :],
                mask=(group < group_size)[:, None] & (dims < dim)[None, :],
                other=0.0,
            )
            if wide:
                asked = asked.to(tl.float32)
            top = tl.full([heads_full], float("-inf"), tl.float32)
            total = tl.zeros([heads_full], tl.float32)
            sums = tl.zeros([heads_full, width_full], tl.float32)
            for block in range(first, end):
                at = block * block_size + tl.arange(0, block_size)
                seen = at <= position
                if windowed:
                    seen = seen & (at >= lowest)
                depth = at - begin
                below = tl.load(own + row * own_row + depth, mask=seen & (depth >= 0), other=0)
                slot = tl.where(depth < 0, at, begin + below.to(tl.int32)).to(tl.int64)
                keys = tl.load(
                    key + head.to(tl.int64) * key_head + slot[None, :] * key_slot + dims[:, None],
                    mask=seen[None, :] & (dims < dim)[:, None],
                    other=0.0,
                )
                values = tl.load(
                    value + head.to(tl.int64) * value_head + slot[:, None] * value_slot + widths[None, :],
                    mask=seen[:, None] & (widths < width)[None, :],
                    other=0.0,
                )
                if wide:
                    keys, values = keys.to(tl.float32), values.to(tl.float32)
                score = tl.dot(asked, keys, input_precision="ieee") * scaling
                score = tl.where(seen[None, :], score, float("-inf"))
                higher = tl.maximum(top, tl.max(score, 1))
                weight = tl.exp(score - higher[:, None])
                kept = tl.exp(top - higher)
                total = total * kept + tl.sum(weight, 1)
                sums = sums * kept[:, None] + tl.dot(weight.to(values.dtype), values, input_precision="ieee")
                top = higher
            place = (row * parts + part) * (tl.num_programs(2) * group_size) + heads
            here = group < group_size
            tl.store(tops + place, top, mask=here)
            tl.store(totals + place, total, mask=here)
            where = place[:, None].to(tl.int64) * width + widths[None, :]
            tl.store(mixed + where, sums, mask=here[:, None] & (widths < width)[None, :])


@triton.jit(do_not_specialize=["window", "parts"], do_not_specialize_on_alignment=["live", "positions"])
def merge_parts(
    mixed,
    tops,
    totals,
    live,
    positions,
    out,  # [rows, heads, width]
    window,
    parts,
    width: tl.constexpr,
    width_full: tl.constexpr,
    span: tl.constexpr,  # positions of a part
    windowed: tl.constexpr,
) -> None:
    """One row and head: its parts in the order of positions. Rows that do not count are zero."""
    head, row, heads = tl.program_id(0), tl.program_id(1), tl.num_programs(0)
    widths = tl.arange(0, width_full)
    inside = widths < width
    sums = tl.zeros([width_full], tl.float32)
    total = 1.0
    if row < tl.load(live):
        position = tl.load(positions + row).to(tl.int32)
        first = 0
        if windowed:
            first = tl.maximum(position - window + 1, 0) // span
        top = float("-inf")
        total = 0.0
        for part in range(first, position // span + 1):
            place = (row * parts + part) * heads + head
            peak = tl.load(tops + place)
            higher = tl.maximum(top, peak)
            kept, taken = tl.exp(top - higher), tl.exp(peak - higher)
            total = total * kept + tl.load(totals + place) * taken
            values = tl.load(mixed + place.to(tl.int64) * width + widths, mask=inside, other=0.0)
            sums = sums * kept + values * taken
            top = higher
    result = (sums / total).to(out.dtype.element_ty)
    tl.store(out + (row * heads + head).to(tl.int64) * width + widths, result, mask=inside)
