#!/usr/bin/env python3
"""Draws docs/gemm-pipeline.svg and docs/gemm-swizzle.svg, the pictures of docs/gemm.md.

usage: scripts/gemm_pictures.py [FOLDER]     (docs where it is not given)

The pipeline is worked out from the kernel's rules (src/kernels/gemm/hopper.cuh): a copy takes a stage once it is empty, a group
multiplies a stage once it is full and frees it a step later, and may begin its tile when the group before has issued all of its.
The swizzles are functions of an address's bits, as wgmma and tensor maps have them.
"""
from pictures import HUES, cell, label, picture, write


def pipeline(tiles, groups, alternate, stages=4, steps=4, copy=1.0, product=1.0, end=3.0):
    """(copies, products, ends): (row, begin, length, tile, step) of each. Times are in those of a step's products."""
    copies, products, ends = [], [], []
    free = [0.0] * stages                                       # when each stage is empty
    copier = 0.0
    idle, issued = [0.0] * groups, 0.0                          # when each group has ended its tile; the turn to multiply
    for tile in range(tiles):
        full = []
        mine = [tile % groups] if alternate else range(groups)
        begin = max(idle[g] for g in mine)
        now = max(begin, issued) if alternate else begin
        for step in range(steps):
            stage = (tile * steps + step) % stages
            start = max(copier, free[stage])
            copier = start + copy
            copies.append((0, start, copy, tile, step))
            full.append(copier)
            now = max(now, full[-1])
            for g in mine:
                products.append((1 + g, now, product, tile, step))
            now += product
            free[stage] = now
        issued = now
        for g in mine:
            ends.append((1 + g, now, end, tile, -1))
            idle[g] = now + end
    return copies, products, ends


def draw_pipeline():
    parts, y, unit, left = [], 24, 22, 76
    widest = 0
    ways = (("Two groups share a tile (g2)", 3, False),
            ("Two groups take turns (g2a): one multiplies while the other ends its tile", 3, True))
    for title, tiles, alternate in ways:
        parts.append(label(10, y, title, "bold"))
        for row, name in enumerate(("copies", "group 0", "group 1")):
            parts.append(label(10, y + 24 + row * 26, name))
        for kind in pipeline(tiles, 2, alternate):
            for row, begin, length, tile, step in kind:
                fill = f"hsl({HUES[tile * 2]}, 70%, {'70%' if step < 0 else '85%'})"
                text = "end" if step < 0 else f"{tile}.{step}"
                parts.append(cell(left + begin * unit, y + 10 + row * 26, length * unit, text, fill))
                widest = max(widest, left + (begin + length) * unit)
        y += 118
    parts.append(label(10, y, "Tile.step of K; four stages: a copy begins when the products of four steps before are done."))
    return picture(f"{max(widest + 10, 560):g}", y + 12, parts)


def place(line, vector, line_bytes):
    """Which 16-byte vector of its line holds `vector`: bits 4 and up of the address, with bits 7 and up."""
    vectors = line_bytes // 16
    return vector ^ (line * line_bytes // 128 % vectors)


def draw_swizzle():
    parts, y = [], 24
    for line_bytes, lines, title in ((128, 8, "Lines of 128 bytes: line.vector, 32 banks from left to right"),
                                     (64, 8, "Lines of 64 bytes, two side by side in the banks (tiles of 32 columns)")):
        parts.append(label(10, y, title, "bold"))
        vectors = line_bytes // 16
        for line in range(lines):
            for vector in range(vectors):
                address = line * line_bytes + place(line, vector, line_bytes) * 16
                parts.append(cell(10 + address % 128 * 4, y + 10 + address // 128 * 20, 64, f"{line}.{vector}",
                                  f"hsl({HUES[vector * 8 // vectors]}, 70%, 85%)"))
        y += 10 + lines * line_bytes // 128 * 20 + 30
    parts.append(label(10, y - 8, "Vectors of one colour are read or written at a time: no two of them share a bank."))
    return picture(560, y, parts)


def drawn():
    return {"gemm-pipeline.svg": draw_pipeline(), "gemm-swizzle.svg": draw_swizzle()}


if __name__ == "__main__":
    write(drawn())
