#include "expr/simd/isa.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

Tensor random_bytes(DType type, const Shape& shape, uint32_t seed) {
  return type == DType::u8 ? random_tensor(type, shape, seed, 0, 255.99) : random_tensor(type, shape, seed, -128, 127.99);
}

Tensor zero_point(DType type) { return Tensor::scalar<int64_t>(type == DType::u8 ? 117 : -9).cast(type); }

const std::vector<std::string> exact{"avx2"};
/// Tactics but oneDNN's, each once: products of little depth have two of one name.
std::vector<std::string> kinds(const std::vector<std::string>& names) {
  std::vector<std::string> all = own(names);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

struct Shapes {
  Shape a, b;
};
const std::vector<Shapes> shapes = {
    {{7, 33}, {33, 19}}, {{1, 64}, {64, 40}}, {{2, 3, 5, 17}, {17, 8}}, {{13, 700}, {700, 300}}, {{1, 1}, {1, 1}}};

TEST(QuantizedMatMul, equals_the_reference_bit_for_bit) {
  for (const Shapes& s : shapes) {
    for (DType type_a : {DType::u8, DType::i8}) {
      for (DType type_b : {DType::u8, DType::i8}) {
        for (bool by_column : {false, true}) {
          const int64_t n = s.b.back();
          Trial t;
          t.node.op = "QLinearMatMul";
          t.add(random_bytes(type_a, s.a, 1), false);
          t.add(Tensor::scalar(0.02f), true);
          t.add(zero_point(type_a), true);
          t.add(random_bytes(type_b, s.b, 2), true);
          t.add(by_column ? random_tensor(DType::f32, {n}, 3, 0.001, 0.003) : Tensor::scalar(0.002f), true);
          t.add(by_column ? random_bytes(type_b, {n}, 4) : zero_point(type_b), true);
          t.add(Tensor::scalar(0.3f), true);
          t.add(zero_point(type_a), true);
          t.result(type_a, expected(t).shape());
          EXPECT_EQ(kinds(check(t, 0)), exact);
        }
      }
    }
  }
}

TEST(QuantizedMatMul, gives_the_sums_of_integers) {
  for (const Shapes& s : shapes) {
    for (bool computed : {false, true}) {
      Trial t;
      t.node.op = "MatMulInteger";
      t.add(random_bytes(DType::u8, s.a, 1), false);
      t.add(random_bytes(DType::i8, s.b, 2), true);
      t.add(zero_point(DType::u8), !computed);
      t.add(random_bytes(DType::i8, {s.b.back()}, 3), true);
      t.result(DType::i32, expected(t).shape());
      EXPECT_EQ(kinds(check(t, 0)), exact);
    }
  }
}

// Which are copied apart: a multiple of 2048 bytes, and what is nearly one; with and without what oneDNN needs a copy for anyway.
/// As trained weights are that have one scale: few of them are large.
Tensor mostly_small(DType type, const Shape& shape, uint32_t seed) {
  Tensor t = type == DType::u8 ? random_tensor(type, shape, seed, 70, 180) : random_tensor(type, shape, seed, -60, 60);
  uint8_t* bytes = static_cast<uint8_t*>(t.raw());
  for (int64_t i = 300; i < t.size(); i += 601)
    bytes[i] = type == DType::u8 ? 255 : 0x80, bytes[i - 1] = type == DType::u8 ? 250 : 0x81;
  return t;
}

TEST(QuantizedMatMul, of_weights_of_which_few_are_large) {
  for (const Shapes& s : {Shapes{{7, 33}, {33, 19}}, {{1, 512}, {512, 300}}, {{61, 510}, {510, 72}}}) {
    for (DType type_a : {DType::u8, DType::i8}) {
      for (DType type_b : {DType::u8, DType::i8}) {
        for (bool computed : {false, true}) {
          Trial t;
          t.node.op = "MatMulInteger";
          t.add(random_bytes(type_a, s.a, 1), false);
          t.add(mostly_small(type_b, s.b, 2), true);
          t.add(zero_point(type_a), !computed);
          t.add(zero_point(type_b), true);
          t.result(DType::i32, expected(t).shape());
          EXPECT_EQ(kinds(check(t, 0)), exact);
        }
      }
    }
  }
}

TEST(QuantizedMatMul, rows_that_share_places_of_the_cache) {
  for (int64_t k : {1024, 2047, 2048, 2070, 4097}) {
    for (DType type_a : {DType::u8, DType::i8}) {
      for (DType type_b : {DType::u8, DType::i8}) {
        Trial t;
        t.node.op = "MatMulInteger";
        t.add(random_bytes(type_a, {9, k}, 1), false);
        t.add(random_bytes(type_b, {k, 15}, 2), true);
        t.add(zero_point(type_a), k % 2 == 0);
        t.add(zero_point(type_b), true);
        t.result(DType::i32, expected(t).shape());
        EXPECT_EQ(kinds(check(t, 0)), exact);
      }
    }
  }
}

// By dot products of four bytes where the processor has them: all rests of four, of a panel and of a block of columns.
TEST(QuantizedMatMul, of_little_depth_without_zero_points_of_the_right_operand) {
  for (int64_t k : {1, 3, 4, 16, 33, 48})
    for (int64_t n : {1, 17, 64, 530})
      for (DType type_a : {DType::u8, DType::i8})
        for (DType type_b : {DType::u8, DType::i8})
          for (const char* op : {"QLinearMatMul", "MatMulInteger"}) {
            const bool sums = std::string_view(op) == "MatMulInteger", constant = n % 2 == 0;
            Trial t;
            t.node.op = op;
            t.add(random_bytes(type_a, {2, k % 2 == 0 ? 5 : 9, k}, 1), false);
            if (!sums) t.add(Tensor::scalar(0.02f), true);
            if (!sums) t.add(zero_point(type_a), true);
            t.add(random_bytes(type_b, {k, n}, 2), constant);
            if (!sums) t.add(Tensor::scalar(0.002f), true);
            if (sums) t.add(zero_point(type_a), constant);
            t.add(Tensor::scalar<int64_t>(type_b == DType::u8 ? 128 : 0).cast(type_b), true);
            if (!sums) t.add(Tensor::scalar(0.3f), true);
            if (!sums) t.add(zero_point(type_a), true);
            t.result(sums ? DType::i32 : type_a, expected(t).shape());
            EXPECT_THAT(check(t, 0), testing::Contains("avx2")) << k << ' ' << n;
            if (k > 16 && !simd::has_dots()) continue;
            const auto is_shallow = [](const Candidate& c) { return c.config == "shallow"; };
            EXPECT_TRUE(std::ranges::any_of(offer(t.bound, Machine{}).candidates, is_shallow)) << k;
          }
}

TEST(QuantizedMatMul, sums_wrap_however_many_products_they_have) {
  constexpr int64_t k = 70001;  // of 255 · 255: above 2^32
  for (const bool quantized : {false, true}) {
    for (const bool constant : {false, true}) {
      Trial t;
      t.node.op = quantized ? "QLinearMatMul" : "MatMulInteger";
      const auto add_scale = [&](float scale) {
        if (!quantized) return;
        t.add(Tensor::scalar(scale), true);
        t.add(Tensor::scalar<int64_t>(0).cast(DType::u8), true);
      };
      t.add(random_tensor(DType::u8, {3, k}, 1, 200, 255.99), false);
      add_scale(0.01f);
      t.add(random_tensor(DType::u8, {k, 17}, 2, 200, 255.99), constant);
      add_scale(0.01f);
      add_scale(500);
      t.result(quantized ? DType::u8 : DType::i32, expected(t).shape());
      EXPECT_EQ(kinds(check(t, 0)), exact);
    }
  }
}

TEST(QuantizedMatMul, by_onednn_is_exact_with_weights_of_seven_bits) {
  std::vector<Shapes> all = shapes;
  all.push_back({{900, 24}, {24, 400}});  // some rows at a time
  for (const Shapes& s : all) {
    for (DType type_a : {DType::u8, DType::i8}) {
      for (DType type_b : {DType::u8, DType::i8}) {
        for (const char* op : {"QLinearMatMul", "MatMulInteger"}) {
          for (bool computed : {false, true}) {
            const bool sums = std::string_view(op) == "MatMulInteger";
            if (computed && !sums) continue;
            const Tensor b_zero = Tensor::scalar<int64_t>(type_b == DType::u8 ? 128 : 0).cast(type_b);
            Trial t;
            t.node.op = op;
            t.add(random_bytes(type_a, s.a, 1), false);
            if (!sums) t.add(Tensor::scalar(0.02f), true);
            if (!sums) t.add(zero_point(type_a), true);
            t.add(seven_bits(type_b, s.b, 2), true);
            if (!sums) t.add(Tensor::scalar(0.002f), true);
            if (sums) t.add(zero_point(type_a), !computed);
            t.add(b_zero, true);
            if (!sums) t.add(Tensor::scalar(0.3f), true);
            if (!sums) t.add(zero_point(type_a), true);
            t.result(sums ? DType::i32 : type_a, expected(t).shape());
            EXPECT_THAT(check(t, 0), testing::Contains("onednn")) << onednn_reason(t);
          }
        }
      }
    }
  }
}

TEST(QuantizedMatMul, by_onednn_takes_computed_operands_of_any_zero_points) {
  std::vector<Shapes> all = shapes;
  all.push_back({{2, 6, 50, 64}, {2, 6, 64, 50}});
  all.push_back({{900, 24}, {24, 400}});  // some rows at a time
  all.push_back({{70, 700}, {700, 129}});
  for (const Shapes& s : all)
    for (DType type_a : {DType::u8, DType::i8})
      for (DType type_b : {DType::u8, DType::i8})
        for (const char* op : {"QLinearMatMul", "MatMulInteger"})
          for (bool constant : {false, true}) {
            const bool sums = std::string_view(op) == "MatMulInteger";
            Trial t;
            t.node.op = op;
            t.add(random_bytes(type_a, s.a, 1), false);
            if (!sums) t.add(Tensor::scalar(0.02f), true);
            if (!sums) t.add(zero_point(type_a), true);
            t.add(random_bytes(type_b, s.b, 2), constant);
            if (!sums) t.add(Tensor::scalar(0.002f), true);
            if (sums) t.add(zero_point(type_a), constant);
            t.add(zero_point(type_b), constant || !sums);
            if (!sums) t.add(Tensor::scalar(0.3f), true);
            if (!sums) t.add(zero_point(type_a), true);
            t.result(sums ? DType::i32 : type_a, expected(t).shape());
            const std::vector<std::string> ran = check(t, 0);
            if (has_dot_products() && elements(s.b) > 1) {
              EXPECT_THAT(ran, testing::Contains("onednn")) << onednn_reason(t) << to_string(s.a) << to_string(s.b);
            }
          }
}

TEST(QuantizedMatMul, by_onednn_takes_constant_weights_that_their_zeros_take_beyond_8_bits) {
  const Shapes s{{900, 24}, {24, 400}};  // some rows at a time
  for (DType type_a : {DType::u8, DType::i8}) {
    for (DType type_b : {DType::u8, DType::i8}) {
      for (bool quantizes : {false, true}) {
        Trial t;
        t.node.op = quantizes ? "QLinearMatMul" : "MatMulInteger";
        t.add(random_bytes(type_a, s.a, 1), false);
        if (quantizes) t.add(Tensor::scalar(0.02f), true);
        if (quantizes) t.add(zero_point(type_a), true);
        t.add(random_bytes(type_b, s.b, 2), true);
        if (quantizes) t.add(Tensor::scalar(0.002f), true);
        if (!quantizes) t.add(zero_point(type_a), false);
        t.add(random_bytes(type_b, {400}, 3), true);
        if (quantizes) t.add(Tensor::scalar(0.3f), true);
        if (quantizes) t.add(zero_point(type_a), true);
        t.result(quantizes ? type_a : DType::i32, expected(t).shape());
        const std::vector<std::string> ran = check(t, 0);
        if (has_dot_products()) {
          EXPECT_THAT(ran, testing::Contains("onednn")) << onednn_reason(t);
        }
      }
    }
  }
}

TEST(QuantizedMatMul, by_onednn_takes_zeros_of_computed_columns) {
  Trial t;
  t.node.op = "MatMulInteger";
  t.add(random_bytes(DType::u8, {33, 70}, 1), false);
  t.add(random_bytes(DType::i8, {70, 41}, 2), false);
  t.add(zero_point(DType::u8), true);
  t.add(random_bytes(DType::i8, {41}, 3), true);
  t.result(DType::i32, {33, 41});
  EXPECT_EQ(kinds(check(t, 0)), exact);
  if (has_dot_products()) {
    EXPECT_THAT(check(t, 0), testing::Contains("onednn")) << onednn_reason(t);
  }
}

Trial gemm(bool quantizes) {
  Trial t;
  t.node.op = "QGemm";
  t.node.domain = microsoft_domain;
  t.node.attrs["transB"] = int64_t{1};
  t.node.attrs["alpha"] = 0.5f;
  t.add(random_bytes(DType::u8, {9, 50}, 1), false);
  t.add(Tensor::scalar(0.02f), true);
  t.add(zero_point(DType::u8), true);
  t.add(random_bytes(DType::i8, {21, 50}, 2), true);
  t.add(random_tensor(DType::f32, {21}, 3, 0.001, 0.003), true);
  t.add(Tensor::zeros(DType::i8, {21}), true);
  t.add(random_tensor(DType::i32, {21}, 4, -9000, 9000), true);
  if (quantizes) {
    t.add(Tensor::scalar(0.1f), true);
    t.add(zero_point(DType::u8), true);
  }
  t.result(quantizes ? DType::u8 : DType::f32, {9, 21});
  return t;
}

TEST(QuantizedMatMul, takes_a_gemm_with_bias) {
  Trial t = gemm(true);
  EXPECT_EQ(kinds(check(t, 0)), exact);
}

TEST(QuantizedMatMul, gives_floats_of_a_gemm_that_does_not_quantize) {
  Trial t = gemm(false);
  EXPECT_EQ(kinds(check(t, 0)), exact);
}

TEST(QuantizedMatMul, by_onednn_wants_dot_products_or_weights_of_seven_bits) {
  Trial t = gemm(true);
  if (has_dot_products()) {
    EXPECT_THAT(check(t, 0), testing::Contains("onednn")) << onednn_reason(t);
  } else {
    EXPECT_THAT(onednn_reason(t), testing::HasSubstr("saturates at 32767"));
  }
}

TEST(QuantizedMatMul, packs_a_computed_right_operand_in_the_run) {
  std::vector<Shapes> all = shapes;
  all.push_back({{2, 6, 50, 64}, {2, 6, 64, 50}});  // attention's: each head its own
  all.push_back({{3, 1, 9, 31}, {4, 31, 21}});      // batches that broadcast
  all.push_back({{2, 70, 700}, {2, 700, 5}});
  all.push_back({{3, 300}, {300, 3401}});  // some columns at a time
  for (const Shapes& s : all) {
    for (DType type_a : {DType::u8, DType::i8}) {
      for (DType type_b : {DType::u8, DType::i8}) {
        for (int threads : {1, 3}) {
          Trial t;
          t.node.op = "QLinearMatMul";
          t.add(random_bytes(type_a, s.a, 1), false);
          t.add(Tensor::scalar(0.02f), true);
          t.add(zero_point(type_a), true);
          t.add(random_bytes(type_b, s.b, 2), false);
          t.add(Tensor::scalar(0.002f), true);
          t.add(zero_point(type_b), true);
          t.add(Tensor::scalar(0.3f), true);
          t.add(zero_point(type_a), true);
          t.result(type_a, expected(t).shape());
          EXPECT_EQ(kinds(check(t, 0, threads)), exact) << to_string(s.a) << to_string(s.b);
        }
      }
    }
  }
}

TEST(QuantizedMatMul, subtracts_computed_zero_points_of_both_operands) {
  for (DType type_b : {DType::u8, DType::i8})
    for (const int64_t n : {1, 3, 4, 5, 20, 63, 65, 2100})  // rows of sums are copied by pieces
      for (const int threads : {1, 2}) {
        Trial t;
        t.node.op = "MatMulInteger";
        t.add(random_bytes(DType::u8, {2, 9, n > 2000 ? 301 : 33}, 1), false);
        t.add(random_bytes(type_b, {2, n > 2000 ? 301 : 33, n}, 2), false);
        t.add(zero_point(DType::u8), false);
        t.add(zero_point(type_b), false);
        t.result(DType::i32, expected(t).shape());
        EXPECT_EQ(kinds(check(t, 0, threads)), exact) << n;
      }
}

TEST(QuantizedMatMul, takes_a_computed_operand_of_a_gemm_stored_transposed) {
  Trial t = gemm(true);
  t.bound.inputs[3].constant = {};
  EXPECT_EQ(kinds(check(t, 0)), exact);
}

/// The configurations of tactics that are offered.
std::vector<std::string> configs(Trial& t) {
  t.bound.node = &t.node;
  std::vector<std::string> all;
  for (const Candidate& c : offer(t.bound, Machine{}).candidates) all.push_back(c.config);
  return all;
}

TEST(QuantizedMatMul, of_little_depth_goes_from_registers_to_its_result) {
  using testing::Contains;
  for (const int64_t k : {1, 2, 3, 5, 8, 15, 16})
    for (const int64_t n : {1, 7, 15, 16, 17, 33, 511, 513, 1040})
      for (const int64_t m : {1, 2, 3, 4, 5, 19, 37})
        for (const bool computed : {false, true}) {
          if ((m + n + k) % 3 != 0) continue;
          const DType type_a = (m + k) % 2 ? DType::u8 : DType::i8, type_b = n % 2 ? DType::u8 : DType::i8;
          Trial t;
          t.node.op = "MatMulInteger";
          t.add(random_bytes(type_a, {m, k}, 1), false);
          t.add(random_bytes(type_b, {k, n}, 2), !computed);
          t.add(zero_point(type_a), !computed);
          t.add(computed ? zero_point(type_b) : random_bytes(type_b, {n}, 3), !computed);
          t.result(DType::i32, {m, n});
          EXPECT_EQ(kinds(check(t, 0, 1 + static_cast<int>(m % 3))), exact) << m << ' ' << n << ' ' << k;
          EXPECT_THAT(configs(t), Contains("shallow"));
        }
  // Batches of both, or of the left alone; 8-bit results.
  for (const Shapes& s : std::vector<Shapes>{{{3, 2, 9, 5}, {2, 5, 40}}, {{3, 1, 9, 7}, {4, 7, 21}}, {{2, 30, 9}, {9, 600}}}) {
    Trial t;
    t.node.op = "QLinearMatMul";
    t.add(random_bytes(DType::u8, s.a, 1), false);
    t.add(Tensor::scalar(0.02f), true);
    t.add(zero_point(DType::u8), true);
    t.add(random_bytes(DType::i8, s.b, 2), false);
    t.add(Tensor::scalar(0.02f), true);
    t.add(zero_point(DType::i8), true);
    t.add(Tensor::scalar(0.3f), true);
    t.add(zero_point(DType::u8), true);
    t.result(DType::u8, expected(t).shape());
    EXPECT_EQ(kinds(check(t, 0, 3)), exact) << to_string(s.a);
    EXPECT_THAT(configs(t), Contains("shallow"));
  }
  Trial deep;
  deep.node.op = "MatMulInteger";
  deep.add(random_bytes(DType::u8, {4, 17}, 1), false);
  deep.add(random_bytes(DType::u8, {17, 50}, 2), false);
  deep.result(DType::i32, {4, 50});
  EXPECT_THAT(configs(deep), testing::Not(Contains("shallow")));
}

TEST(QuantizedMatMul, is_left_to_the_reference_when_a_scale_is_computed) {
  Trial t = gemm(true);
  t.bound.inputs[4].constant = {};
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  ASSERT_EQ(o.candidates.size(), 1u);
  EXPECT_EQ(o.candidates[0].tactic, "reference");
}

}  // namespace
}  // namespace smelt::ops
