#include <cmath>
#include <limits>

#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

using testing::HasSubstr;

const DType number_types[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8,  DType::i16,
                              DType::i32, DType::i64, DType::u8,  DType::u16,  DType::u32, DType::u64};

/// c[i, j, k] = a[i, 0, k] + b[j, 0] by the definition, against the streamed loop, beyond one block of elements.
TEST(Pointwise, broadcasts_every_element_type) {
  for (DType t : number_types) {
    const Tensor a = iota(t, {3, 1, 7}), b = iota(t, {100, 1});
    const Tensor c = run("Add", {a, b});
    ASSERT_EQ(c.type(), t);
    ASSERT_EQ(c.shape(), (Shape{3, 100, 7}));
    const auto values = c.to_doubles();
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 100; ++j) {
        for (int64_t k = 0; k < 7; ++k)
          ASSERT_EQ(values[static_cast<size_t>((i * 100 + j) * 7 + k)], static_cast<double>(i * 7 + k + j)) << name(t);
      }
    }
  }
}

TEST(Pointwise, handles_scalars_and_empty_tensors) {
  EXPECT_TENSOR(run("Mul", {f32({}, {3}), f32({}, {4})}), ({}), ({12}));
  EXPECT_TENSOR(run("Mul", {f32({0, 2}, {}), f32({2}, {1, 2})}), ({0, 2}), ({}));
}

TEST(Pointwise, refuses_mixed_types_and_shapes_that_do_not_broadcast) {
  EXPECT_THAT(error_of([] { run("Add", {f32({2}, {1, 2}), i64({2}, {1, 2})}); }), HasSubstr("f32 and i64"));
  EXPECT_THAT(error_of([] { run("Add", {f32({2}, {1, 2}), f32({3}, {1, 2, 3})}); }), HasSubstr("do not broadcast"));
}

TEST(Arithmetic, wraps_integers_at_their_width) {
  const Tensor big = Tensor::of<int8_t>({2}, {127, -128}), one = Tensor::of<int8_t>({}, {1});
  EXPECT_TENSOR(run("Add", {big, one}), ({2}), ({-128, -127}));
  EXPECT_TENSOR(run("Sub", {big, one}), ({2}), ({126, 127}));
  EXPECT_EQ(run("Mul", {i64({1}, {INT64_MIN}), i64({1}, {-1})}).to_ints()[0], INT64_MIN);
  EXPECT_EQ(run("Div", {i64({1}, {INT64_MIN}), i64({1}, {-1})}).to_ints()[0], INT64_MIN);
  EXPECT_EQ(run("Neg", {i64({1}, {INT64_MIN})}).to_ints()[0], INT64_MIN);
}

TEST(Arithmetic, divides_toward_zero_and_gives_zero_for_division_by_zero) {
  EXPECT_TENSOR(run("Div", {i64({4}, {7, -7, 7, 5}), i64({4}, {2, 2, -2, 0})}), ({4}), ({3, -3, -3, 0}));
}

TEST(Arithmetic, takes_the_sign_of_the_divisor_or_of_the_dividend_in_mod) {
  const Tensor a = i64({4}, {7, -7, 7, -7}), b = i64({4}, {3, 3, -3, -3});
  EXPECT_TENSOR(run("Mod", {a, b}), ({4}), ({1, 2, -2, -1}));
  EXPECT_TENSOR(run("Mod", {a, b}, {{"fmod", int64_t{1}}}), ({4}), ({1, -1, 1, -1}));
  EXPECT_EQ(run("Mod", {i64({1}, {INT64_MIN}), i64({1}, {-1})}).to_ints()[0], 0);
  const Tensor u = run("Mod", {Tensor::of<uint64_t>({1}, {5}), Tensor::of<uint64_t>({1}, {UINT64_MAX})});
  EXPECT_EQ(u.data<uint64_t>()[0], 5u);
}

TEST(Arithmetic, lets_nan_through_min_and_max) {
  const Tensor a = f32({3}, {NAN, 1, 2}), b = f32({3}, {1, NAN, 3});
  for (const char* op : {"Min", "Max"}) {
    const auto v = run(op, {a, b}).to_doubles();
    EXPECT_TRUE(std::isnan(v[0]) && std::isnan(v[1])) << op;
  }
  EXPECT_EQ(run("Max", {a, b}).to_doubles()[2], 3);
}

TEST(Arithmetic, raises_integers_to_integer_powers_exactly) {
  EXPECT_EQ(run("Pow", {i64({2}, {3, -2}), i64({2}, {39, 63})}).to_ints(),
            (std::vector<int64_t>{4052555153018976267, INT64_MIN}));
  EXPECT_EQ(run("Pow", {i64({3}, {2, -1, 1}), i64({3}, {-1, -3, -8})}).to_ints(), (std::vector<int64_t>{0, -1, 1}));
}

/// Powers of 3, -3, -1 and 2 modulo 2^32 and 2^64, whose exponents 32 or 64 bits with a sign do not hold.
TEST(Arithmetic, raises_to_exponents_that_the_bases_type_does_not_hold) {
  const std::vector<uint64_t> exponents = {uint64_t{1} << 31, (uint64_t{1} << 31) + 1, (uint64_t{1} << 32) + 1, INT64_MAX,
                                           UINT64_MAX};
  const Ints narrow[] = {
      {1, 1, 1, 0}, {3, -3, -1, 0}, {3, -3, -1, 0}, {-1431655765, 1431655765, -1, 0}, {-1431655765, 1431655765, -1, 0}};
  const Ints wide[] = {{-7977717197575290879, -7977717197575290879, 1, 0},
                       {-5486407519016321021, 5486407519016321021, -1, 0},
                       {7473929035676909571, -7473929035676909571, -1, 0},
                       {-6148914691236517205, 6148914691236517205, -1, 0},
                       {-6148914691236517205, 6148914691236517205, -1, 0}};
  for (size_t i = 0; i < exponents.size(); ++i) {
    for (DType t : {DType::u32, DType::i64, DType::u64}) {
      if (exponents[i] > (t == DType::u32 ? UINT32_MAX : t == DType::i64 ? uint64_t{INT64_MAX} : UINT64_MAX)) continue;
      const Tensor by = Tensor::of<uint64_t>({1}, {exponents[i]}).cast(t);
      EXPECT_EQ(run("Pow", {i32({4}, {3, -3, -1, 2}), by}).to_ints(), narrow[i]) << exponents[i] << " of " << name(t);
      EXPECT_EQ(run("Pow", {i64({4}, {3, -3, -1, 2}), by}).to_ints(), wide[i]) << exponents[i] << " of " << name(t);
    }
  }
  EXPECT_EQ(run("Pow", {i32({3}, {-1, 1, 2}), i64({1}, {-(int64_t{1} << 32) - 1})}).to_ints(), (Ints{-1, 1, 0}));
  EXPECT_EQ(run("Pow", {f32({1}, {-1}), i64({1}, {(1 << 24) + 1})}).to_doubles()[0], -1);  // no f32
  EXPECT_EQ(run("Pow", {i32({1}, {1 << 20}), f32({1}, {2})}).to_ints()[0], INT32_MAX);
}

TEST(Arithmetic, sums_sixteen_bit_floats_with_one_rounding) {
  const Tensor one = Tensor::scalar(1.0f).cast(DType::f16), tiny = Tensor::scalar(1.0f / 2048).cast(DType::f16);
  EXPECT_EQ(run("Sum", {one, tiny, tiny}).to_doubles()[0], 1.0 + 1.0 / 1024);  // rounded twice it would stay 1
}

TEST(BitShift, gives_zero_or_the_sign_beyond_the_width) {
  const Tensor x = Tensor::of<int8_t>({2}, {-5, 5}), by = Tensor::of<int8_t>({2}, {9, 9});
  EXPECT_TENSOR(run("BitShift", {x, by}, {{"direction", std::string("RIGHT")}}), ({2}), ({-1, 0}));
  EXPECT_TENSOR(run("BitShift", {x, by}, {{"direction", std::string("LEFT")}}), ({2}), ({0, 0}));
  EXPECT_THAT(error_of([&] { run("BitShift", {x, by}); }), HasSubstr("expected 'LEFT' or 'RIGHT'"));
}

TEST(Clip, reads_bounds_from_inputs_or_attributes) {
  const Tensor x = f32({3}, {-5, 0.5, 5});
  EXPECT_TENSOR(run("Clip", {x, Tensor::scalar(-1.0f), Tensor()}), ({3}), ({-1, 0.5, 5}));
  EXPECT_TENSOR(run("Clip", {x}, {{"min", 0.0f}, {"max", 1.0f}}), ({3}), ({0, 0.5, 1}));
  EXPECT_TENSOR(run("Clip", {x, Tensor::scalar(2.0f), Tensor::scalar(1.0f)}), ({3}), ({1, 1, 1}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<Tensor>& bounds :
       {std::vector{Tensor::scalar(nan), Tensor()}, std::vector{Tensor(), Tensor::scalar(nan)}})
    for (const double y : run("Clip", {x, bounds[0], bounds[1]}).to_doubles()) EXPECT_TRUE(std::isnan(y));
}

TEST(Activation, agrees_with_its_formula) {
  const double x = 0.7;
  const auto at = [&](const char* op, double v, Attributes attrs = {}) {
    return run(op, {Tensor::scalar(v)}, attrs).to_doubles()[0];
  };
  EXPECT_NEAR(at("Gelu", x), 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))), 1e-15);
  EXPECT_NEAR(at("Gelu", x, {{"approximate", std::string("tanh")}}),
              0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))), 1e-15);
  EXPECT_NEAR(at("Mish", x), x * std::tanh(std::log(1 + std::exp(x))), 1e-15);
  EXPECT_NEAR(at("Softplus", 800), 800, 1e-12);  // would overflow spelled as log(1 + exp(x))
  EXPECT_NEAR(at("Sigmoid", -800), 0, 1e-300);
  EXPECT_NEAR(at("Elu", -x, {{"alpha", 2.0f}}), 2 * (std::exp(-x) - 1), 1e-15);
  EXPECT_NEAR(at("HardSwish", x), x * (x / 6 + 0.5), 1e-15);
  EXPECT_TRUE(std::isnan(at("Relu", NAN)) && std::isnan(at("Softplus", NAN)) && std::isnan(at("Sigmoid", NAN)));
}

TEST(Where, selects_whole_elements_of_any_type) {
  const Tensor condition = bools({2, 1}, {true, false});
  EXPECT_TENSOR(run("Where", {condition, i64({2}, {1, 2}), i64({}, {9})}), ({2, 2}), ({1, 2, 9, 9}));
  const Tensor words = run("Where", {condition, Tensor::of_strings({}, {"yes"}), Tensor::of_strings({}, {"no"})});
  EXPECT_EQ(words.strings(), (std::vector<std::string>{"yes", "no"}));
}

TEST(BitCast, keeps_the_bits_and_refuses_another_width) {
  const Tensor t = run("BitCast", {f32({1}, {1.0f})}, {{"to", static_cast<int64_t>(DType::u32)}});
  EXPECT_EQ(t.data<uint32_t>()[0], 0x3f800000u);
  EXPECT_THAT(error_of([] {
                run("BitCast", {f32({1}, {1.0f})}, {{"to", static_cast<int64_t>(DType::u16)}});
              }),
              HasSubstr("widths differ"));
}

}  // namespace
}  // namespace smelt::ops::test
