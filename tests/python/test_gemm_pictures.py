"""docs/gemm.md's pictures are what scripts/gemm_pictures.py draws, and what it draws is so."""
import itertools
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import gemm_pictures as pictures  # noqa: E402 - from the folder above


@pytest.mark.parametrize("name", pictures.drawn())
def test_the_docs_have_what_is_drawn(name):
    assert (ROOT / "docs" / name).read_text() == pictures.drawn()[name]


@pytest.mark.parametrize("line_bytes", (64, 128))
def test_eight_lines_of_a_vector_touch_every_bank_once(line_bytes):
    for vector in range(line_bytes // 16):
        places = {(line * line_bytes + pictures.place(line, vector, line_bytes) * 16) % 128 for line in range(8)}
        assert places == set(range(0, 128, 16))


@pytest.mark.parametrize("alternate", (False, True))
def test_a_stage_is_copied_when_it_is_free_and_multiplied_when_it_is_full(alternate):
    stages = 4
    copies, products, ends = pictures.pipeline(4, 2, alternate, stages=stages)
    arrives = {(tile, step): begin + length for _, begin, length, tile, step in copies}
    done = {}
    for _, begin, length, tile, step in products:
        assert begin >= arrives[tile, step]
        done[tile, step] = max(done.get((tile, step), 0), begin + length)
    order = sorted(arrives)
    for at, key in enumerate(order[stages:]):
        assert arrives[key] - 1 >= done[order[at]]
    for row in (1, 2):                                          # a group does one thing at a time
        mine = sorted((begin, begin + length) for r, begin, length, *_ in [*products, *ends] if r == row)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(mine))


def test_groups_that_take_turns_hide_the_ends_of_their_tiles():
    def last(alternate):
        return max(begin + length for kind in pictures.pipeline(6, 2, alternate) for _, begin, length, *_ in kind)

    assert last(True) < last(False)
