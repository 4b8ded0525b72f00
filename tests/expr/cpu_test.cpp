#include "expr/cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "support/random.h"

namespace smelt::expr {
namespace {

/// Runs a program over tensors of n elements (or one: repeated).
std::vector<Tensor> run(const Program& p, std::span<const Tensor> in, int64_t n, simd::Isa isa = simd::widest()) {
  const Evaluator e(p, isa);
  std::vector<Operand> operands;
  for (const Tensor& t : in) operands.push_back({t.raw(), t.size() == 1 ? 0 : 1});
  std::vector<Tensor> out;
  std::vector<void*> pointers;
  for (Ref r : p.outputs()) pointers.push_back(out.emplace_back(Tensor::empty(p.type(r), {n})).raw());
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  e.run(n, operands, pointers, scratch.data());
  return out;
}

Tensor random(DType t, int64_t n, uint32_t seed, double low = -4, double high = 4) {
  return random_tensor(t, {n}, seed, low, high);
}

template <class T> std::vector<T> values(const Tensor& t) { return {t.span<T>().begin(), t.span<T>().end()}; }

class Sizes : public testing::TestWithParam<int64_t> {};

TEST_P(Sizes, a_chain_equals_the_same_arithmetic_in_a_plain_loop) {
  const int64_t n = GetParam();
  const Program p = Program::parse(
      "(in0:f32, in1:f32, in2:f32) { %3 = const(0.5):f32; %4 = add(in0, in1):f32; %5 = mul(%4, in2):f32; %6 = relu(%5):f32; "
      "%7 = sub(%6, %3):f32; %8 = max(%7, in1):f32; return %8 }");
  const Tensor a = random(DType::f32, n, 1), b = random(DType::f32, n, 2), c = random(DType::f32, 1, 3);
  for (simd::Isa isa : {simd::Isa::base, simd::best(), simd::widest()}) {
    const Tensor y = run(p, std::vector{a, b, c}, n, isa)[0];
    for (int64_t i = 0; i < n; ++i) {
      const float s = (a.data<float>()[i] + b.data<float>()[i]) * c.data<float>()[0];
      ASSERT_EQ(y.data<float>()[i], std::max(std::max(s, 0.0f) - 0.5f, b.data<float>()[i])) << i;
    }
  }
}

// Around the registers (8), the blocks (at most 1024) and none at all.
INSTANTIATE_TEST_SUITE_P(Evaluator, Sizes, testing::Values(0, 1, 7, 8, 9, 127, 128, 129, 1023, 1024, 1025, 5000));

TEST(Evaluator, writes_nothing_behind_its_outputs) {
  const Program p = Program::parse("(in0:f32) { %1 = exp(in0):f32; %2 = cast(%1):f16; %3 = cast(%1):i8; return %1, %2, %3 }");
  const Tensor x = random(DType::f32, 1025, 4);
  const Evaluator e(p);
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  for (int64_t n : {1, 3, 8, 13, 1024, 1025}) {
    std::vector<uint8_t> a(5000, 0xab), b(5000, 0xab), c(5000, 0xab);
    const Operand in{x.raw(), 1};
    void* const out[] = {a.data(), b.data(), c.data()};
    e.run(n, {&in, 1}, out, scratch.data());
    EXPECT_EQ(a[static_cast<size_t>(n) * 4], 0xab);
    EXPECT_EQ(b[static_cast<size_t>(n) * 2], 0xab);
    EXPECT_EQ(c[static_cast<size_t>(n)], 0xab);
  }
}

TEST(Evaluator, reads_operands_at_any_stride) {
  const Program p = Program::parse("(in0:f32, in1:i16) { %2 = cast(in1):f32; %3 = add(in0, %2):f32; return %3 }");
  const int64_t n = 3000;
  const Tensor a = random(DType::f32, 3 * n, 5), b = random(DType::i16, 2 * n, 6, -1000, 1000);
  const Evaluator e(p);
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  std::vector<float> y(static_cast<size_t>(n));
  const Operand in[] = {{a.raw(), 3}, {b.data<int16_t>() + 2 * n - 1, -2}};
  void* const out[] = {y.data()};
  e.run(n, in, out, scratch.data());
  for (int64_t i = 0; i < n; ++i)
    ASSERT_EQ(y[static_cast<size_t>(i)], a.data<float>()[3 * i] + b.data<int16_t>()[2 * n - 1 - 2 * i]) << i;
}

TEST(Evaluator, returns_inputs_constants_and_the_same_value_twice) {
  const Program p = Program::parse("(in0:f32) { %1 = const(2.5):f32; %2 = neg(in0):f32; return in0, %1, %2, %2 }");
  const Tensor x = random(DType::f32, 2000, 7);
  const auto y = run(p, std::vector{x}, 2000);
  EXPECT_EQ(values<float>(y[0]), values<float>(x));
  EXPECT_EQ(values<float>(y[1]), std::vector<float>(2000, 2.5f));
  EXPECT_EQ(values<float>(y[2]), values<float>(y[3]));
  EXPECT_EQ(y[3].data<float>()[1999], -x.data<float>()[1999]);
}

TEST(Evaluator, may_write_over_its_input) {
  const Program p =
      Program::parse("(in0:f32, in1:f32) { %2 = mul(in0, in0):f32; %3 = add(%2, in1):f32; %4 = mul(%3, in0):f32; return %4 }");
  const Tensor x = random(DType::f32, 3001, 8), b = random(DType::f32, 3001, 9);
  const Tensor expected = run(p, std::vector{x, b}, 3001)[0];
  Tensor y = x.clone();
  const Evaluator e(p);
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  const Operand in[] = {{y.raw(), 1}, {b.raw(), 1}};
  void* const out[] = {y.raw()};
  e.run(3001, in, out, scratch.data());
  EXPECT_EQ(values<float>(y), values<float>(expected));
}

/// What functions.def says of integers, written again in 64 bits or more and wrapped at the end.
template <class T> T whole(Fn fn, T a, T b, T c) {
  using Wide = __int128;
  const Wide x = a, y = b, z = c;
  switch (fn) {
    case Fn::add: return static_cast<T>(x + y);
    case Fn::sub: return static_cast<T>(x - y);
    case Fn::mul: return static_cast<T>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y));
    case Fn::div: return static_cast<T>(y == 0 ? 0 : x / y);
    case Fn::fmod: return static_cast<T>(y == 0 ? 0 : x % y);
    case Fn::mod: return static_cast<T>(y == 0 ? 0 : ((x % y) + y) % y);
    case Fn::pow: {
      if (y < 0) return static_cast<T>(x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0);
      T r = 1;
      for (int i = 0; i < static_cast<int>(y); ++i) r = whole<T>(Fn::mul, r, a, T());
      return r;
    }
    case Fn::min: return std::min(a, b);
    case Fn::max: return std::max(a, b);
    case Fn::neg: return static_cast<T>(-x);
    case Fn::abs: return static_cast<T>(x < 0 ? -x : x);
    case Fn::sign: return static_cast<T>(x > 0 ? 1 : x < 0 ? -1 : 0);
    case Fn::relu: return std::max(a, T(0));
    case Fn::leaky_relu: return static_cast<T>(x < 0 ? x * y : x);
    case Fn::clip: return static_cast<T>(std::min(std::max(x, y), z));
    case Fn::bit_and: return static_cast<T>(a & b);
    case Fn::bit_or: return static_cast<T>(a | b);
    case Fn::bit_xor: return static_cast<T>(a ^ b);
    case Fn::bit_not: return static_cast<T>(~a);
    case Fn::shift_left:
      return static_cast<T>(y >= static_cast<Wide>(sizeof(T) * 8) ? 0 : static_cast<unsigned __int128>(x) << static_cast<int>(y));
    case Fn::shift_right: return static_cast<T>(y >= static_cast<Wide>(sizeof(T) * 8) ? 0 : x >> static_cast<int>(y));
    case Fn::less: return x < y;
    case Fn::less_equal: return x <= y;
    case Fn::greater: return x > y;
    case Fn::greater_equal: return x >= y;
    case Fn::equal: return x == y;
    default: ADD_FAILURE() << info(fn).name << " has no expectation"; return 0;
  }
}

template <class T> class Integers : public testing::Test {};
using IntegerTypes = testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Integers, IntegerTypes);

TYPED_TEST(Integers, wrap_divide_and_shift_as_documented) {
  using T = TypeParam;
  constexpr T top = std::numeric_limits<T>::max(), bottom = std::numeric_limits<T>::min();
  const std::vector<T> edge = {
      0,  1, 2, 3, 7, static_cast<T>(-1), static_cast<T>(-3), top, static_cast<T>(top - 1), bottom, static_cast<T>(bottom + 1),
      64, 5};
  std::vector<T> a, b, c;
  for (T x : edge)
    for (T y : edge) a.push_back(x), b.push_back(y), c.push_back(static_cast<T>(static_cast<uint64_t>(y) + 2));
  const auto n = static_cast<int64_t>(a.size());
  const std::vector<Tensor> in = {Tensor::of<T>({n}, a), Tensor::of<T>({n}, b), Tensor::of<T>({n}, c)};
  for (Fn fn : functions()) {
    if (!accepts(fn, dtype_of<T>::value) || fn == Fn::select) continue;
    Program p;
    const Ref x = p.input(dtype_of<T>::value), y = p.input(dtype_of<T>::value), z = p.input(dtype_of<T>::value);
    p.output(info(fn).arity == 1 ? p.call(fn, x) : info(fn).arity == 2 ? p.call(fn, x, y) : p.call(fn, x, y, z));
    for (simd::Isa isa : {simd::Isa::base, simd::best(), simd::widest()}) {
      const Tensor out = run(p, in, n, isa)[0].cast(dtype_of<T>::value);
      for (size_t i = 0; i < a.size(); ++i) {
        // A power's expectation multiplies b times: only where that ends.
        if (fn == Fn::pow && b[i] > T(64)) continue;
        ASSERT_EQ(out.template data<T>()[i], whole<T>(fn, a[i], b[i], c[i]))
            << info(fn).name << ' ' << +a[i] << ' ' << +b[i] << ' ' << +c[i];
      }
    }
  }
}

TEST(Evaluator, computes_in_double_to_a_doubles_precision) {
  const Tensor x = random(DType::f64, 999, 10);
  for (auto [fn, exact] :
       {std::pair<Fn, double (*)(double)>{Fn::exp, std::exp}, {Fn::tanh, std::tanh}, {Fn::erf, std::erf}, {Fn::sin, std::sin}}) {
    Program p;
    p.output(p.call(fn, p.input(DType::f64)));
    const Tensor y = run(p, std::vector{x}, 999)[0];
    for (int64_t i = 0; i < 999; ++i)
      ASSERT_NEAR(y.data<double>()[i], exact(x.data<double>()[i]), 1e-14 * std::exp(4)) << info(fn).name;
  }
}

TEST(Evaluator, chooses_and_compares) {
  const Program p = Program::parse(
      "(in0:f32, in1:f32) { %2 = less(in0, in1):bool; %3 = select(%2, in0, in1):f32; %4 = logical_not(%2):bool; %5 = "
      "is_nan(in0):bool; "
      "%6 = logical_or(%4, %5):bool; %7 = is_inf(in1):bool; return %3, %6, %7 }");
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto y =
      run(p, std::vector{Tensor::of<float>({5}, {1, 2, nan, -inf, 0}), Tensor::of<float>({5}, {2, 1, 0, inf, -inf})}, 5);
  EXPECT_EQ(values<float>(y[0]), (std::vector<float>{1, 1, 0, -inf, -inf}));
  EXPECT_EQ(values<bool>(y[1]), (std::vector<bool>{false, true, true, false, true}));
  EXPECT_EQ(values<bool>(y[2]), (std::vector<bool>{false, false, false, true, true}));
}

TEST(Evaluator, converts_between_all_types_as_a_tensors_cast_does) {
  const DType types[] = {DType::f32, DType::f64, DType::i8,  DType::i16,     DType::i32, DType::i64, DType::u8,
                         DType::u16, DType::u32, DType::u64, DType::boolean, DType::f16, DType::bf16};
  const Tensor numbers = random(DType::f64, 777, 11, 0, 100);  // in the range of every type: no saturation
  for (DType from : types)
    for (DType to : types) {
      if (from == to) continue;
      const Tensor x = numbers.cast(from);
      const Tensor y = run(conversion(from, to), std::vector{x}, x.size())[0];
      EXPECT_EQ(y.to_doubles(), x.cast(to).to_doubles()) << name(from) << " to " << name(to);
    }
}

TEST(Evaluator, saturates_floats_outside_an_integers_range) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::of<double>({6}, {1e30, -1e30, inf, -inf, std::nan(""), -1.9});
  auto to = [&](DType t) { return run(conversion(DType::f64, t), std::vector{x}, 6)[0]; };
  EXPECT_EQ(to(DType::i8).to_ints(), (std::vector<int64_t>{127, -128, 127, -128, 0, -1}));
  EXPECT_EQ(to(DType::u16).to_ints(), (std::vector<int64_t>{65535, 0, 65535, 0, 0, 0}));
  EXPECT_EQ(values<int64_t>(to(DType::i64))[0], std::numeric_limits<int64_t>::max());
  EXPECT_EQ(values<int64_t>(to(DType::i64))[1], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(values<uint64_t>(to(DType::u64))[2], std::numeric_limits<uint64_t>::max());
}

TEST(Evaluator, rounds_every_half_as_the_base_library_does) {
  // All 65,536 halves and, between each two neighbours, the midpoint and its two sides.
  for (DType t : {DType::f16, DType::bf16}) {
    std::vector<float> x;
    auto decode = [&](uint32_t u) {
      return t == DType::f16 ? half_to_float(static_cast<uint16_t>(u)) : bfloat_to_float(static_cast<uint16_t>(u));
    };
    for (uint32_t u = 0; u < 65535; ++u) {
      const float a = decode(u), b = decode(u + 1);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      const float middle = static_cast<float>((static_cast<double>(a) + b) / 2);
      x.insert(x.end(), {a, middle, std::nextafter(middle, a), std::nextafter(middle, b)});
    }
    x.insert(x.end(), {1e30f, -1e30f, std::numeric_limits<float>::infinity(), std::nanf("")});
    const auto n = static_cast<int64_t>(x.size());
    for (simd::Isa isa : {simd::Isa::base, simd::best(), simd::widest()}) {
      const Tensor half = run(conversion(DType::f32, t), std::vector{Tensor::of<float>({n}, x)}, n, isa)[0];
      const Tensor back = run(conversion(t, DType::f32), std::vector{half}, n, isa)[0];
      for (int64_t i = 0; i < n; ++i) {
        const uint16_t bits = static_cast<const uint16_t*>(half.raw())[i];
        const float v = x[static_cast<size_t>(i)];
        if (std::isnan(v)) {
          ASSERT_TRUE(std::isnan(decode(bits)));
          continue;
        }
        ASSERT_EQ(bits, t == DType::f16 ? float_to_half(v) : float_to_bfloat(v)) << v;
        ASSERT_EQ(back.data<float>()[i], decode(bits));
      }
    }
  }
}

TEST(Gather, reads_the_elements_and_nothing_behind_them) {
  for (const int bytes : {1, 2, 4, 8})
    for (const int64_t stride : {0, 1, 2, 3})
      for (int64_t n = 1; n < 14; ++n) {
        const auto size = static_cast<size_t>(bytes);
        std::vector<uint8_t> from((static_cast<size_t>((n - 1) * stride) + 1) * size), to(static_cast<size_t>(n) * size);
        std::iota(from.begin(), from.end(), uint8_t{1});
        gather(to.data(), from.data(), stride, n, bytes);
        for (size_t i = 0; i < to.size(); ++i)
          ASSERT_EQ(to[i], from[i / size * static_cast<size_t>(stride) * size + i % size]) << bytes << ' ' << stride << ' ' << n;
      }
}

}  // namespace
}  // namespace smelt::expr
