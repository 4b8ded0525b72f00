#include "fuse/match/estimate.h"

#include <gtest/gtest.h>

#include "support/builder.h"

namespace smelt::fuse {
namespace {

constexpr Rates rates{1e9, 2};  // 1 ns a byte, 2 µs a kernel

/// x [1, 8, 4, 4] → Conv → Relu.
struct ConvRelu : Builder {
  explicit ConvRelu(bool read_twice, Dim batch = 1) {
    const SymShape shape{batch, 8, 4, 4};
    const ValueId c = node("conv", "Conv", {input("x", shape), weights("w", {8, 8, 1, 1})}, shape);
    output(node("relu", "Relu", {c}, shape));
    if (read_twice) output(node("exp", "ReduceMax", {c}, {1, 1, 1, 1}));
  }
};

const Entry& entry(const Ledger& ledger, std::string_view rewrite) {
  for (const Entry& e : ledger)
    if (e.rewrite == rewrite) return e;
  throw std::runtime_error("no entry");
}

TEST(Estimate, a_match_saves_the_intermediate_result_and_a_kernel) {
  ConvRelu b(false);
  const Ledger ledger = run_only(b.g, "conv_epilogue", {.rates = rates});
  // The convolution's result, 512 bytes, is neither written nor read again.
  EXPECT_DOUBLE_EQ(entry(ledger, "conv_epilogue").saved_us, 2 * 512 * 1e-3 + 2);
  EXPECT_EQ(entry(ledger, "conv_epilogue").cost_us, 0);
}

TEST(Estimate, a_rejection_costs_the_result_written_and_read_and_a_kernel) {
  ConvRelu b(true);
  const Ledger ledger = run_only(b.g, "conv_epilogue", {.rates = rates});
  ASSERT_FALSE(entry(ledger, "conv_epilogue").matched);
  EXPECT_DOUBLE_EQ(entry(ledger, "conv_epilogue").cost_us, 2 * 512 * 1e-3 + 2);
  EXPECT_EQ(entry(ledger, "conv_epilogue").saved_us, 0);
}

TEST(Estimate, a_concat_in_place_saves_reading_and_writing_it) {
  Builder b;
  std::vector<ValueId> parts;
  for (const char* n : {"a", "b"}) parts.push_back(b.node(n, "Relu", {b.input(std::string("x") + n, {1, 8})}, {1, 8}));
  b.output(b.node("cat", "Concat", parts, {1, 16}, DType::f32, {{"axis", int64_t{1}}}));
  const Ledger ledger = run_only(b.g, "concat_in_place", {.rates = rates});
  EXPECT_DOUBLE_EQ(entry(ledger, "concat_in_place").saved_us, 2 * 64 * 1e-3 + 2);
}

TEST(Estimate, nothing_is_said_without_rates_or_with_an_unknown_extent) {
  ConvRelu b(false);
  EXPECT_EQ(entry(run_only(b.g, "conv_epilogue"), "conv_epilogue").saved_us, 0);
  ConvRelu symbolic(false, Dim(std::string("n")));
  EXPECT_EQ(entry(run_only(symbolic.g, "conv_epilogue", {.rates = rates}), "conv_epilogue").saved_us, 0);
}

TEST(Estimate, views_and_shape_arithmetic_are_no_work) {
  Builder b;
  const ValueId x = b.input("x", {4, 4});
  const ValueId s = b.node("shape", "Shape", {x}, {2}, DType::i64);
  b.node("reshape", "Reshape", {x, s}, {4, 4});
  for (const char* n : {"shape", "reshape"}) EXPECT_EQ(work(b.g, b[n])->launches, 0) << n;
}

}  // namespace
}  // namespace smelt::fuse
