// Products of two computed matrices of 8-bit integers on a GPU, as attention in 8 bits has them, held against the reference bit for bit.
#include <set>

#include "gpu_trial.h"

namespace smelt::ops {
namespace {

Tensor random_bytes(DType type, const Shape& shape, uint32_t seed) {
  return type == DType::u8 ? random_tensor(type, shape, seed, 0, 255.99) : random_tensor(type, shape, seed, -128, 127.99);
}
Tensor zero_point(DType type, int64_t of_u8 = 117) { return Tensor::scalar<int64_t>(type == DType::u8 ? of_u8 : -9).cast(type); }

struct Shapes {
  Shape a, b;
  bool trans_a = false, trans_b = false;
};
std::ostream& operator<<(std::ostream& out, const Shapes& s) {
  return out << to_string(s.a) << (s.trans_a ? "T" : "") << " x " << to_string(s.b) << (s.trans_b ? "T" : "");
}

/// Attention's scores and what they weigh, of extents that vectors of 16, 8 and 4 bytes divide, and of odd ones; batches that repeat;
/// operands stored across K; few rows and columns; K that is split.
const std::vector<Shapes> shapes = {{{2, 3, 64, 64}, {2, 3, 64, 64}, false, true},
                                    {{2, 3, 70, 64}, {2, 3, 64, 70}},
                                    {{1, 4, 197, 197}, {1, 4, 197, 64}},
                                    {{1, 4, 197, 64}, {1, 4, 197, 64}, false, true},
                                    {{1, 4, 197, 64}, {1, 4, 64, 197}},
                                    {{3, 33, 17}, {3, 17, 31}},
                                    {{3, 33, 17}, {3, 31, 17}, false, true},
                                    {{3, 17, 33}, {3, 17, 31}, true},
                                    {{3, 24, 40}, {3, 36, 24}, true, true},
                                    {{2, 1, 20, 48}, {1, 5, 48, 24}},
                                    {{20, 48}, {5, 48, 24}},
                                    {{5, 20, 48}, {48, 24}},
                                    {{130, 704}, {704, 300}},
                                    {{300, 256}, {128, 256}, false, true},
                                    {{7, 2048}, {2048, 136}},
                                    {{1, 1}, {1, 1}},
                                    {{1, 5000}, {5000, 3}},
                                    {{2, 8, 1, 96}, {2, 8, 96, 1030}}};

struct Numbers {
  DType a, b, y;
  int64_t x_zero, y_zero;  // 0: none; else of a u8, and -9 of an i8
  bool scales_by_column = false, zeros_by_column = false;
};
const Numbers numbers[] = {{DType::u8, DType::u8, DType::u8, 117, 128},
                           {DType::u8, DType::i8, DType::i8, 0, 1},
                           {DType::i8, DType::u8, DType::i8, 1, 0},
                           {DType::i8, DType::i8, DType::i8, 0, 0, true},
                           {DType::i8, DType::i8, DType::u8, 1, 1, true, true}};

Trial requantised(const Shapes& s, const Numbers& kind) {
  Trial t;
  t.node.domain = smelt_domain;
  t.node.op = "QLinearMatMul";
  if (s.trans_a) t.node.attrs["transA"] = int64_t{1};
  if (s.trans_b) t.node.attrs["transB"] = int64_t{1};
  t.node.program = expr::Program::parse(fmt::format(
      "(in0:f32) {{ %1 = const(0.37):f32; %2 = div(in0, %1):f32; %3 = round(%2):f32; %4 = const({0}):f32; %5 = add(%3, %4):f32; "
      "%6 = const({1}):f32; %7 = const({2}):f32; %8 = clip(%5, %6, %7):f32; %9 = cast(%8):{3}; return %9 }}",
      kind.y == DType::u8 ? 121 : 4, kind.y == DType::u8 ? 0 : -128, kind.y == DType::u8 ? 255 : 127, name(kind.y)));
  const int64_t n = s.trans_b ? s.b[s.b.size() - 2] : s.b.back();
  t.add(random_bytes(kind.a, s.a, 1), false);
  t.add(random_bytes(kind.b, s.b, 2), false);
  t.add(Tensor::scalar(0.02f), true);
  t.add(kind.x_zero ? zero_point(kind.a, kind.x_zero) : Tensor(), true);
  t.add(kind.scales_by_column ? random_tensor(DType::f32, {n}, 3, 0.001, 0.003) : Tensor::scalar(0.002f), true);
  t.add(!kind.y_zero ? Tensor() : kind.zeros_by_column ? random_bytes(kind.b, {n}, 4) : zero_point(kind.b, kind.y_zero), true);
  t.result(kind.y, expected(t).shape());
  return t;
}

/// Of all candidates the first, and others of tiles that were not seen yet: so many.
std::vector<std::string> check_some(Trial& t, size_t most) {
  std::set<std::string> tiles;
  return check_on_gpu(t, 0, [&](const Candidate& c) {
    const std::string tile = c.tactic + c.config.substr(0, c.config.find(' '));
    return tiles.size() < most && tiles.insert(tile).second;
  });
}

class GpuComputedGemm : public ::testing::TestWithParam<size_t> {
 protected:
  const Shapes& shape() const { return shapes[GetParam()]; }
};

TEST_P(GpuComputedGemm, requantises_as_the_reference_does) {
  for (const Numbers& kind : numbers) {
    SCOPED_TRACE(testing::PrintToString(shape()));
    Trial t = requantised(shape(), kind);
    EXPECT_FALSE(check_some(t, 3).empty());
  }
}

TEST_P(GpuComputedGemm, gives_the_sums_of_integers_less_computed_zero_points) {
  if (shape().trans_a || shape().trans_b) return;
  for (const DType a : {DType::u8, DType::i8})
    for (const bool a_computed : {false, true})
      for (const bool b_computed : {false, true}) {
        SCOPED_TRACE(testing::PrintToString(shape()));
        Trial t;
        t.node.op = "MatMulInteger";
        t.add(random_bytes(a, shape().a, 1), false);
        t.add(random_bytes(DType::u8, shape().b, 2), false);
        t.add(zero_point(a), !a_computed);
        t.add(zero_point(DType::u8, 131), !b_computed);
        t.result(DType::i32, expected(t).shape());
        EXPECT_FALSE(check_some(t, 2).empty());
      }
}

INSTANTIATE_TEST_SUITE_P(Shapes, GpuComputedGemm, ::testing::Range(size_t{0}, shapes.size()));

/// Of slices, whose elements begin at any byte: nothing outside of them is used, and nothing is written there.
TEST(GpuComputedGemmSlices, begin_anywhere) {
  for (const int64_t alignment : {1, 2, 4, 8})
    for (const bool trans_b : {false, true}) {
      Trial t = requantised({{2, 40, 50}, trans_b ? Shape{2, 60, 50} : Shape{2, 50, 60}, false, trans_b}, numbers[0]);
      for (BoundTensor* b : {&t.bound.inputs[0], &t.bound.inputs[1]}) {
        b->alignment = alignment;
        const int64_t row = b->shape[2] + 7;
        b->strides = {b->shape[1] * row, row, 1};
      }
      EXPECT_FALSE(check_some(t, 4).empty()) << alignment;
    }
}

/// K is split, and the last tiles are dealt out by steps of K: each part takes its own steps' zero points.
TEST(GpuComputedGemmParts, take_zero_points_of_their_own_steps) {
  for (const Shapes& s : {Shapes{{40, 6000}, {6000, 72}}, Shapes{{3, 600, 520}, {3, 520, 700}}}) {
    Trial t = requantised(s, numbers[0]);
    const auto split = [](const Candidate& c) {
      return c.tactic == "cuda" && (c.config.find("stream") != c.config.npos || !c.config.ends_with("k1"));
    };
    EXPECT_FALSE(check_on_gpu(t, 0, split).empty());
  }
}

/// Sums wrap at 32 bits: 255 · 255 · 70000 and what zero points add lie beyond.
TEST(GpuComputedGemmWraps, as_32_bits_do) {
  Trial t;
  t.node.op = "MatMulInteger";
  Tensor a = Tensor::empty(DType::u8, {3, 70000}), b = Tensor::empty(DType::u8, {70000, 5});
  for (uint8_t& v : a.span<uint8_t>()) v = 255;
  for (uint8_t& v : b.span<uint8_t>()) v = 254;
  t.add(a, false);
  t.add(b, false);
  t.add(Tensor::scalar<uint8_t>(1), false);
  t.add(Tensor::scalar<uint8_t>(3), false);
  t.result(DType::i32, {3, 5});
  EXPECT_FALSE(check_some(t, 3).empty());
}

/// By wgmma where nothing is added for zero points and both lie along K.
TEST(GpuComputedHopperGemm, equals_the_reference) {
  if (test_gpu()->info.major != 9) GTEST_SKIP() << "wgmma is Hopper's alone";
  for (const DType a : {DType::u8, DType::i8})
    for (const Shapes& s :
         {Shapes{{2, 6, 200, 64}, {2, 6, 328, 64}, false, true}, Shapes{{4, 331, 528}, {4, 264, 528}, false, true},
          Shapes{{3, 7, 2048}, {3, 136, 2048}, false, true}}) {
      Trial t = requantised(s, {a, DType::i8, DType::i8, 0, 0});
      const auto names = check_on_gpu(t, 0, [](const Candidate& c) { return c.tactic == "hopper"; });
      EXPECT_GE(names.size(), 3u);
    }
}

/// A constant right operand whose zero point the run computes, that has a batch, or whose left operand is stored by columns.
TEST(GpuComputedGemmConstants, are_read_where_they_lie) {
  for (const bool zero_computed : {false, true}) {
    Trial t;
    t.node.op = "MatMulInteger";
    t.add(random_bytes(DType::u8, {3, 20, 48}, 1), false);
    t.add(random_bytes(DType::u8, zero_computed ? Shape{48, 40} : Shape{3, 48, 40}, 2), true);
    t.add(zero_point(DType::u8), true);
    t.add(zero_point(DType::u8, 131), !zero_computed);
    t.result(DType::i32, {3, 20, 40});
    EXPECT_FALSE(check_some(t, 2).empty());
  }
  Trial t = requantised({{48, 20}, {48, 40}, true, false}, numbers[0]);
  t.bound.inputs[1].constant = t.inputs[1];
  EXPECT_FALSE(check_some(t, 2).empty());
}

}  // namespace
}  // namespace smelt::ops
