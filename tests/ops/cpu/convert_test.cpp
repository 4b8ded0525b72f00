// Every number of 16 bits as f32, however its elements lie.
#include "ops/cpu/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "ops/core/strides.h"

namespace smelt::ops {
namespace {

template <class T> void every_number(DType type) {
  constexpr int64_t count = 1 << 16;
  for (const int64_t from_stride : {1, 3}) {
    std::vector<uint16_t> from(static_cast<size_t>(count * from_stride), 0x3c00);
    for (int64_t i = 0; i < count; ++i) from[static_cast<size_t>(i * from_stride)] = static_cast<uint16_t>(i);
    for (const int64_t to_stride : {1, 2}) {
      std::vector<float> to(static_cast<size_t>(count * to_stride) + 1, 7);
      copy_as_f32(to.data(), to_stride, from.data(), from_stride, count, type);
      for (int64_t i = 0; i < count; ++i) {
        const float want = static_cast<float>(std::bit_cast<T>(static_cast<uint16_t>(i))),
                    got = to[static_cast<size_t>(i * to_stride)];
        if (std::isnan(want))
          ASSERT_TRUE(std::isnan(got)) << i;
        else
          ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << i;
        if (to_stride == 2) {
          ASSERT_EQ(to[static_cast<size_t>(2 * i + 1)], 7) << i;
        }
      }
      EXPECT_EQ(to.back(), 7);
    }
  }
}

TEST(Convert, f16) { every_number<Half>(DType::f16); }
TEST(Convert, bf16) { every_number<BFloat>(DType::bf16); }

TEST(Convert, any_count_and_nothing_behind_it) {
  const std::vector<uint16_t> from(300, 0x3c00);
  for (int64_t count = 0; count < 300; ++count) {
    std::vector<float> to(301, 7);
    copy_as_f32(to.data(), 1, from.data(), 1, count, DType::f16);
    for (int64_t i = 0; i < 301; ++i) ASSERT_EQ(to[static_cast<size_t>(i)], i < count ? 1 : 7) << count;
  }
}

/// Of any extents, dense or a slice of more, in both layouts: the elements in the layout's order.
TEST(Convert, tensors_of_short_and_long_rows) {
  for (const Shape& shape : {Shape{}, {1}, {7, 3}, {5, 1, 3, 2}, {2, 3, 4, 5}, {3, 600, 2}, {2000, 3}, {0, 3}, {4, 1024, 2}}) {
    for (const Layout layout : {Layout::plain, Layout::nhwc}) {
      for (const int64_t more : {0, 2}) {
        if ((layout == Layout::nhwc && shape.size() != 4) || (more > 0 && shape.size() < 2)) continue;
        BoundTensor t;
        t.type = DType::f16, t.shape = shape, t.layout = layout;
        BoundTensor whole = t;
        if (more > 0) whole.shape[layout == Layout::nhwc ? 1 : shape.size() - 1] += more;
        t.strides = memory_strides(whole);
        std::vector<uint16_t> from(static_cast<size_t>(elements(whole.shape)) + 1);
        for (size_t i = 0; i < from.size(); ++i) from[i] = std::bit_cast<uint16_t>(Half(static_cast<float>(i % 2000)));
        std::vector<float> to(static_cast<size_t>(elements(shape)) + 1, -1);
        ConvertToF32(t, 2).run(to.data(), from.data());
        // Where each element lies, in the layout's order.
        Shape extents = shape, steps = t.strides;
        if (layout == Layout::nhwc) {
          for (Shape* s : {&extents, &steps}) std::rotate(s->begin() + 1, s->begin() + 2, s->end());
        }
        for (int64_t i = 0; i < elements(shape); ++i) {
          int64_t at = 0, rest = i;
          for (size_t a = extents.size(); a-- > 0; rest /= extents[a]) at += rest % extents[a] * steps[a];
          ASSERT_EQ(to[static_cast<size_t>(i)], static_cast<float>(at % 2000)) << to_string(shape) << " " << more << " " << i;
        }
        EXPECT_EQ(to.back(), -1);
      }
    }
  }
}

}  // namespace
}  // namespace smelt::ops
