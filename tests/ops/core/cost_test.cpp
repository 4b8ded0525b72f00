#include "ops/core/cost.h"

#include <gtest/gtest.h>

namespace smelt::ops {
namespace {

BoundTensor f32(Shape shape) { return {DType::f32, std::move(shape)}; }

Cost cost_of(const std::string& op, std::vector<BoundTensor> in, std::vector<BoundTensor> out,
             std::map<std::string, Attribute> attrs = {}, std::string domain = {}) {
  Node n;
  n.op = op;
  n.domain = std::move(domain);
  n.attrs = std::move(attrs);
  return cost({&n, std::move(in), std::move(out)});
}

TEST(Cost, of_a_convolution_counts_groups_once) {
  // 8 x 8 outputs of 16 channels, each a sum over 4 input channels and a 3 x 3 window.
  const Cost c = cost_of("Conv", {f32({1, 8, 8, 8}), f32({16, 4, 3, 3})}, {f32({1, 16, 8, 8})}, {{"group", int64_t{2}}});
  EXPECT_EQ(c.flops, 2 * 16 * 64 * 4 * 9);
  EXPECT_EQ(c.bytes, 4 * (8 * 64 + 16 * 36 + 16 * 64));
}

TEST(Cost, of_a_fused_convolution_finds_the_weight_behind_its_segments) {
  const Cost c = cost_of("Conv", {f32({1, 4, 8, 8}), f32({1, 4, 8, 8}), f32({16, 8, 1, 1}), BoundTensor{}}, {f32({1, 16, 8, 8})},
                         {{"segments", int64_t{2}}}, std::string(smelt_domain));
  EXPECT_EQ(c.flops, 2 * 16 * 64 * 8);
}

TEST(Cost, of_products_with_and_without_transposition) {
  EXPECT_EQ(cost_of("MatMul", {f32({5, 3, 7}), f32({7, 2})}, {f32({5, 3, 2})}).flops, 2 * 5 * 3 * 7 * 2);
  EXPECT_EQ(cost_of("Gemm", {f32({7, 3}), f32({7, 2})}, {f32({3, 2})}, {{"transA", int64_t{1}}}).flops, 2 * 3 * 7 * 2);
}

TEST(Cost, of_an_attention_is_its_two_products_and_the_softmax) {
  const Cost c = cost_of("Attention", {f32({2, 4, 8, 16}), f32({2, 2, 32, 16}), f32({2, 2, 32, 16})}, {f32({2, 4, 8, 16})}, {},
                         std::string(smelt_domain));
  EXPECT_EQ(c.flops, 2 * 4 * 8 * 32 * (2 * 16 + 2 * 16 + 5));
}

TEST(Cost, of_a_gather_counts_the_rows_read_and_not_the_table) {
  const Cost c = cost_of("Gather", {f32({50000, 64}), {DType::i64, {3}}}, {f32({3, 64})});
  EXPECT_EQ(c.flops, 0);
  EXPECT_EQ(c.bytes, 4 * 3 * 64 + 8 * 3 + 4 * 3 * 64);
}

TEST(Cost, of_operators_that_only_move_data_has_no_flops) {
  EXPECT_EQ(cost_of("Transpose", {f32({4, 5})}, {f32({5, 4})}).flops, 0);
  EXPECT_EQ(cost_of("Transpose", {f32({4, 5})}, {f32({5, 4})}).bytes, 160);
}

TEST(Cost, of_empty_tensors_is_nothing) { EXPECT_EQ(cost_of("Add", {f32({0, 5}), f32({0, 5})}, {f32({0, 5})}).flops, 0); }

TEST(Cost, of_one_weight_read_twice_is_counted_once) {
  BoundTensor w = f32({4});
  w.constant = Tensor::zeros(DType::f32, {4});
  EXPECT_EQ(cost_of("Add", {w, w}, {f32({4})}).bytes, 32);
}

}  // namespace
}  // namespace smelt::ops
