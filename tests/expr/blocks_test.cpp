// The loops of the CPU evaluator: every function and cast, for every type, on every instruction set, at every length.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "expr/cpu.h"
#include "support/random.h"

namespace smelt::expr {
namespace {

constexpr DType all_types[] = {DType::f32, DType::f64, DType::i8,  DType::i16,     DType::i32, DType::i64, DType::u8,
                               DType::u16, DType::u32, DType::u64, DType::boolean, DType::f16, DType::bf16};

std::vector<simd::Isa> instruction_sets() {
  std::vector<simd::Isa> all;
  for (simd::Isa isa : {simd::Isa::base, simd::Isa::avx2, simd::Isa::avx512})
    if (isa <= simd::widest()) all.push_back(isa);
  return all;
}

/// The program's one output over elements [begin, begin + n) of `in`, as bytes.
std::vector<uint8_t> run(const Program& p, std::span<const Tensor> in, int64_t begin, int64_t n, simd::Isa isa) {
  const Evaluator e(p, isa);
  std::vector<Operand> operands;
  for (const Tensor& t : in) operands.push_back({static_cast<const char*>(t.raw()) + begin * (t.nbytes() / t.size()), 1});
  const Tensor out = Tensor::empty(p.type(p.outputs()[0]), {n});
  void* const to = const_cast<void*>(out.raw());
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  e.run(n, operands, {&to, 1}, scratch.data());
  const auto* bytes = static_cast<const uint8_t*>(out.raw());
  return {bytes, bytes + out.nbytes()};
}

/// Numbers of every kind that the type has, in no order that a loop could follow.
Tensor numbers(DType t, int64_t n, uint32_t seed) {
  if (t == DType::boolean) {
    const Tensor r = random_tensor(DType::f32, {n}, seed, 0, 1);
    Tensor b = Tensor::empty(t, {n});
    for (int64_t i = 0; i < n; ++i) b.data<bool>()[i] = r.data<float>()[i] > 0.5f;
    return b;
  }
  const bool flt = is_float(t);
  Tensor x = random_tensor(DType::f64, {n}, seed, is_signed(t) || flt ? -100 : 0, 100);
  const double inf = std::numeric_limits<double>::infinity();
  if (flt)
    for (int64_t i = 3; i < n; i += 11)
      x.data<double>()[i] = std::array{inf, -inf, std::nan(""), 0.0, -0.0, 1e30, -1e30, 0.3}[static_cast<size_t>(i / 11 % 8)];
  return x.cast(t);
}

Program call(Fn fn, DType t) {
  Program p;
  const Ref a = p.input(fn == Fn::select ? DType::boolean : t), b = p.input(t), c = p.input(t);
  p.output(info(fn).arity == 1 ? p.call(fn, a) : info(fn).arity == 2 ? p.call(fn, a, b) : p.call(fn, a, b, c));
  return p;
}

/// NaNs are equal, whatever their bits.
bool same(DType t, const uint8_t* a, const uint8_t* b, size_t width) {
  if (std::memcmp(a, b, width) == 0) return true;
  const auto is_nan = [&](const uint8_t* bytes) {
    float f = 0;
    double d = 0;
    if (t == DType::f32) std::memcpy(&f, bytes, sizeof f);
    if (t == DType::f64) std::memcpy(&d, bytes, sizeof d);
    return std::isnan(f) || std::isnan(d);
  };
  return is_nan(a) && is_nan(b);
}

constexpr int64_t count = 131;  // two 64-byte registers of bytes, and an odd rest

// An element's result is the same whether a register or the rest of a loop computes it.
TEST(Blocks, an_element_does_not_depend_on_its_place) {
  for (simd::Isa isa : instruction_sets())
    for (Fn fn : functions())
      for (DType t : all_types) {
        if (!accepts(fn, t)) continue;
        const Program p = call(fn, t);
        const Tensor in[] = {numbers(p.type(0), count, 1), numbers(t, count, 2), numbers(t, count, 3)};
        const auto all = run(p, in, 0, count, isa);
        const DType result = p.type(p.outputs()[0]);
        const size_t width = all.size() / count;
        for (const int64_t n : {1, 5, 19}) {
          for (int64_t i = 0; i + n <= count; i += n) {
            const auto part = run(p, in, i, n, isa);
            for (size_t k = 0; k < static_cast<size_t>(n); ++k)
              ASSERT_TRUE(same(result, &part[k * width], &all[(static_cast<size_t>(i) + k) * width], width))
                  << info(fn).name << ' ' << name(t) << ", element " << i << " + " << k << " of " << n << ", isa "
                  << static_cast<int>(isa);
          }
        }
      }
}

// What does not round is the same on all instruction sets: integers, bools, choices and comparisons.
TEST(Blocks, instruction_sets_agree_where_nothing_rounds) {
  for (Fn fn : functions())
    for (DType t : all_types) {
      if (!accepts(fn, t) || (is_float(t) && !info(fn).predicate && fn != Fn::select && fn != Fn::clip && fn != Fn::max))
        continue;
      const Program p = call(fn, t);
      const Tensor in[] = {numbers(p.type(0), count, 4), numbers(t, count, 5), numbers(t, count, 6)};
      const auto expected = run(p, in, 0, count, simd::Isa::base);
      const size_t width = expected.size() / count;
      for (simd::Isa isa : instruction_sets()) {
        const auto found = run(p, in, 0, count, isa);
        for (size_t i = 0; i < count; ++i)
          ASSERT_TRUE(same(p.type(p.outputs()[0]), &found[i * width], &expected[i * width], width))
              << info(fn).name << ' ' << name(t);
      }
    }
}

TEST(Blocks, choose_what_the_condition_says_for_every_type) {
  for (DType t : all_types) {
    if (!accepts(Fn::select, t)) continue;
    const Program p = call(Fn::select, t);
    const Tensor c = numbers(DType::boolean, count, 7), a = numbers(t, count, 8), b = numbers(t, count, 9);
    const size_t width = static_cast<size_t>(a.nbytes()) / count;
    for (simd::Isa isa : instruction_sets()) {
      const auto y = run(p, std::array{c, a, b}, 0, count, isa);
      for (size_t i = 0; i < count; ++i) {
        const Tensor& chosen = c.data<bool>()[i] ? a : b;
        ASSERT_EQ(std::memcmp(&y[i * width], static_cast<const uint8_t*>(chosen.raw()) + i * width, width), 0)
            << name(t) << ' ' << i;
      }
    }
  }
}

/// As functions.def and program.h say it: truncated, moved into the range, 0 for NaN.
template <class To> To expected(double v) {
  if (std::isnan(v)) return 0;
  const long double whole = std::trunc(static_cast<long double>(v)), low = std::numeric_limits<To>::min(),
                    high = std::numeric_limits<To>::max();
  return static_cast<To>(std::min(std::max(whole, low), high));
}

template <class To, class From> void check_saturation() {
  const From inf = std::numeric_limits<From>::infinity();
  std::vector<From> x = {inf, -inf, std::numeric_limits<From>::quiet_NaN(), From(-0.5), From(0.999), From(-1), 1e30f, -1e30f};
  for (int power : {7, 8, 15, 16, 31, 32, 51, 52, 53, 63, 64})
    for (int sign : {1, -1}) {
      const From edge = std::ldexp(static_cast<From>(sign), power);
      for (From v : {edge, std::nextafter(edge, From(0)), std::nextafter(edge, inf * sign), edge - 1, edge + 1}) x.push_back(v);
    }
  const auto n = static_cast<int64_t>(x.size());
  const Tensor in = Tensor::of<From>({n}, x);
  for (simd::Isa isa : instruction_sets())
    for (int64_t begin : {0, 1, 6, 70}) {  // each in other places of registers, and in the rest of a loop
      const auto y = run(conversion(dtype_of<From>::value, dtype_of<To>::value), {&in, 1}, begin, n - begin, isa);
      for (int64_t i = begin; i < n; ++i) {
        To found;
        std::memcpy(&found, &y[static_cast<size_t>(i - begin) * sizeof(To)], sizeof found);
        const From v = x[static_cast<size_t>(i)];
        ASSERT_EQ(found, expected<To>(v)) << v << " to " << name(dtype_of<To>::value) << ", isa " << static_cast<int>(isa);
      }
    }
}

template <class T> class Saturation : public testing::Test {};
using Integers = testing::Types<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Saturation, Integers);

TYPED_TEST(Saturation, moves_floats_into_the_range_of_the_type) {
  check_saturation<TypeParam, float>();
  check_saturation<TypeParam, double>();
}

TEST(Blocks, rows_are_gathered_one_behind_the_other) {
  for (const int bytes : {1, 2, 4, 8})
    for (const int64_t stride : {0, 1, 2, 5})
      for (const int64_t row_stride : {0, 1, 7})
        for (int64_t n : {1, 2, 3, 7, 8, 31, 40, 67}) {
          constexpr int64_t rows = 3;
          const auto size = static_cast<size_t>(bytes), wanted = static_cast<size_t>(n * rows) * size;
          std::vector<uint8_t> from(static_cast<size_t>((n - 1) * stride + (rows - 1) * row_stride + 1) * size),
              to(wanted + 1, 0xab);
          for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 37 >> 2);
          gather_of(bytes)(to.data(), from.data(), stride, n, row_stride, rows);
          for (size_t i = 0; i < wanted; ++i) {
            const auto e = static_cast<int64_t>(i / size), at = e / n * row_stride + e % n * stride;
            ASSERT_EQ(to[i], from[static_cast<size_t>(at) * size + i % size])
                << bytes << ' ' << stride << ' ' << row_stride << ' ' << n;
          }
          ASSERT_EQ(to[wanted], 0xab) << bytes << ' ' << stride << ' ' << n;
        }
}

/// Multiples of 0.0125, beside numbers of every kind: quotients that end in a half, and none near it.
Tensor numbers_of_halves(int64_t n) {
  Tensor x = numbers(DType::f32, n, 9);
  for (int64_t i = 0; i < n; i += 2) x.data<float>()[i] = static_cast<float>(i % 1777 - 800) * 0.0125f;
  return x;
}

/// The first output over all elements, as bytes.
std::vector<uint8_t> first_output(const Program& p, std::span<const Tensor> in, int64_t n, simd::Isa isa) {
  const Evaluator e(p, isa);
  std::vector<Operand> operands;
  for (const Tensor& t : in) operands.push_back({t.raw(), 1});
  std::vector<Tensor> out;
  std::vector<void*> to;
  for (Ref r : p.outputs()) to.push_back(out.emplace_back(Tensor::empty(p.type(r), {n})).raw());
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
  e.run(n, operands, to, scratch.data());
  const auto* bytes = static_cast<const uint8_t*>(out[0].raw());
  return {bytes, bytes + out[0].nbytes()};
}

TEST(Blocks, chains_of_quantized_numbers_give_the_bits_of_their_steps) {
  const std::string types[] = {"u8", "i8", "u16", "i16"};
  const std::string limits[] = {"0, 255", "-128, 127", "0, 65535", "-32768, 32767"};
  for (size_t t = 0; t < 4; ++t)
    for (const char* scale : {"const(0.05)", "const(0.25)", "const(3e-38)", "abs(in2)"})
      for (const char* zero : {"const(3)", "const(-100)", "const(0.5)", "const(4)"}) {
        const bool clips = std::string(zero) != "const(4)";  // else by two functions, as ONNX's operators have it
        const std::string low = limits[t].substr(0, limits[t].find(',')), high = limits[t].substr(limits[t].find(' ') + 1);
        const std::string numbers = fmt::format(
            "(in0:f32, in1:{0}, in2:f32) {{ %3 = cast(in1):i32; %4 = const(7):i32; %5 = sub(%3, %4):i32; %6 = cast(%5):f32; "
            "%7 = {1}:f32; %8 = mul(%6, %7):f32; %9 = add(in0, %8):f32; %10 = div(%9, %7):f32; %11 = round(%10):f32; "
            "%12 = {2}:f32; %13 = add(%11, %12):f32; %14 = const({3}):f32; %15 = const({4}):f32; %16 = {5}:f32; "
            "%17 = {6}:f32; %18 = cast(%17):{0}; return %18",
            types[t], scale, zero, low, high, clips ? "neg(%13)" : "max(%13, %14)",
            clips ? "clip(%13, %14, %15)" : "min(%16, %15)");
        const Program one = Program::parse(numbers + " }"), steps = Program::parse(numbers + ", %5, %11, %17 }");
        constexpr int64_t n = 2500;
        Tensor x = numbers_of_halves(n), scales = random_tensor(DType::f32, {n}, 5, 0.01, 2);
        const std::vector<Tensor> in = {x, random_tensor(one.type(1), {n}, 6, 0, 120), scales};
        for (simd::Isa isa : instruction_sets()) {
          EXPECT_LT(Evaluator(one, isa).loops(), Evaluator(steps, isa).loops() - 4) << numbers;
          EXPECT_EQ(first_output(one, in, n, isa), first_output(steps, in, n, isa)) << numbers;
        }
      }
}

TEST(Blocks, sums_and_products_of_quantized_numbers_are_one_loop_with_the_bits_of_their_steps) {
  for (const char* type : {"u8", "i8", "u16", "i16"})
    for (const char* op : {"add", "mul"})
      for (const char* second : {"integers", "floats", "floats first"})
        for (const char* scale : {"0.05", "0.1", "0.0371"}) {
          const bool both = std::string(second) == "integers", wide = std::string(type).ends_with("16");
          const double least = type[0] == 'u' ? 0 : wide ? -32768 : -128, most = least + (wide ? 65535 : 255);
          const std::string numbers = fmt::format(
              "(in0:{0}, in1:{1}) {{ %2 = const(0.05):f32; %3 = cast(in0):i32; %4 = const(7):i32; %5 = sub(%3, %4):i32; "
              "%6 = cast(%5):f32; %7 = mul(%6, %2):f32; {2}%12 = {3}({4}):f32; %13 = const({5}):f32; %14 = div(%12, %13):f32; "
              "%15 = round(%14):f32; %16 = const(-3):f32; %17 = add(%15, %16):f32; %18 = const({6}):f32; %19 = const({7}):f32; "
              "%20 = clip(%17, %18, %19):f32; %21 = cast(%20):{0}; return %21",
              type, both ? type : "f32",
              both ? "%8 = cast(in1):i32; %9 = sub(%8, %4):i32; %10 = cast(%9):f32; %11 = mul(%10, %2):f32; "
                   : "%8 = const(0):i32; %9 = const(0):i32; %10 = const(0):f32; %11 = neg(in1):f32; ",
              op, std::string(second) == "floats first" ? "%11, %7" : "%7, %11", scale, least, most);
          const Program one = Program::parse(numbers + " }"), steps = Program::parse(numbers + ", %7, %12, %17 }");
          constexpr int64_t n = 2503;
          const std::vector<Tensor> in = {random_tensor(one.type(0), {n}, 6, least, most),
                                          both ? random_tensor(one.type(1), {n}, 7, least, most) : numbers_of_halves(n)};
          for (simd::Isa isa : instruction_sets()) {
            EXPECT_LE(Evaluator(one, isa).loops(), both ? 1 : 2) << numbers;
            EXPECT_EQ(first_output(one, in, n, isa), first_output(steps, in, n, isa)) << numbers;
          }
        }
}

/// Rows of one element repeated, copied and strided, for every width, length and count that registers treat apart.
template <class T> void check_gather(const BlockTable& table, int width) {
  std::vector<T> from(400), to(4000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 7 + 1);
  for (int64_t n = 0; n <= 34; ++n)
    for (const int64_t rows : {0, 1, 2, 3, 7, 15, 16, 17, 33, 64, 100})
      for (const auto& [stride, row_stride] : {std::pair<int64_t, int64_t>{0, 1}, {0, 3}, {1, 2}, {1, 0}, {2, 1}}) {
        if (rows * row_stride + n * stride > 390) continue;
        std::ranges::fill(to, T(0));
        table.gather[width](to.data(), from.data(), stride, n, row_stride, rows);
        for (int64_t i = 0; i < rows * n + 40 && i < 4000; ++i) {
          const T want = i < rows * n ? from[static_cast<size_t>(i / n * row_stride + i % n * stride)] : T(0);
          ASSERT_EQ(to[static_cast<size_t>(i)], want)
              << n << " a row, " << rows << " rows, strides " << stride << ", " << row_stride;
        }
      }
}

TEST(Blocks, every_instruction_set_gathers_rows) {
  for (const simd::Isa isa : instruction_sets()) {
    const BlockTable& table = isa == simd::Isa::base   ? base::block_table()
                              : isa == simd::Isa::avx2 ? avx2::block_table()
                                                       : avx512::block_table();
    check_gather<uint8_t>(table, 0);
    check_gather<uint16_t>(table, 1);
    check_gather<uint32_t>(table, 2);
    check_gather<uint64_t>(table, 3);
  }
}

// A cast from bool takes every byte but 0 for true, a cast to bool gives 0 or 1; registers of them and what is left behind.
TEST(Blocks, bytes_and_bools_are_cast_at_every_length) {
  std::vector<uint8_t> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i % 5 ? i * 37 : 0);
  for (const simd::Isa isa : instruction_sets())
    for (const auto& [from, to] : {std::pair{DType::boolean, DType::u8},
                                   {DType::boolean, DType::i8},
                                   {DType::u8, DType::boolean},
                                   {DType::i8, DType::boolean}}) {
      const Evaluator e(conversion(from, to), isa);
      std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 8);
      for (const int64_t n : {1, 15, 31, 32, 33, 127, 128, 129, 200, 1000}) {
        std::vector<uint8_t> y(static_cast<size_t>(n) + 8, 9);
        void* out = y.data();
        const Operand in{bytes.data(), 1};
        e.run(n, {&in, 1}, {&out, 1}, scratch.data());
        for (size_t i = 0; i < y.size(); ++i)
          ASSERT_EQ(y[i], i >= static_cast<size_t>(n) ? 9 : bytes[i] != 0) << name(from) << " to " << name(to) << ", " << n;
      }
    }
}

}  // namespace
}  // namespace smelt::expr
