#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

const Tensor x4x4 = ramp({1, 1, 4, 4});
const Attributes k2s2 = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};

TEST(MaxPool, takes_the_largest_of_each_window) { expect_near(run("MaxPool", {x4x4}, k2s2), {1, 1, 2, 2}, {5, 7, 13, 15}); }

TEST(MaxPool, reports_where_it_was_in_the_whole_tensor) {
  const Tensor x = f32({1, 2, 2, 2}, {4, 1, 2, 3, 1, 2, 8, 4});
  const std::vector<Tensor> y = run_all("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}}, 2);
  expect_near(y[0], {1, 2, 1, 1}, {4, 8});
  EXPECT_EQ(y[1].to_ints(), (Ints{0, 6}));
  const std::vector<Tensor> columns = run_all("MaxPool", {x}, {{"kernel_shape", Ints{2, 2}}, {"storage_order", int64_t{1}}}, 2);
  EXPECT_EQ(columns[1].to_ints(), (Ints{0, 5}));
}

TEST(MaxPool, the_first_of_equals_wins) {
  EXPECT_EQ(run_all("MaxPool", {f32({1, 1, 3}, {2, 2, 2})}, {{"kernel_shape", Ints{3}}}, 2)[1].to_ints(), (Ints{0}));
}

TEST(MaxPool, padding_never_wins) {
  expect_near(run("MaxPool", {f32({1, 1, 1}, {-5})}, {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}}), {1, 1, 1}, {-5});
}

TEST(MaxPool, ceil_mode_keeps_the_partial_window_but_none_that_starts_in_the_padding) {
  const Tensor x = ramp({1, 1, 4});
  expect_near(run("MaxPool", {x}, {{"kernel_shape", Ints{3}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}}), {1, 1, 2},
              {2, 3});
  expect_near(run("MaxPool", {ramp({1, 1, 2})},
                  {{"kernel_shape", Ints{1}}, {"strides", Ints{2}}, {"pads", Ints{0, 1}}, {"ceil_mode", int64_t{1}}}),
              {1, 1, 1}, {0});
}

TEST(MaxPool, takes_8_bit_integers) {
  EXPECT_EQ(run("MaxPool", {i8({1, 1, 2}, {-7, -9})}, {{"kernel_shape", Ints{2}}}).to_ints(), (Ints{-7}));
}

TEST(AveragePool, leaves_padding_out_of_the_count_unless_told) {
  const Tensor x = f32({1, 1, 2}, {2, 4});
  expect_near(run("AveragePool", {x}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}}), {1, 1, 2}, {2, 3});
  expect_near(run("AveragePool", {x}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}, {"count_include_pad", int64_t{1}}}),
              {1, 1, 2}, {1, 3});
}

TEST(AveragePool, a_partial_window_counts_only_the_padded_grid) {
  // Window two covers element 2 and one place beyond the padded input: it divides by one.
  expect_near(
      run("AveragePool", {f32({1, 1, 3}, {2, 4, 6})},
          {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", int64_t{1}}, {"count_include_pad", int64_t{1}}}),
      {1, 1, 2}, {3, 6});
}

TEST(LpPool, is_the_norm_of_each_window) {
  expect_near(run("LpPool", {f32({1, 1, 2}, {3, -4})}, {{"kernel_shape", Ints{2}}}), {1, 1, 1}, {5});
}

TEST(GlobalPools, reduce_every_plane_to_one) {
  const Tensor x = f32({1, 2, 1, 2}, {3, 4, -1, -5});
  expect_near(run("GlobalAveragePool", {x}), {1, 2, 1, 1}, {3.5, -3});
  expect_near(run("GlobalMaxPool", {x}), {1, 2, 1, 1}, {4, -1});
  expect_near(run("GlobalLpPool", {f32({1, 1, 2}, {3, 4})}), {1, 1, 1}, {5});
}

TEST(MaxUnpool, puts_values_back_and_zeros_elsewhere) {
  const std::vector<Tensor> pooled = run_all("MaxPool", {x4x4}, k2s2, 2);
  expect_near(run("MaxUnpool", {pooled[0], pooled[1]}, k2s2), {1, 1, 4, 4}, {0, 0, 0, 0, 0, 5, 0, 7, 0, 0, 0, 0, 0, 13, 0, 15});
}

TEST(MaxUnpool, rejects_an_index_outside) {
  expect_error("outside", [] { run("MaxUnpool", {f32({1, 1, 1, 1}, {1}), i64({1, 1, 1, 1}, {99})}, k2s2); });
}

TEST(Pool, names_a_missing_kernel_shape) {
  expect_error("kernel_shape has 0 entries, expected 2", [] { run("MaxPool", {x4x4}); });
}

}  // namespace
}  // namespace smelt::ops::test
