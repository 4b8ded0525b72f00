#include "ops/cpu/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace smelt::ops {
namespace {

/// Strides of a dense tensor whose axes lie in memory in this order, the first outermost, its rows `gap` elements further apart.
Shape strides_of(const Shape& extents, const std::vector<size_t>& order, int64_t gap) {
  Shape s(extents.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    s[order[i]] = step;
    step = step * extents[order[i]] + (i + 1 == order.size() ? gap : 0);
  }
  return s;
}

int64_t size_of(const Shape& extents, const Shape& strides) {
  int64_t last = 1;
  for (size_t a = 0; a < extents.size(); ++a) last += (extents[a] - 1) * strides[a];
  return last;
}

template <class T> void expect_copied(const Shape& extents, const Shape& from, const Shape& to, int threads) {
  std::vector<T> source(static_cast<size_t>(size_of(extents, from))), result(static_cast<size_t>(size_of(extents, to)), T{7});
  std::mt19937 random(1);
  for (T& v : source) v = static_cast<T>(random());
  std::vector<T> expected = result;
  Shape at(extents.size(), 0);
  for (bool more = true; more;) {
    const auto place = [&](const Shape& s) {
      return static_cast<size_t>(std::inner_product(at.begin(), at.end(), s.begin(), int64_t{0}));
    };
    expected[place(to)] = source[place(from)];
    more = false;
    for (size_t a = extents.size(); a-- > 0 && !more; at[a] = more ? at[a] : 0) more = ++at[a] < extents[a];
  }
  StridedCopy(extents, from, to, sizeof(T), threads).run(result.data(), source.data());
  EXPECT_EQ(result, expected);
}

TEST(StridedCopy, moves_blocks_and_what_is_left_over) {
  const Shape shapes[] = {{17, 40}, {16, 16}, {2, 15, 33}, {3, 58, 28, 28}, {2, 5, 7, 9}, {31, 1, 47}, {100, 3}, {1, 20, 2, 32}};
  for (const Shape& extents : shapes) {
    std::vector<size_t> order(extents.size());
    std::iota(order.begin(), order.end(), 0);
    const std::vector<size_t> plain = order;
    do {
      for (int64_t gap : {0, 3}) {
        SCOPED_TRACE(testing::Message() << to_string(extents) << " outermost axis " << order[0] << ", gap " << gap);
        const Shape from = strides_of(extents, plain, 0), to = strides_of(extents, order, gap);
        expect_copied<uint8_t>(extents, from, to, 2);
        expect_copied<uint16_t>(extents, from, to, 1);
        expect_copied<uint32_t>(extents, to, from, 2);
        expect_copied<uint64_t>(extents, from, to, 3);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

/// Windows whose source repeats, is reversed or skips elements, in lines of every length that is copied another way.
TEST(StridedCopy, repeats_reverses_and_skips) {
  const auto every_width = [](const Shape& extents, const Shape& from, const Shape& to) {
    SCOPED_TRACE(testing::Message() << to_string(extents) << " from " << to_string(from));
    expect_copied<uint8_t>(extents, from, to, 2);
    expect_copied<uint16_t>(extents, from, to, 3);
    expect_copied<uint32_t>(extents, from, to, 1);
    expect_copied<uint64_t>(extents, from, to, 2);
  };
  for (const int64_t n : {1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 33, 127, 300, 5001}) {
    const Shape extents{3, 5, n}, dense = strides_of(extents, {0, 1, 2}, 0), apart = strides_of(extents, {0, 1, 2}, 3);
    for (const Shape& to : {dense, apart}) {
      every_width(extents, {5, 1, 0}, to);           // an element fills a line
      every_width(extents, {0, 0, 1}, to);           // one line everywhere
      every_width(extents, {n, 0, 1}, to);           // each line again and again
      every_width(extents, {0, n, 1}, to);           // a block again and again
      every_width(extents, {0, 0, 0}, to);           // one element everywhere
      every_width(extents, {10 * n, 2 * n, 2}, to);  // every other element
      every_width(extents, {15 * n, 3 * n, 3}, to);
    }
  }
  for (const int64_t n : {2, 3, 8, 20}) {  // small blocks, often
    every_width({700, n, 2}, {0, 1, 0}, {2 * n, 2, 1});
    every_width({3, 700, n, 2}, {n, 0, 1, 0}, {1400 * n, 2 * n, 2, 1});
    every_width({700, 3, n}, {0, 1, 3}, {3 * n, n, 1});
  }
  for (const Shape& empty : {Shape{0}, Shape{4, 0}, Shape{0, 4}, Shape{2, 0, 3}}) {
    int untouched = 7;
    StridedCopy(empty, Shape(empty.size(), 1), Shape(empty.size(), 1), 4, 2).run(&untouched, &untouched);
    EXPECT_EQ(untouched, 7);
  }
  every_width({70'000}, {1}, {1});  // one line for all threads
  every_width({200'000}, {0}, {1});
}

TEST(StridedCopy, copies_short_lines_that_repeat_skip_and_lie_apart) {
  std::mt19937 random(21);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  for (int i = 0; i < 1000; ++i) {
    Shape extents, from;
    int64_t step = 1 + below(2);
    for (int64_t a = 0, rank = 1 + below(5); a < rank; ++a) extents.push_back(below(9) == 0 ? 1 + below(70) : 1 + below(6));
    if (below(8) == 0) extents[0] = 300;  // more lines than are kept in a list
    if (elements(extents) > 20000) continue;
    std::vector<size_t> order(extents.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const Shape to = strides_of(extents, order, below(4) == 0 ? below(3) : 0);
    if (below(4) == 0) std::shuffle(order.begin(), order.end(), random);
    from.resize(extents.size());
    for (size_t a = order.size(); a-- > 0;) {  // half of the axes repeat
      from[order[a]] = below(2) == 0 ? 0 : step;
      if (from[order[a]] != 0) step *= extents[order[a]];
    }
    SCOPED_TRACE("case " + std::to_string(i));
    switch (below(4)) {
      case 0: expect_copied<uint8_t>(extents, from, to, 1); break;
      case 1: expect_copied<uint16_t>(extents, from, to, i % 8 == 0 ? 3 : 1); break;
      case 2: expect_copied<uint32_t>(extents, from, to, i % 8 == 0 ? 2 : 1); break;
      default: expect_copied<uint64_t>(extents, from, to, 1); break;
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(StridedCopy, leaves_memory_alone_where_there_is_nothing_to_repeat) {
  uint32_t untouched[4] = {7, 7, 7, 7};
  const uint32_t source[12] = {};
  StridedCopy({0, 2, 12}, {0, 0, 1}, {24, 12, 1}, 4, 1).run(untouched, source);
  EXPECT_EQ(untouched[0], 7u);
}

TEST(StridedCopy, reverses_lines) {
  for (const int64_t n : {3, 16, 1000}) {
    std::vector<uint16_t> source(static_cast<size_t>(4 * n)), result(source.size());
    std::iota(source.begin(), source.end(), uint16_t{1});
    StridedCopy({4, n}, {n, -1}, {n, 1}, 2, 2).run(result.data(), source.data() + n - 1);
    for (int64_t row = 0; row < 4; ++row) std::reverse(source.begin() + row * n, source.begin() + (row + 1) * n);
    EXPECT_EQ(result, source);
  }
}

/// Few rows or few columns, up to more than a block, and enough of the others for several threads.
TEST(StridedCopy, puts_lines_together_and_takes_them_apart) {
  for (int64_t few = 1; few <= 18; ++few) {
    for (const int64_t many : {1, 5, 16, 33, 1500, 9001}) {
      for (const int64_t gap : {0, 2}) {
        SCOPED_TRACE(testing::Message() << few << " and " << many << ", gap " << gap);
        for (const Shape& extents : {Shape{2, few, many}, Shape{1, many, few}}) {
          const Shape from = strides_of(extents, {0, 1, 2}, gap), to = strides_of(extents, {0, 2, 1}, gap);
          expect_copied<uint8_t>(extents, from, to, 3);
          expect_copied<uint16_t>(extents, from, to, 2);
          expect_copied<uint32_t>(extents, from, to, 3);
          expect_copied<uint64_t>(extents, from, to, 2);
        }
      }
    }
  }
}

TEST(StridedCopy, transposes_bands_of_several_blocks) {
  for (const Shape& extents : {Shape{520, 384}, Shape{131, 530}, Shape{9, 130, 70}}) {
    std::vector<size_t> order(extents.size());
    std::iota(order.begin(), order.end(), 0);
    const Shape from = strides_of(extents, order, 0);
    std::swap(order[order.size() - 1], order[order.size() - 2]);
    const Shape to = strides_of(extents, order, 0);
    expect_copied<uint8_t>(extents, from, to, 2);
    expect_copied<uint16_t>(extents, from, to, 1);
    expect_copied<uint32_t>(extents, from, to, 2);
    expect_copied<uint64_t>(extents, from, to, 2);
  }
}

}  // namespace
}  // namespace smelt::ops
