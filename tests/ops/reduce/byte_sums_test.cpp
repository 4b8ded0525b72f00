// Sums and means of dequantized bytes, of the bytes themselves, against the reference.
#include "ops/one_node.h"
#include "ops/tactic_check.h"

namespace smelt::ops::test {
namespace {

/// ai.smelt's Reduce of (q - zero) · scale.
Trial trial(DType type, const Shape& shape, const Ints& axes, const std::string& kind, const std::string& zero) {
  Trial t;
  t.node = make_node("Reduce", 0, {{"kind", kind}, {"axes", axes}, {"inputs_before", int64_t{1}}, {"keepdims", int64_t{1}}}, 0,
                     std::string(smelt_domain));
  t.add(type == DType::u8 ? random_tensor(type, shape, 1, 0, 255.99) : random_tensor(type, shape, 1, -128, 127.99), false);
  t.compute("(in0:" + std::string(name(type)) + ") { %1 = const(0.05):f32; %2 = cast(in0):i32; %3 = const(" + zero +
                "):i32; %4 = sub(%2, %3):i32; %5 = cast(%4):f32; %6 = mul(%5, %1):f32; return %6 }",
            DType::f32);
  return t;
}

TEST(ByteSums, agree_with_the_reference_over_the_last_axes) {
  for (const DType type : {DType::u8, DType::i8})
    for (const char* kind : {"mean", "sum"})
      for (const auto& [shape, axes] :
           {std::pair{Shape{2, 3, 56, 57}, Ints{2, 3}}, std::pair{Shape{5, 33}, Ints{1}}, std::pair{Shape{5, 64}, Ints{-1}},
            std::pair{Shape{7, 3, 95}, Ints{0, 1, 2}}, std::pair{Shape{70000, 1}, Ints{0, 1}}}) {
        SCOPED_TRACE(to_string(shape) + kind + std::string(name(type)));
        Trial t = trial(type, shape, axes, kind, type == DType::u8 ? "131" : "-7");
        const Tensor want = expected(t);
        t.result(DType::f32, want.shape());
        t.bound.node = &t.node;
        Machine machine;
        machine.isa = "avx2";
        EXPECT_EQ(offer(t.bound, machine).candidates[0].config, "bytes");
        check(t, 2e-5);  // numbers of both signs, whose sum is small, are rounded one by one there
      }
}

TEST(ByteSums, end_with_a_program_over_the_results) {
  for (const char* post : {"(in0:f32) { %1 = const(3):f32; %2 = mul(in0, %1):f32; return %2 }",
                           "(in0:f32) { %1 = const(3):f32; %2 = mul(in0, %1):f32; %3 = cast(%2):i32; return %3 }"})
    for (const Shape& shape : {Shape{2, 3, 56, 57}, Shape{1, 1000, 7, 7}, Shape{700, 1, 5, 8}}) {
      SCOPED_TRACE(to_string(shape) + post);
      Trial t = trial(DType::u8, shape, {2, 3}, "mean", "3");
      t.node.attrs["post"] = std::string(post);
      const Tensor want = expected(t);
      t.result(want.type(), want.shape());
      t.bound.node = &t.node;
      EXPECT_EQ(offer(t.bound, Machine{}).candidates[0].config, "bytes");
      check(t, want.type() == DType::i32 ? 0.04 : 2e-5, 3);  // a whole number off where the mean lies next to one
    }
}

TEST(ByteSums, leave_other_axes_short_rows_and_other_folds_to_programs) {
  for (const auto& [shape, axes, kind] : {std::tuple{Shape{5, 64, 40}, Ints{1}, "mean"}, std::tuple{Shape{50, 4}, Ints{1}, "sum"},
                                          std::tuple{Shape{5, 64}, Ints{1}, "max"}}) {
    Trial t = trial(DType::u8, shape, axes, kind, "3");
    const Tensor want = expected(t);
    t.result(DType::f32, want.shape());
    t.bound.node = &t.node;
    Machine machine;
    machine.isa = "avx2";
    for (const Candidate& c : offer(t.bound, machine).candidates) EXPECT_NE(c.config, "bytes");
    check(t, 2e-6);
  }
}

}  // namespace
}  // namespace smelt::ops::test
