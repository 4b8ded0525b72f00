#include <cmath>
#include <limits>
#include <random>

#include "expr/simd/isa.h"
#include "ops/cpu/integer/simd/quantize.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

struct Form {
  Shape x, scale;
  int64_t axis = 1, block = 0;
};
const std::vector<Form> forms = {{{5, 7, 3}, {}},
                                 {{5, 7, 3}, {1}},
                                 {{5, 7, 3}, {7}},
                                 {{5, 7, 3}, {3}, -1},
                                 {{19}, {19}, 0},
                                 {{8, 6}, {2, 6}, 0, 4},
                                 {{3, 8, 5}, {3, 4, 5}, 1, 2},
                                 {{2000, 33}, {33}},
                                 {{1, 6, 40, 40}, {}},
                                 {{3, 6, 5, 13}, {6}},
                                 {{5, 5000}, {5}, 0},
                                 {{64, 128}, {64, 4}, 1, 32},
                                 {{40, 3, 33}, {4, 3, 33}, 0, 10}};

Node node_of(const char* op, std::string_view domain, const Form& f) {
  Node n;
  n.op = op;
  n.domain = domain;
  n.attrs["axis"] = f.axis;
  if (f.block) n.attrs["block_size"] = f.block;
  return n;
}

TEST(QuantizeLinearTactics, equal_the_reference_bit_for_bit) {
  for (const Form& f : forms) {
    for (const DType type : {DType::u8, DType::i8, DType::u16, DType::i16}) {
      for (const bool zero : {false, true}) {
        for (const bool constant : {false, true}) {
          if (!zero && type != DType::u8) continue;
          Trial t;
          t.node = node_of("QuantizeLinear", onnx_domain, f);
          t.add(random_tensor(DType::f32, f.x, 1, -40, 60), false);
          t.add(random_tensor(DType::f32, f.scale, 2, 0.1, 0.4), constant);
          if (zero) t.add(random_tensor(type, f.scale, 3, 3, 90), constant);
          t.result(type, f.x);
          EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu")) << to_string(f.x) << to_string(f.scale);
        }
      }
    }
  }
}

TEST(QuantizeLinearTactics, floats_of_8_bits_equal_the_reference) {
  for (const Form& f : forms) {
    for (const DType type : {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz}) {
      for (const bool zero : {false, true}) {
        Trial t;
        t.node = node_of("QuantizeLinear", onnx_domain, f);
        t.node.attrs["output_dtype"] = static_cast<int64_t>(type);
        t.add(random_tensor(DType::f32, f.x, 1, -90, 90), false);
        t.add(random_tensor(DType::f32, f.scale, 2, 0.1, 0.4), zero);
        if (zero) t.add(random_tensor(type, f.scale, 3, -3, 3), true);
        t.result(type, f.x);
        EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu")) << to_string(f.x) << to_string(f.scale);
      }
    }
  }
}

TEST(QuantizeLinearTactics, scales_that_divide_into_no_number) {
  Tensor x = random_tensor(DType::f32, {6, 40}, 1, -40, 60);
  for (int64_t row = 0; row < 6; ++row) {
    x.data<float>()[row * 40 + 1] = std::numeric_limits<float>::quiet_NaN();
    x.data<float>()[row * 40 + 2] = -std::numeric_limits<float>::infinity();
    x.data<float>()[row * 40 + 3] = 0;
  }
  for (const DType type : {DType::u8, DType::i8}) {
    Trial t;
    t.node = node_of("QuantizeLinear", onnx_domain, {{6, 40}, {6}, 0});
    t.add(x, false);
    t.add(Tensor::of<float>({6}, {0.0f, 1e-40f, -0.5f, 0.25f, 1e38f, std::numeric_limits<float>::infinity()}), false);
    t.add(random_tensor(type, {6}, 3, 3, 90), false);
    t.result(type, {6, 40});
    EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu"));
  }
}

TEST(DequantizeLinearTactics, equal_the_reference) {
  for (const std::string_view domain : {onnx_domain, microsoft_domain}) {
    for (const Form& f : forms) {
      for (const DType type : {DType::u8, DType::i8, DType::u16, DType::i16, DType::i32}) {
        for (const DType to : {DType::f32, DType::f16}) {
          for (const bool zero : {false, true}) {
            Trial t;
            t.node = node_of("DequantizeLinear", domain, f);
            t.add(random_tensor(type, f.x, 1, 0, 127.99), false);
            t.add(random_tensor(to, f.scale, 2, 0.1, 0.4), true);
            if (zero) t.add(random_tensor(type, f.scale, 3, 3, 90), true);
            t.result(to, f.x);
            EXPECT_THAT(check(t, to == DType::f32 ? 1e-7 : 1e-3), testing::ElementsAre("cpu"))
                << to_string(f.x) << to_string(f.scale);
          }
        }
      }
    }
  }
}

TEST(DynamicQuantizeLinearTactics, find_the_range_wherever_its_ends_lie) {
  for (const int64_t count : {1, 7, 1000, 300'000}) {
    for (const int64_t low : {int64_t{0}, count / 3, count - 1}) {
      for (const int64_t high : {int64_t{0}, count / 2, count - 1}) {
        for (const int threads : {1, 2, 5}) {
          Trial t;
          t.node.op = "DynamicQuantizeLinear";
          Tensor x = random_tensor(DType::f32, {count}, 1, -1, 1);
          x.data<float>()[low] = -9;
          x.data<float>()[high] = 11;
          t.add(std::move(x), false);
          t.result(DType::u8, {count});
          EXPECT_THAT(check(t, 0, threads), testing::ElementsAre("cpu")) << count << " " << low << " " << high << " " << threads;
        }
      }
    }
  }
}

TEST(DynamicQuantizeLinearTactics, take_ranges_next_to_nothing_and_infinity) {
  for (const float scale : {1e-38f, 1e-31f, 1e31f, 1e38f}) {
    Trial t;
    t.node.op = "DynamicQuantizeLinear";
    Tensor x = random_tensor(DType::f32, {999}, 1, -1, 1);
    for (int64_t i = 0; i < 999; ++i) x.data<float>()[i] *= scale;
    t.add(std::move(x), false);
    t.result(DType::u8, {999});
    EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu")) << scale;
  }
}

/// Values whose quotients by 1/8 lie on halves and next to them, and in between; the range is that of all bytes.
Tensor next_to_halves(int64_t count) {
  Tensor x = random_tensor(DType::f32, {count}, 5, -12, 12);
  for (int64_t i = 0; i < count; ++i) {
    const float half = (static_cast<float>(i % 180) - 90.5f) / 8;
    if (i % 5 < 3) x.data<float>()[i] = i % 5 == 0 ? half : std::nextafter(half, i % 5 == 1 ? -99.0f : 99.0f);
  }
  x.data<float>()[count - 1] = -100.0f / 8;
  x.data<float>()[0] = 155.0f / 8;
  return x;
}

TEST(DynamicQuantizeLinearTactics, round_quotients_that_lie_next_to_halves) {
  for (const int64_t count : {31, 32, 100, 5000}) {
    Trial t;
    t.node.op = "DynamicQuantizeLinear";
    t.add(next_to_halves(count), false);
    t.result(DType::u8, {count});
    EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu")) << count;
  }
}

TEST(DynamicQuantizeLinearTactics, leave_nan_out_of_the_range) {
  for (const int64_t at : {0, 17, 70}) {
    Tensor x = next_to_halves(71);
    x.data<float>()[at == 0 || at == 70 ? 35 : at] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<const void*> in{x.raw()};
    Trial t;
    t.node.op = "DynamicQuantizeLinear";
    t.add(x, false);
    t.result(DType::u8, {71});
    t.bound.node = &t.node;
    t.bound.outputs.push_back({DType::f32, {}});
    t.bound.outputs.push_back({DType::u8, {}});
    const Offer o = offer(t.bound, Machine{});
    ASSERT_EQ(o.candidates[0].tactic, "cpu");
    const auto kernel = o.candidates[0].prepare();
    alignas(64) char memory[1 << 14];
    ASSERT_LE(kernel->workspace(), static_cast<int64_t>(sizeof memory));
    uint8_t y[71], zero = 0;
    float scale = 0;
    void* const out[] = {y, &scale, &zero};
    kernel->run({in, out, memory, nullptr});
    EXPECT_EQ(scale, 1.0f / 8);
    EXPECT_EQ(zero, 100);
    EXPECT_EQ(y[0], 255);
    EXPECT_EQ(y[70], 0);
  }
}

TEST(QuantizeLinearTactics, round_quotients_that_lie_next_to_halves) {
  for (const DType type : {DType::u8, DType::i8}) {
    for (const int64_t count : {5, 32, 100, 5000}) {
      Trial t;
      t.node = node_of("QuantizeLinear", onnx_domain, {});
      t.add(next_to_halves(count), false);
      t.add(Tensor::scalar(1.0f / 8), true);
      t.add(Tensor::scalar<int64_t>(type == DType::u8 ? 100 : -28).cast(type), true);
      t.result(type, {count});
      EXPECT_THAT(check(t, 0), testing::ElementsAre("cpu")) << name(type) << count;
    }
  }
}

/// Registers of every width make the same bytes of any number: those of division.
TEST(QuantizeLinearTactics, bytes_are_the_same_by_all_registers) {
  if (simd::best() != simd::Isa::avx2) GTEST_SKIP() << "no AVX2";
  std::mt19937 random(3);
  std::uniform_real_distribution<float> any(0, 1);
  const float odd[] = {NAN, INFINITY, -INFINITY, 1e30f, -1e30f, -0.0f, 1e-40f};
  for (int i = 0; i < 300; ++i) {
    const auto n = static_cast<int64_t>(1 + random() % 400);
    const bool is_signed = i % 2;
    const int32_t low = is_signed ? -128 : 0, zero = low + static_cast<int32_t>(random() % 256);
    integer::Requantization r;
    r.divisor = std::exp2(static_cast<float>(random() % 40) - 20) * (1 + any(random));
    r.inverse = 1 / r.divisor, r.zero = zero;
    r.low = static_cast<float>(low - zero), r.high = static_cast<float>(low + 255 - zero);
    std::vector<float> x(static_cast<size_t>(n));
    for (float& v : x) {
      const float whole = std::floor((any(random) - 0.5f) * 600);
      v = random() % 50 == 0 ? odd[random() % std::size(odd)]
                             : (whole + (random() % 4 == 0 ? 0.5f : any(random))) * r.divisor;  // many next to halves
    }
    std::vector<uint8_t> bytes(x.size() + 1, 77);
    for (const auto quantize : {&avx2::quantize, avx2::widest_quantize()}) {
      quantize(r, x.data(), n, bytes.data());
      EXPECT_EQ(bytes.back(), 77);
      for (size_t k = 0; k < x.size(); ++k) {
        const float q = x[k] / r.divisor, within = std::isnan(q) ? -static_cast<float>(zero) : std::clamp(q, r.low, r.high);
        ASSERT_EQ(bytes[k], static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(within)) + zero))
            << x[k] << " by " << r.divisor;
      }
    }
  }
}

TEST(QuantizeLinearTactics, leave_what_they_do_not_compute_alike_to_parts_of_the_reference) {
  Trial t;
  t.node = node_of("QuantizeLinear", onnx_domain, {});
  t.add(random_tensor(DType::f32, {4, 6}, 1, -40, 60), false);
  t.add(random_tensor(DType::f16, {}, 2, 0.1, 0.4), true);  // quotients are rounded to f16
  t.result(DType::u8, {4, 6});
  EXPECT_EQ(check(t, 0), std::vector<std::string>{"cpu"});
}

}  // namespace
}  // namespace smelt::ops
