// What is made of one or two values of 8 bits and rounded to 8 bits again, by fewer instructions.
#include "expr/bytes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "expr/cpu.h"

namespace smelt::expr {
namespace {

/// Random programs over two bytes, as QuantizeLinear and DequantizeLinear are written.
struct Random {
  std::mt19937 random;
  double scale() { return std::exp(std::uniform_real_distribution<double>(-7, 1)(random)); }
  int zero(const char* type) { return std::uniform_int_distribution<int>(0, 255)(random) - (type[0] == 'i' ? 128 : 0); }
  Program program(const char* what, const char* a, const char* b, const char* to) {
    const auto number = [](double v) { return fmt::format("{:.17g}", static_cast<double>(static_cast<float>(v))); };
    const int first = to[0] == 'i' ? -128 : 0;
    return Program::parse(fmt::format(
        "(in0:{}, in1:{}) {{ %2 = cast(in0):i32; %3 = const({}):i32; %4 = sub(%2, %3):i32; %5 = cast(%4):f32; %6 = "
        "const({}):f32; "
        "%7 = mul(%5, %6):f32; %8 = cast(in1):i32; %9 = const({}):i32; %10 = sub(%8, %9):i32; %11 = cast(%10):f32; "
        "%12 = const({}):f32; %13 = mul(%11, %12):f32; %14 = {}:f32; %15 = const({}):f32; %16 = div(%14, %15):f32; "
        "%17 = round(%16):f32; %18 = const({}):f32; %19 = add(%17, %18):f32; %20 = const({}):f32; %21 = const({}):f32; "
        "%22 = clip(%19, %20, %21):f32; %23 = cast(%22):{}; return %23 }}",
        a, b, zero(a), number(scale()), zero(b), number(scale()), what, number(scale()), zero(to), first, first + 255, to));
  }
};

/// What the program gives of all pairs.
std::vector<uint8_t> results(const Program& p) {
  std::vector<uint8_t> a(65536), b(65536), to(65536), scratch;
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<uint8_t>(i), b[i] = static_cast<uint8_t>(i >> 8);
  const Evaluator e(p);
  scratch.resize(static_cast<size_t>(e.scratch()) + 64);
  void* aligned = scratch.data();
  size_t room = scratch.size();
  std::align(64, 1, aligned, room);
  const Operand in[] = {{a.data(), 1}, {b.data(), 1}};
  void* const out[] = {to.data()};
  e.run(65536, in, out, aligned);
  return to;
}

/// What the way gives of all pairs.
std::vector<uint8_t> results(const Program& p, Ref last, const OfBytes& way) {
  const auto number = [&](Ref value, size_t i) {
    const LessWhole less = *less_whole(p, p.code()[static_cast<size_t>(value)]);
    const auto byte = static_cast<uint8_t>(less.byte == 0 ? i : i >> 8);
    return static_cast<float>((p.type(less.byte) == DType::i8 ? static_cast<int8_t>(byte) : byte) - less.less);
  };
  const double zero = quantized(p, p.code()[static_cast<size_t>(last)])->zero, first = p.type(last) == DType::i8 ? -128 : 0;
  std::vector<uint8_t> to(65536);
  for (size_t i = 0; i < to.size(); ++i) {
    const float x = value(way, number(way.a, i), way.b < 0 ? 0 : number(way.b, i));
    const double whole = std::nearbyint(way.relu ? std::max(x, 0.f) : x) + zero;
    to[i] = static_cast<uint8_t>(static_cast<int>(std::clamp(whole, first, first + 255)));
  }
  return to;
}

TEST(OfBytes, gives_the_same_of_all_values_and_is_found_of_nearly_all_scales) {
  Random r{std::mt19937(5)};
  const char* const types[] = {"u8", "i8"};
  for (const char* what : {"add(%7, %13)", "mul(%7, %13)", "mul(%5, %12)", "hard_swish(%7)", "add(%13, %5)"}) {
    int found = 0, all = 0;
    for (int i = 0; i < 60; ++i) {
      const Program p = r.program(what, types[i % 2], types[i / 2 % 2], types[i / 4 % 2]);
      const Ref last = p.outputs()[0];
      const auto way = of_bytes(p, last);
      ++all;
      if (!way) continue;
      ++found;
      EXPECT_EQ(results(p, last, *way), results(p)) << p.print();
    }
    fmt::print("{}: {} of {}\n", what, found, all);
    EXPECT_GE(found, all * 8 / 10) << what;
  }
}

TEST(OfBytes, is_refused_where_sums_are_too_large_or_no_numbers) {
  const auto product = [](const char* scale) {
    return Program::parse(fmt::format(
        "(in0:u8, in1:u8) {{ %2 = cast(in0):f32; %3 = cast(in1):f32; %4 = mul(%2, %3):f32; %5 = const({}):f32; %6 = div(%4, "
        "%5):f32; "
        "%7 = round(%6):f32; %8 = const(0):f32; %9 = add(%7, %8):f32; %10 = const(255):f32; %11 = clip(%9, %8, %10):f32; "
        "%12 = cast(%11):u8; return %12 }}",
        scale));
  };
  for (const char* scale : {"300", "0.5", "0.04"}) EXPECT_TRUE(of_bytes(product(scale), 12)) << scale;
  for (const char* scale : {"0.03", "1e-30", "0", "nan"}) EXPECT_FALSE(of_bytes(product(scale), 12)) << scale;
}

}  // namespace
}  // namespace smelt::expr
