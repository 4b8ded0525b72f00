"""docs/cute.md's pictures are what scripts/cute_pictures.py draws, and what it draws is so."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import cute_pictures as pictures  # noqa: E402 - from the folder above


@pytest.mark.parametrize("name", pictures.drawn())
def test_the_docs_have_what_is_drawn(name):
    assert (ROOT / "docs" / name).read_text() == pictures.drawn()[name]


def banks(places, floats):
    """The banks of accesses of so many floats each, with repetitions."""
    return sorted((place + i) % 32 for place in places for i in range(floats))


def test_a_number_for_a_mode_counts_through_its_parts_the_first_fastest():
    shape, stride = ((2, 2), (4, 2)), ((4, 16), (1, 8))
    assert [pictures.offset((r, 0), shape, stride) for r in range(4)] == [0, 4, 16, 20]
    assert pictures.offset(((1, 1), (3, 1)), shape, stride) == 4 + 16 + 3 + 8
    assert sorted(pictures.offset(i, shape, stride) for i in range(32)) == list(range(32))


def test_the_left_operand_of_a_convolution_is_a_layout():
    shape, stride = pictures.image(4, 2, (2, 3), (2, 2))
    for oh in range(2):
        for ow in range(3):
            for kh in range(2):
                for kw in range(2):
                    for channel in range(2):
                        at = pictures.offset(((ow, oh), (channel, kw, kh)), shape, stride)
                        assert at == ((oh + kh) * 4 + ow + kw) * 2 + channel


def test_eight_rows_of_a_vector_of_a_stage_meet_every_bank_once():
    for vector in range(8):
        halves = [pictures.place(pictures.STAGE, row, vector * 8) for row in range(8)]
        assert banks([at // 2 for at in halves], 4) == list(range(32))


def test_sums_are_written_and_read_without_bank_conflicts():
    for group in range(2):
        assert banks([pictures.place(pictures.SUMS, r, c) for r, c in pictures.sums_written(group)], 2) == list(range(32))
    for row in range(8):
        for half in range(2):
            assert banks([pictures.place(pictures.SUMS, r, c) for r, c in pictures.sums_read(row, half)], 4) == list(range(32))


@pytest.mark.parametrize("layout", (pictures.STAGE, pictures.SUMS))
def test_a_swizzled_layout_has_every_place_once(layout):
    assert sorted(pictures.place(layout, r, c) for r in range(8) for c in range(64)) == list(range(512))
