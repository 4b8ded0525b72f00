#include "smelt/tensor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/memory.h"
#include "smelt/error.h"

namespace smelt {
namespace {

using testing::ElementsAre;

TEST(Shape, counts_elements) {
  EXPECT_EQ(elements({}), 1);
  EXPECT_EQ(elements({2, 3, 4}), 24);
  EXPECT_EQ(elements({INT64_MAX, 0, INT64_MAX}), 0);
}

TEST(Shape, refuses_negative_and_overflowing_extents) {
  EXPECT_THROW(elements({2, -1}), Error);
  EXPECT_THROW(elements({INT64_MAX, 2}), Error);
  EXPECT_THROW(strides({2, INT64_MAX, 2}), Error);
}

TEST(Tensor, more_than_the_machine_has_is_refused_before_it_is_promised) {
  const int64_t available = available_memory();
  ASSERT_GT(available, 0);
  try {
    Tensor::empty(DType::u8, {available / 2, 3});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("a tensor u8["));
    EXPECT_THAT(e.what(), testing::HasSubstr("the machine has"));
    EXPECT_NE(e.next(), "");
  }
  EXPECT_THROW(Tensor::empty(DType::string, {INT64_MAX}), Error);
  EXPECT_THROW(Tensor::empty(DType::string, {available / 8}), Error);
}

TEST(Shape, strides_are_row_major) { EXPECT_THAT(strides({2, 3, 4}), ElementsAre(12, 4, 1)); }

TEST(Shape, prints) {
  EXPECT_EQ(to_string(Shape{1, 3, 224}), "[1, 3, 224]");
  EXPECT_EQ(to_text({1, 3, 224}), "1x3x224");
  EXPECT_EQ(to_text({}), "scalar");
  EXPECT_EQ(to_string(SymShape{Dim("batch"), 3, Dim()}), "[batch, 3, ?]");
}

TEST(Shape, broadcasts_as_numpy_does) {
  EXPECT_EQ(broadcast({2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast({}, {3}), (Shape{3}));
  EXPECT_EQ(broadcast({0}, {1}), (Shape{0}));
  EXPECT_FALSE(broadcast({2}, {3}));
}

TEST(Shape, normalizes_axes) {
  EXPECT_EQ(normalize_axis(-1, 4), 3);
  EXPECT_THROW(normalize_axis(4, 4), Error);
  EXPECT_THROW(normalize_axis(0, 0), Error);
}

TEST(Shape, symbolic_shapes_become_numbers_only_when_all_are_known) {
  EXPECT_EQ(to_shape({2, 3}), (Shape{2, 3}));
  EXPECT_FALSE(is_static({2, Dim("n")}));
  EXPECT_THROW(to_shape({2, Dim("n")}), Error);
}

TEST(Tensor, memory_is_aligned_and_zeros_are_zero) {
  const Tensor t = Tensor::zeros(DType::f32, {3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0u);
  for (float v : t.span<float>()) EXPECT_EQ(v, 0);
}

TEST(Tensor, default_is_no_tensor_and_empty_is_one) {
  EXPECT_FALSE(Tensor().valid());
  const Tensor t = Tensor::empty(DType::i64, {0, 4});
  EXPECT_TRUE(t.valid());
  EXPECT_EQ(t.size(), 0);
}

TEST(Tensor, refuses_to_be_read_as_another_type) {
  Tensor t = Tensor::of<float>({2}, {1, 2});
  EXPECT_THROW(t.data<int32_t>(), Error);
  EXPECT_THROW(t.strings(), Error);
}

TEST(Tensor, refuses_sizes_that_cannot_be) {
  EXPECT_THROW(Tensor::empty(DType::f32, {INT64_MAX / 2}), Error);
  EXPECT_THROW(Tensor::empty(DType::f32, {int64_t{1} << 58}), Error);
  EXPECT_THROW(Tensor::empty(DType::f32, {-1}), Error);
  EXPECT_THROW(Tensor::of_strings({2}, {"one"}), Error);
}

TEST(Tensor, reshaping_shares_bytes_and_cloning_does_not) {
  Tensor t = Tensor::of<int32_t>({2, 2}, {1, 2, 3, 4});
  Tensor view = t.reshaped({4}), copy = t.clone();
  t.data<int32_t>()[0] = 9;
  EXPECT_EQ(view.data<int32_t>()[0], 9);
  EXPECT_EQ(copy.data<int32_t>()[0], 1);
  EXPECT_THROW(t.reshaped({3}), Error);
}

TEST(Tensor, borrowed_memory_is_kept_alive) {
  auto owner = std::make_shared<std::vector<float>>(4, 1.0f);
  std::weak_ptr<std::vector<float>> watch = owner;
  {
    const Tensor t = Tensor::borrow(DType::f32, {4}, owner->data(), owner);
    owner.reset();
    EXPECT_FALSE(watch.expired());
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Cast, truncates_floats_and_saturates) {
  const Tensor t = Tensor::of<float>({4}, {1.9f, -1.9f, 300.0f, -1.0f});
  EXPECT_THAT(t.cast(DType::i32).to_ints(), ElementsAre(1, -1, 300, -1));
  EXPECT_THAT(t.cast(DType::u8).to_ints(), ElementsAre(1, 0, 255, 0));
}

TEST(Cast, numbers_to_bool_and_back) {
  const Tensor t = Tensor::of<float>({4}, {0, -0.0f, 0.1f, std::numeric_limits<float>::quiet_NaN()}).cast(DType::boolean);
  EXPECT_THAT(t.cast(DType::f32).to_doubles(), ElementsAre(0, 0, 1, 1));
}

TEST(Cast, large_unsigned_numbers_keep_their_value) {
  const Tensor t = Tensor::of<double>({2}, {1.5e19, 3e19});
  EXPECT_EQ(t.cast(DType::u64).data<uint64_t>()[0], 15000000000000000000ull);
  EXPECT_EQ(t.cast(DType::u64).data<uint64_t>()[1], UINT64_MAX);
}

TEST(Cast, doubles_to_half_round_once) {
  // Just above the middle of 1 and the next half; in float it would be the middle, and then round to even.
  EXPECT_EQ(Tensor::scalar(1 + 0x1p-11 + 0x1p-40).cast(DType::f16).data<Half>()[0].bits, 0x3c01);
}

TEST(Cast, four_bit_integers_pack_low_nibble_first) {
  const Tensor t = Tensor::of<int8_t>({3}, {1, -2, 7}).cast(DType::i4);
  EXPECT_EQ(t.nbytes(), 2);
  EXPECT_EQ(static_cast<const uint8_t*>(t.raw())[0], 0xe1);
  EXPECT_EQ(static_cast<const uint8_t*>(t.raw())[1], 0x07);
  EXPECT_THAT(t.to_ints(), ElementsAre(1, -2, 7));
}

TEST(Cast, narrow_integers_wrap) {
  const Tensor t = Tensor::of<float>({3}, {-9, 8, 15});
  EXPECT_THAT(t.cast(DType::i4).to_ints(), ElementsAre(7, -8, -1));
  EXPECT_THAT(t.cast(DType::u4).to_ints(), ElementsAre(7, 8, 15));
  EXPECT_THAT(Tensor::of<float>({4}, {-3, -2, 1, 3}).cast(DType::i2).to_ints(), ElementsAre(1, -2, 1, -1));
  EXPECT_THAT(Tensor::of<float>({4}, {-3, -2, 1, 3}).cast(DType::u2).to_ints(), ElementsAre(1, 2, 1, 3));
  EXPECT_THAT(t.cast(DType::i4).cast(DType::u8).to_ints(), ElementsAre(7, 248, 255));
}

TEST(Cast, eight_bit_floats_saturate_unless_told_otherwise) {
  const Tensor t = Tensor::of<float>({2}, {1e6f, 0.47892547f});
  EXPECT_THAT(t.cast(DType::f8e4m3fn).to_doubles(), ElementsAre(448, 0.46875));
  EXPECT_TRUE(std::isnan(t.cast(DType::f8e4m3fn, {.saturate = false}).to_doubles()[0]));
  EXPECT_TRUE(std::isinf(t.cast(DType::f8e5m2, {.saturate = false}).to_doubles()[0]));
}

TEST(Cast, packed_types_convert_into_each_other) {
  const Tensor t = Tensor::of<float>({5}, {0.5f, 1, 1.5f, -6, 2}).cast(DType::f4e2m1);
  EXPECT_EQ(t.nbytes(), 3);
  EXPECT_THAT(t.cast(DType::f8e5m2).to_doubles(), ElementsAre(0.5, 1, 1.5, -6, 2));
  EXPECT_THAT(t.cast(DType::i4).to_ints(), ElementsAre(0, 1, 1, -6, 2));
}

TEST(Cast, numbers_to_text_and_back) {
  using limits = std::numeric_limits<float>;
  const Tensor t = Tensor::of<float>({4}, {0.1f, 2, -limits::infinity(), limits::quiet_NaN()});
  EXPECT_THAT(t.cast(DType::string).strings(), ElementsAre("0.1", "2.0", "-INF", "NaN"));
  const Tensor s = Tensor::of_strings({4}, {"1e3", "-7", "3.75", "INF"});
  EXPECT_THAT(s.cast(DType::f32).to_doubles(), ElementsAre(1000, -7, 3.75, std::numeric_limits<double>::infinity()));
  EXPECT_THAT(Tensor::of_strings({2}, {"1e3", "-7"}).cast(DType::i32).to_ints(), ElementsAre(1000, -7));
}

TEST(Cast, refuses_text_that_is_no_number_and_complex_types) {
  EXPECT_THROW(Tensor::of_strings({1}, {"seven"}).cast(DType::f32), Error);
  EXPECT_THROW(Tensor::of_strings({1}, {"1.5x"}).cast(DType::i32), Error);
  EXPECT_THROW(Tensor::zeros(DType::c64, {2}).cast(DType::f32), Error);
  EXPECT_THROW(Tensor().cast(DType::f32), Error);
}

}  // namespace
}  // namespace smelt
