// Pointwise programs over quantized tensors, against the evaluator.
#include <fmt/format.h>

#include <cstring>
#include <random>

#include "expr/cpu.h"
#include "ops/cpu/integer/row_program.h"
#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

/// Text of an instruction list, numbered from `next` on.
struct Text {
  int next;
  std::string text;
  std::string line(const std::string& what) {
    text += "%" + std::to_string(next) + " = " + what + "; ";
    return "%" + std::to_string(next++);
  }
  std::string quantized(const std::string& x, const std::string& scale, int zero, const std::string& type) {
    const std::string s = line("const(" + scale + "):f32"), d = line("div(" + x + ", " + s + "):f32"),
                      r = line("round(" + d + "):f32");
    const std::string z = line("const(" + std::to_string(zero) + "):f32"), a = line("add(" + r + ", " + z + "):f32");
    const std::string low = line(type == "i8" ? "const(-128):f32" : "const(0):f32"),
                      high = line(type == "i8" ? "const(127):f32" : "const(255):f32");
    return line("cast(" + line("clip(" + a + ", " + low + ", " + high + "):f32") + "):" + type);
  }
  std::string dequantized(const std::string& q, const std::string& scale, int zero) {
    const std::string wide = line("cast(" + q + "):i32"), z = line("const(" + std::to_string(zero) + "):i32");
    const std::string f = line("cast(" + line("sub(" + wide + ", " + z + "):i32") + "):f32"),
                      s = line("const(" + scale + "):f32");
    return line("mul(" + f + ", " + s + "):f32");
  }
};

Tensor values(DType t, int64_t n, uint32_t seed) {
  Tensor v = t == DType::f32  ? random_tensor(t, {n}, seed, -40, 40)
             : t == DType::u8 ? random_tensor(t, {n}, seed, 0, 255.99)
                              : random_tensor(t, {n}, seed, -128, 127.99);
  if (t == DType::f32 && n > 5) {
    v.data<float>()[1] = NAN;
    v.data<float>()[2] = INFINITY;
    v.data<float>()[3] = -INFINITY;
    v.data<float>()[4] = 1e30f;
    v.data<float>()[5] = 0.25f;  // half a step
  }
  return v;
}

/// What runs `text`, its row program where it has one, gives the bits of the evaluator without wide registers, for every length up to
/// 40, and a long one.
void expect_same_bits(const std::string& text, bool has_row_program = true) {
  const expr::Program p = expr::Program::parse(text);
  const auto rows = integer::RowProgram::match(p);
  ASSERT_EQ(rows.has_value(), has_row_program) << text;
  const expr::Evaluator evaluator(p, simd::Isa::base), widest(p);
  std::vector<uint8_t> memory(static_cast<size_t>(std::max(evaluator.scratch(), widest.scratch())) + 64);
  for (int64_t n = 1; n <= 1000; n += n < 40 ? 1 : 317) {
    std::vector<Tensor> in;
    std::vector<expr::Operand> operands;
    for (int i = 0; i < p.input_count(); ++i) {
      in.push_back(values(p.type(i), n, static_cast<uint32_t>(i + 1)));
      operands.push_back({in.back().raw(), 1});
    }
    const DType type = p.type(p.outputs()[0]);
    Tensor got = Tensor::empty(type, {n}), want = Tensor::empty(type, {n});
    void* out = want.raw();
    evaluator.run(n, operands, std::span(&out, 1), aligned(memory));
    out = got.raw();
    if (rows)
      rows->run(n, operands, out);
    else
      widest.run(n, operands, std::span(&out, 1), aligned(memory));
    ASSERT_EQ(std::memcmp(got.raw(), want.raw(), static_cast<size_t>(got.nbytes())), 0) << text << " n = " << n;
  }
}

TEST(QuantizedPointwise, quantizes_as_the_evaluator_does) {
  for (const char* type : {"u8", "i8"}) {
    Text t{1, ""};
    const std::string y = t.quantized("in0", "0.5", 7, type);
    expect_same_bits("(in0:f32) { " + t.text + "return " + y + " }");
  }
}

TEST(QuantizedPointwise, dequantizes_as_the_evaluator_does) {
  for (const char* type : {"u8", "i8"}) {
    Text t{1, ""};
    const std::string y = t.dequantized("in0", "0.37", 11);
    expect_same_bits(std::string("(in0:") + type + ") { " + t.text + "return " + y + " }", false);
  }
}

TEST(QuantizedPointwise, adds_and_multiplies_as_the_evaluator_does) {
  for (const char* a : {"u8", "i8", "f32"}) {
    for (const char* b : {"u8", "f32"}) {
      for (const char* op : {"add", "mul"}) {
        Text t{2, ""};
        const std::string x = std::string_view(a) == "f32" ? "in0" : t.dequantized("in0", "0.37", 11);
        const std::string y = std::string_view(b) == "f32" ? "in1" : t.dequantized("in1", "0.21", 90);
        const std::string q = t.quantized(t.line(std::string(op) + "(" + x + ", " + y + "):f32"), "1.3", 120, "u8");
        expect_same_bits(std::string("(in0:") + a + ", in1:" + b + ") { " + t.text + "return " + q + " }",
                         std::string_view(a) != "f32" && std::string_view(b) != "f32");
      }
    }
  }
}

/// Of any scales and zero points: some of whose pairs all are right by multiplication, others with numbers half way between two steps.
TEST(QuantizedPointwise, adds_and_multiplies_every_pair_of_bytes_as_the_evaluator_does) {
  constexpr int64_t bytes = 256, pairs = bytes * bytes;
  std::mt19937 draw(31);
  const auto number = [&](double low, double high) { return low + (high - low) * (draw() % 10'007) / 10'007.0; };
  const char* same[][3] = {{"0.05", "0.05", "0.05"}, {"0.5", "0.25", "1"}, {"0.1", "0.3", "0.2"}, {"1", "1", "3"}};
  for (int i = 0; i < 28; ++i) {
    const auto scale = [&](int k) { return i < 4 ? std::string(same[i][k]) : fmt::format("{:.9g}", std::exp(number(-6, 2))); };
    const char *a = draw() % 2 ? "u8" : "i8", *b = draw() % 2 ? "u8" : "i8", *y = draw() % 3 ? "u8" : "i8";
    const bool multiplies = i > 3 && draw() % 2, clips = draw() % 4 == 0;
    Text t{2, ""};
    const std::string p = t.dequantized("in0", scale(0), static_cast<int>(draw() % 100)),
                      q = t.dequantized("in1", scale(1), static_cast<int>(draw() % 100));
    std::string z = t.line(std::string(multiplies ? "mul(" : "add(") + p + ", " + q + "):f32");
    if (clips) z = t.line("relu(" + z + "):f32");
    const std::string r = t.quantized(z, scale(2), i < 4 ? 3 : static_cast<int>(draw() % 100), y);
    const std::string text = std::string("(in0:") + a + ", in1:" + b + ") { " + t.text + "return " + r + " }";
    const expr::Program program = expr::Program::parse(text);
    const auto rows = integer::RowProgram::match(program);
    ASSERT_TRUE(rows.has_value()) << text;
    const expr::Evaluator evaluator(program, simd::Isa::base);
    std::vector<uint8_t> memory(static_cast<size_t>(evaluator.scratch()) + 64), in[2], want(pairs), got(pairs), by_rows(pairs);
    for (int64_t k = 0; k < pairs; ++k)
      in[0].push_back(static_cast<uint8_t>(k % bytes)), in[1].push_back(static_cast<uint8_t>(k / bytes));
    const expr::Operand both[] = {{in[0].data(), 1}, {in[1].data(), 1}};
    void* out = want.data();
    evaluator.run(pairs, both, std::span(&out, 1), aligned(memory));
    for (int round = 0; round < 20; ++round) {  // before and after all pairs have been tried
      rows->run(pairs, both, got.data());
      ASSERT_EQ(got, want) << text;
    }
    for (int64_t k = 0; k < pairs; k += bytes) {
      const expr::Operand one[] = {{in[0].data() + k, 1}, {in[1].data() + k, 0}};
      rows->run(bytes, one, by_rows.data() + k);
    }
    ASSERT_EQ(by_rows, want) << text;
  }
}

/// All bytes against all, chosen by booleans; operands and the booleans may be one element for all of a run.
TEST(QuantizedPointwise, chooses_as_the_evaluator_does) {
  constexpr int64_t bytes = 256, pairs = bytes * bytes, lengths[] = {1, 31, 33, 1000, 1024, 1057, 2100, pairs};
  std::mt19937 draw(7);
  for (int i = 0; i < 12; ++i) {
    const auto scale = [&] { return fmt::format("{:.9g}", std::exp(static_cast<double>(draw() % 1000) / 125 - 6)); };
    const char *a = draw() % 2 ? "u8" : "i8", *b = draw() % 2 ? "u8" : "i8", *y = draw() % 2 ? "u8" : "i8";
    Text t{3, ""};
    const std::string own = scale();  // the first two: an operand has the result's
    const std::string p = t.dequantized("in1", own, i < 2 ? 3 : static_cast<int>(draw() % 100)),
                      q = t.dequantized("in2", scale(), static_cast<int>(draw() % 100)),
                      z = t.line("select(in0, " + p + ", " + q + "):f32");
    const std::string r = t.quantized(z, i < 2 ? own : scale(), i < 2 ? 3 : static_cast<int>(draw() % 100), i < 2 ? a : y);
    const std::string text = std::string("(in0:bool, in1:") + a + ", in2:" + b + ") { " + t.text + "return " + r + " }";
    const expr::Program program = expr::Program::parse(text);
    const auto rows = integer::RowProgram::match(program);
    ASSERT_TRUE(rows.has_value()) << text;
    const expr::Evaluator evaluator(program, simd::Isa::base);
    std::vector<uint8_t> memory(static_cast<size_t>(evaluator.scratch()) + 64), in[3], want(pairs), got(pairs);
    for (int64_t k = 0; k < pairs; ++k) {
      in[0].push_back(draw() % 2);
      in[1].push_back(static_cast<uint8_t>(k % bytes)), in[2].push_back(static_cast<uint8_t>(k / bytes));
    }
    for (int repeats = 0; repeats < 8; ++repeats) {
      for (const int64_t n : lengths) {
        std::vector<expr::Operand> operands, dense;
        std::vector<uint8_t> filled[3];
        for (int k = 0; k < 3; ++k) {
          const bool is_one = repeats >> k & 1;
          const uint8_t* begin = in[k].data() + (is_one ? draw() % pairs : 0);
          operands.push_back({begin, is_one ? 0 : 1});
          filled[k].assign(static_cast<size_t>(pairs), *begin);
          dense.push_back({is_one ? filled[k].data() : in[k].data(), 1});
        }
        void* out = want.data();
        evaluator.run(n, dense, std::span(&out, 1), aligned(memory));
        rows->run(n, operands, got.data());
        ASSERT_EQ(std::memcmp(got.data(), want.data(), static_cast<size_t>(n)), 0) << text << " n = " << n << " " << repeats;
      }
    }
  }
}

/// By a product each, or where that is not right of all, by a table: of scales that are halves of each other many lie between two steps.
TEST(QuantizedPointwise, quantizes_bytes_again_as_the_evaluator_does) {
  std::mt19937 draw(3);
  const auto scale = [&] { return fmt::format("{:.9g}", std::exp(static_cast<double>(draw() % 1000) / 125 - 6)); };
  for (int i = 0; i < 24; ++i) {
    const std::string a = draw() % 2 ? "u8" : "i8", y = draw() % 2 ? "u8" : "i8", from = i < 2 ? "0.25" : scale();
    Text t{1, ""};
    const std::string x = t.dequantized("in0", from, static_cast<int>(draw() % 300) - 100);
    const std::string q = t.quantized(x, i < 2 ? "0.5" : i == 2 ? "1e-12" : scale(), static_cast<int>(draw() % 200) - 60, y);
    expect_same_bits("(in0:" + a + ") { " + t.text + "return " + q + " }");
  }
}

TEST(QuantizedPointwise, looks_up_what_depends_on_one_byte) {
  for (const char* type : {"u8", "i8"}) {
    Text t{1, ""};
    const std::string x = t.dequantized("in0", "0.05", 11), s = t.line("sigmoid(" + x + "):f32");
    const std::string y = t.quantized(t.line("mul(" + x + ", " + s + "):f32"), "0.03", 20, "u8");
    expect_same_bits(std::string("(in0:") + type + ") { " + t.text + "return " + y + " }");
  }
}

TEST(QuantizedPointwise, leaves_other_programs_to_the_evaluator) {
  EXPECT_FALSE(integer::RowProgram::match(expr::Program::parse("(in0:f32) { %1 = relu(in0):f32; return %1 }")));
  EXPECT_FALSE(integer::RowProgram::match(expr::Program::parse("(in0:u8) { return in0 }")));
  EXPECT_FALSE(integer::RowProgram::match(expr::Program::parse("(in0:f32) { %1 = cast(in0):u8; return %1 }")));
  // Few loops over bytes take less than a table; a division of bytes does not.
  EXPECT_FALSE(integer::RowProgram::match(expr::Program::parse("(in0:i8) { %1 = abs(in0):i8; %2 = neg(%1):i8; return %2 }")));
  EXPECT_TRUE(integer::RowProgram::match(expr::Program::parse("(in0:i8) { %1 = const(3):i8; %2 = div(in0, %1):i8; return %2 }")));
  Text t{2, ""};
  const std::string sub = t.line("sub(in0, in1):f32"), q = t.quantized(sub, "0.5", 7, "u8");
  EXPECT_FALSE(integer::RowProgram::match(expr::Program::parse("(in0:f32, in1:f32) { " + t.text + "return " + q + " }")));
}

}  // namespace
}  // namespace smelt::ops
