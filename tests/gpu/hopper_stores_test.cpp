// Products by Hopper's own instructions whose results tensor maps store: every tile on extents that it does not divide, programs
// that read what lies where they store, rows that lie apart.
#include "hopper_gemm.h"

namespace smelt::ops::hopper {
namespace {

bool mapped(const HopperConfig& c) { return c.mapped; }

constexpr int64_t m = 1331, n = 2600;  // more tiles than blocks

TEST_F(GpuHopperGemm, results_stored_by_maps_from_every_tile) {
  for (const DType type : {DType::f16, DType::bf16}) {
    Trial t = trial({.type = type, .a = {m, 200}, .b = {200, n}, .y = {m, n}, .k = 200});
    t.bound.inputs[1].constant = t.inputs[1];
    std::set<std::tuple<int64_t, int64_t, bool, int64_t>> seen;
    const auto each = [&](const HopperConfig& c) {
      return c.mapped && seen.emplace(c.tile_m, c.tile_n, c.transposed, c.patch()).second;
    };
    EXPECT_GE(expect(t, 200, each, every), 20u);
  }
}

TEST_F(GpuHopperGemm, results_stored_by_maps_where_an_operand_was_staged) {
  const std::string residual =
      "(in0:f32, in1:f32, in2:f16, in3:f16) { %4 = add(in0, in1):f32; %5 = cast(in2):f32; %6 = add(%4, %5):f32; %7 = "
      "cast(in3):f32; %8 = add(%6, %7):f32; %9 = relu(%8):f32; %10 = cast(%9):f16; return %10 }";
  for (const int64_t k : {72, 64 * 7}) {
    const Shape y{m, n};
    Trial t = trial(
        {.a = {m, k},
         .b = {k, n},
         .y = y,
         .program = residual,
         .operands = {random_tensor(DType::f32, {n}, 3), random_tensor(DType::f16, {n}, 4), random_tensor(DType::f16, y, 5)},
         .k = k});
    EXPECT_GE(expect(t, k, mapped), 10u);
  }
}

TEST_F(GpuHopperGemm, results_stored_by_maps_whose_rows_lie_apart) {
  Trial apart = trial({.a = {m, 200}, .b = {200, n}, .y = {m, n}, .k = 200});
  apart.bound.outputs[0].strides = {n + 8, 1};
  EXPECT_GE(expect(apart, 200, mapped), 10u);
  Trial batches = trial({.a = {2, m, 200}, .b = {2, 200, n}, .y = {2, m, n}, .k = 200});
  EXPECT_EQ(expect(batches, 200, mapped), 0u);  // no one matrix
}

TEST_F(GpuHopperGemm, groups_that_take_turns_store_themselves_where_k_is_long) {
  const int64_t k = 64 * 25;
  Trial t = trial({.a = {m, k}, .b = {k, n}, .y = {m, n}, .k = k});
  EXPECT_EQ(expect(t, k, mapped), 0u);
  EXPECT_GE(expect(
                t, k, [](const HopperConfig& c) { return c.alternate; }, 6),
            6u);
}

}  // namespace
}  // namespace smelt::ops::hopper
