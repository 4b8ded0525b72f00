// Chains between bytes as tables, against every instruction by itself.
#include "expr/byte_tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "expr/cpu.h"
#include "expr/simd/look_up.h"
#include "support/random.h"

namespace smelt::expr {
namespace {

std::vector<Tensor> run(const Program& p, std::span<const Tensor> in, int64_t n, simd::Isa isa) {
  const Evaluator e(p, isa);
  std::vector<Operand> operands;
  for (const Tensor& t : in) operands.push_back({t.raw(), 1});
  std::vector<Tensor> out;
  std::vector<void*> pointers;
  for (Ref r : p.outputs()) pointers.push_back(out.emplace_back(Tensor::empty(p.type(r), {n})).raw());
  std::vector<uint64_t> scratch(static_cast<size_t>(e.scratch()) / 8 + 16);
  void* memory = scratch.data();
  size_t room = scratch.size() * 8;
  e.run(n, operands, pointers, std::align(64, static_cast<size_t>(e.scratch()), memory, room));
  return out;
}

/// Each instruction is a program of its own: none has a byte that another one leads to.
std::vector<Tensor> run_one_by_one(const Program& p, std::span<const Tensor> in, int64_t n) {
  std::vector<Tensor> values(in.begin(), in.end());
  for (size_t k = in.size(); k < p.code().size(); ++k) {
    const Instruction& c = p.code()[k];
    Program one;
    std::vector<Tensor> read;
    std::vector<Ref> args;
    for (Ref a : c.args)
      if (a >= 0) args.push_back(one.input(p.type(a))), read.push_back(values[static_cast<size_t>(a)]);
    if (c.fn == Fn::constant)
      one.output(one.constant(c.type, c.value));
    else if (c.fn == Fn::cast)
      one.output(one.cast(args[0], c.type));
    else
      one.output(args.size() == 1   ? one.call(c.fn, args[0])
                 : args.size() == 2 ? one.call(c.fn, args[0], args[1])
                                    : one.call(c.fn, args[0], args[1], args[2]));
    values.push_back(run(one, read, n, simd::Isa::base)[0]);
  }
  std::vector<Tensor> out;
  for (Ref r : p.outputs()) out.push_back(values[static_cast<size_t>(r)]);
  return out;
}

/// Programs of graphs in QDQ form, drawn by a seed: dequantized bytes, functions of them, sums and products, quantized again.
class Drawn {
 public:
  explicit Drawn(uint32_t seed) : draw_(seed) {
    const int inputs = 1 + pick(3);
    for (int i = 0; i < inputs; ++i) {
      const DType type = i == 0 || pick(3) ? any_byte() : DType::f32;
      (type == DType::f32 ? floats_ : bytes_).push_back(program.input(type));
    }
    for (int i = 4 + pick(10); i > 0; --i) step();
    const int outputs = 1 + pick(3);
    for (int i = 0; i < outputs; ++i) program.output(pick(4) || floats_.empty() ? bytes_.back() : floats_.back()), step();
    program.output(bytes_.back());
  }
  Program program;

 private:
  int pick(int n) { return static_cast<int>(draw_() % static_cast<uint32_t>(n)); }
  DType any_byte() { return pick(2) ? DType::u8 : DType::i8; }
  template <class T> T one_of(const std::vector<T>& v) {
    return v[v.size() - 1 - static_cast<size_t>(pick(static_cast<int>(std::min<size_t>(v.size(), 4))))];
  }
  Ref number(DType t, double v) { return program.constant(t, v); }
  double scale() { return static_cast<double>(std::exp(static_cast<float>(pick(1000)) / 250 - 4)); }

  Ref dequantized(Ref q) {
    Ref v = program.cast(q, DType::i32);
    if (pick(3)) v = program.call(Fn::sub, v, number(DType::i32, pick(255)));
    return program.call(Fn::mul, program.cast(v, DType::f32),
                        number(DType::f32, static_cast<double>(static_cast<float>(scale()))));
  }
  Ref quantized(Ref x) {
    const DType to = any_byte();
    const double low = to == DType::u8 ? 0 : -128;
    Ref v =
        program.call(Fn::round, program.call(Fn::div, x, number(DType::f32, static_cast<double>(static_cast<float>(scale())))));
    if (pick(3)) v = program.call(Fn::add, v, number(DType::f32, pick(200) + low));
    v = program.call(Fn::clip, v, number(DType::f32, low), number(DType::f32, low + 255));
    return program.cast(v, to);
  }
  void step() {
    constexpr Fn one[] = {Fn::gelu, Fn::silu, Fn::erf, Fn::hard_swish, Fn::sigmoid, Fn::tanh,
                          Fn::relu, Fn::exp,  Fn::abs, Fn::sqrt,       Fn::log};
    constexpr Fn two[] = {Fn::add, Fn::mul, Fn::sub, Fn::div, Fn::max};
    switch (floats_.empty() ? 0 : pick(6)) {
      case 0: return floats_.push_back(dequantized(one_of(bytes_)));
      case 1: return floats_.push_back(program.call(one[pick(std::size(one))], one_of(floats_)));
      case 2: {
        const Ref a = one_of(floats_), b = pick(2) ? one_of(floats_) : number(DType::f32, pick(7) - 3.0);
        return floats_.push_back(program.call(two[pick(std::size(two))], a, b));
      }
      case 3:
        if (const Ref a = one_of(bytes_); pick(4) == 0)
          return bytes_.push_back(program.call(pick(2) ? Fn::max : Fn::min, a, number(program.type(a), pick(100))));
        [[fallthrough]];
      default: bytes_.push_back(quantized(one_of(floats_)));
    }
  }

  std::mt19937 draw_;
  std::vector<Ref> bytes_, floats_;
};

Tensor values(DType t, int64_t n, uint32_t seed) {
  if (t == DType::f32) return random_tensor(t, {n}, seed, -40, 40);
  Tensor v = t == DType::u8 ? random_tensor(t, {n}, seed, 0, 255.99) : random_tensor(t, {n}, seed, -128, 127.99);
  for (int64_t i = 0; i < std::min<int64_t>(n, 256); ++i) static_cast<uint8_t*>(v.raw())[i] = static_cast<uint8_t>(i);
  return v;
}

TEST(ByteTables, give_the_bits_of_every_instruction_by_itself) {
  int with_tables = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Program p = Drawn(seed).program;
    with_tables += !byte_tables(p, simd::widest()).empty();
    for (const int64_t n : {1, 31, 777, 2500}) {
      std::vector<Tensor> in;
      for (int i = 0; i < p.input_count(); ++i) in.push_back(values(p.type(i), n, seed + static_cast<uint32_t>(i)));
      const auto want = run_one_by_one(p, in, n);
      for (const simd::Isa isa : {simd::Isa::base, simd::best(), simd::widest()}) {
        const auto got = run(p, in, n, isa);
        for (size_t o = 0; o < want.size(); ++o) {
          if (p.type(p.outputs()[o]) == DType::f32) continue;  // NaN has many bits
          ASSERT_EQ(std::memcmp(got[o].raw(), want[o].raw(), static_cast<size_t>(n)), 0) << seed << ": " << p.print();
        }
      }
    }
  }
  EXPECT_GT(with_tables, 200);
}

/// in1 less a zero point, times a scale, plus what in0 is, as bytes; then GELU as ONNX Runtime's quantizer writes it, every step in 8 bits.
Program gelu_in_steps(bool reads_numbers) {
  Program p;
  const Ref x = p.input(reads_numbers ? DType::f32 : DType::u8), q = p.input(DType::u8);
  const auto number = [&](double v) { return p.constant(DType::f32, static_cast<double>(static_cast<float>(v))); };
  const auto dequantized = [&](Ref b, double scale, int zero) {
    const Ref wide = p.call(Fn::sub, p.cast(b, DType::i32), p.constant(DType::i32, zero));
    return p.call(Fn::mul, p.cast(wide, DType::f32), number(scale));
  };
  const auto quantized = [&](Ref v, double scale, int zero) {
    const Ref r = p.call(Fn::add, p.call(Fn::round, p.call(Fn::div, v, number(scale))), number(zero));
    return p.cast(p.call(Fn::clip, r, number(0), number(255)), DType::u8);
  };
  const Ref other = reads_numbers ? x : dequantized(x, 0.03, 120);
  const Ref first = quantized(p.call(Fn::add, dequantized(q, 0.02, 128), other), 0.04, 128);
  const Ref v = dequantized(first, 0.04, 128), erf = p.call(Fn::erf, p.call(Fn::div, v, number(1.41421356)));
  const Ref one_more = quantized(p.call(Fn::add, dequantized(quantized(erf, 0.0078, 128), 0.0078, 128), number(1)), 0.0078, 0);
  const Ref product = quantized(p.call(Fn::mul, v, dequantized(one_more, 0.0078, 0)), 0.04, 9);
  p.output(quantized(p.call(Fn::mul, dequantized(product, 0.04, 9), number(0.5)), 0.02, 9));
  return p;
}

TEST(ByteTables, of_a_spelled_out_gelu_is_one_look_up_behind_what_it_is_of) {
  for (const bool reads_numbers : {false, true}) {
    const Program p = gelu_in_steps(reads_numbers);
    EXPECT_EQ(byte_tables(p, simd::widest()).size(), 1u);
    EXPECT_EQ(Evaluator(p).loops(), 2) << "the sum, quantized, and the table";
  }
}

TEST(ByteTables, of_two_outputs_go_back_to_the_same_byte) {
  const Program p = Program::parse(
      "(in0:u8) { %1 = cast(in0):f32; %2 = sigmoid(%1):f32; %3 = cast(%2):u8; %4 = cast(%3):f32; %5 = exp(%4):f32; "
      "%6 = cast(%5):i8; return %3, %6 }");
  const auto tables = byte_tables(p, simd::widest());
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables.at(3).from, 0);
  EXPECT_EQ(tables.at(6).from, 0);
  EXPECT_EQ(tables.at(6).bytes[0], 1);
  EXPECT_EQ(Evaluator(p).loops(), 2);
}

TEST(ByteTables, are_left_out_where_loops_over_bytes_are_few) {
  EXPECT_TRUE(byte_tables(Program::parse("(in0:u8, in1:f32) { %2 = const(7):u8; %3 = max(in0, %2):u8; %4 = const(9):u8; "
                                         "%5 = min(%3, %4):u8; return %5, in1 }"),
                          simd::widest())
                  .empty());
  EXPECT_TRUE(byte_tables(Program::parse("(in0:f32) { %1 = cast(in0):u8; return %1 }"), simd::widest()).empty());
}

TEST(LookUp, gives_the_tables_bytes_for_every_length_and_in_place) {
  std::vector<uint8_t> table(256), from(1200);
  std::mt19937 draw(5);
  for (uint8_t& b : table) b = static_cast<uint8_t>(draw());
  for (uint8_t& b : from) b = static_cast<uint8_t>(draw());
  std::vector<LookUp> forms = {base::look_up};
  if (simd::best() == simd::Isa::avx2) forms.push_back(avx2::look_up), forms.push_back(avx2::best_look_up());
  for (const LookUp look_up : forms)
    for (int64_t n = 0; n < 1200; n += n < 140 ? 1 : 211) {
      std::vector<uint8_t> to(1300, 0xab), own = from;
      look_up(to.data(), from.data(), n, table.data());
      look_up(own.data(), own.data(), n, table.data());
      for (int64_t i = 0; i < n; ++i) {
        const auto k = static_cast<size_t>(i);
        ASSERT_EQ(to[k], table[from[k]]) << n;
        ASSERT_EQ(own[k], table[from[k]]) << n;
      }
      ASSERT_EQ(to[static_cast<size_t>(n)], 0xab);
    }
}

}  // namespace
}  // namespace smelt::expr
