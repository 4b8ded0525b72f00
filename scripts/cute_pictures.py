#!/usr/bin/env python3
"""Draws docs/cute-layouts.svg and docs/cute-shared.svg, the pictures of docs/cute.md.

usage: scripts/cute_pictures.py [FOLDER]     (docs where it is not given)

A layout is a pair of a shape and a stride, numbers or tuples, which may be nested. What is drawn is what the functions below make
of the layouts of src/kernels/conv/cute_tile.cuh and of the left operand of src/kernels/conv/cute.cuh.
"""
from pictures import HUES, cell, label, picture, write


def size(shape):
    product = 1
    for s in shape if isinstance(shape, tuple) else (shape,):
        product *= size(s) if isinstance(s, tuple) else s
    return product


def offset(coordinate, shape, stride):
    """Where a layout has a coordinate: a number for a mode counts through the mode's parts, the first of them fastest."""
    if not isinstance(shape, tuple):
        return coordinate * stride
    if not isinstance(coordinate, tuple):
        parts = []
        for s in shape:
            parts.append(coordinate % size(s))
            coordinate //= size(s)
        coordinate = tuple(parts)
    return sum(offset(c, s, d) for c, s, d in zip(coordinate, shape, stride, strict=True))


def swizzled(at, bits, base, shift):
    """CuTe's Swizzle<bits, base, shift>: so many bits from base + shift on change those from `base` on, by exclusive or."""
    return at ^ (at >> shift & ((1 << bits) - 1) << base)


def image(width, channels, out, taps):
    """The left operand of a convolution of rows of `width` pixels, ((ow, oh), (channel, kw, kh)): its shape and stride."""
    row = width * channels
    return ((out[1], out[0]), (channels, taps[1], taps[0])), ((channels, row), (1, channels, row))


def text_of(layout):
    return str(layout).replace(" ", "")


def draw_layout(x, y, title, shape, stride, colour):
    """A layout of two modes as a table of its offsets, a row of it for each coordinate of the first mode."""
    parts = [label(x, y, title, "bold"), label(x, y + 16, f"{text_of(shape)} : {text_of(stride)}")]
    for r in range(size(shape[0])):
        for c in range(size(shape[1])):
            at = offset((r, c), shape, stride)
            parts.append(cell(x + c * 30, y + 24 + r * 20, 30, at, f"hsl({HUES[colour(at) % 8]}, 70%, 85%)"))
    return parts


def draw_layouts():
    parts = []
    blocks, threads = (((2, 2), (4, 2)), ((4, 16), (1, 8))), (((2, 2), (4, 2)), ((1, 2), (0, 4)))
    operand = image(4, 2, (2, 3), (2, 2))
    for x, y, title, (shape, stride), colour in (
            (10, 20, "Rows side by side", ((4, 8), (8, 1)), lambda at: at // 8),
            (290, 20, "Columns side by side", ((4, 8), (1, 4)), lambda at: at // 4),
            (10, 150, "Blocks of 2 x 4: each mode is two", blocks, lambda at: at // 8),
            (290, 150, "Threads, two a row: four columns each", threads, lambda at: at),
            (10, 280, "3 x 4 pixels of 2 channels under 2 x 2 taps: ((ow, oh), (channel, kw, kh))", operand, lambda at: at // 2)):
        parts += draw_layout(x, y, title, shape, stride, colour)
    parts.append(label(10, 444, "In the last a colour is a pixel, there under each tap that reaches it; nothing is copied."))
    return picture(560, 452, parts)


STAGE = ((8, 64), (64, 1), (3, 3, 3))                           # eight rows of a stage, of 64 f16 or bf16
SUMS = ((8, 64), (64, 1), (3, 2, 3))                            # eight rows of sums, of 64 floats


def place(layout, row, column):
    shape, stride, swizzle = layout
    return swizzled(offset((row, column), shape, stride), *swizzle)


def sums_written(group):
    """(row, column) of the first of the two floats that each of 16 lanes writes at a time."""
    return [(group * 4 + lane // 4, lane % 4 * 2) for lane in range(16)]


def sums_read(row, half):
    """(row, column) of the first of the four floats that each of 8 lanes reads at a time, of its eight neighbouring columns."""
    return [(row, lane * 8 + half * 4) for lane in range(8)]


def draw_shared():
    parts, y = [], 24
    title = "A stage: eight rows of 64 elements in vectors of 16 bytes, row.vector; 32 banks from left to right"
    parts.append(label(10, y, title, "bold"))
    for row in range(8):
        for vector in range(8):
            at = place(STAGE, row, vector * 8)
            parts.append(cell(10 + at % 64 * 8, y + 10 + at // 64 * 20, 64, f"{row}.{vector}", f"hsl({HUES[vector]}, 70%, 85%)"))
    y += 200
    parts.append(label(10, y, "ldmatrix reads the eight vectors of one colour at a time."))
    y += 30
    parts.append(label(10, y, "Sums: rows of 64 floats, two lines of 128 bytes each; row:columns of every vector", "bold"))
    written, read = set(sums_written(0)), set(sums_read(5, 1))
    for row in range(8):
        for vector in range(16):
            at = place(SUMS, row, vector * 4)
            of_write = any(r == row and c // 4 == vector for r, c in written)
            fill = "hsl(0, 70%, 85%)" if of_write else "hsl(225, 70%, 85%)" if (row, vector * 4) in read else "#fff"
            parts.append(cell(10 + at % 32 * 16, y + 10 + at // 32 * 20, 64, f"{row}:{vector * 4}", fill))
    y += 350
    parts.append(label(10, y, "Red: what 16 lanes write at a time, two floats each. Blue: what 8 lanes read, four floats each."))
    return picture(560, y + 14, parts)


def drawn():
    return {"cute-layouts.svg": draw_layouts(), "cute-shared.svg": draw_shared()}


if __name__ == "__main__":
    write(drawn())
