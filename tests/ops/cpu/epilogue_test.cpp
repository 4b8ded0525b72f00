#include "ops/cpu/epilogue.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/value_of.h"
#include "expr/cpu.h"
#include "support/random.h"

namespace smelt::ops {
namespace {

enum class Kind : uint8_t { by_column, in_full, by_call, by_row };

// A node whose program ends sums of [2, 3, 5, columns], with operands of these kinds.
struct Ended {
  static constexpr int64_t batch = 2, height = 3, width = 5, rows = batch * height * width, gap = 3;
  int64_t columns, row_step;
  std::vector<Kind> kinds;
  Node node;
  BoundNode bound;
  std::vector<Tensor> operands;

  /// `is_slice`: the output's rows lie `gap` elements apart.
  Ended(const std::string& program, std::vector<Kind> k, int64_t c, bool is_slice)
      : columns(c), row_step(c + (is_slice ? gap : 0)), kinds(std::move(k)) {
    node.op = "ai.smelt.Conv";
    node.program = expr::Program::parse(program);
    bound.node = &node;
    for (Kind kind : kinds) {
      const Shape shape = kind == Kind::by_column ? Shape{columns}
                          : kind == Kind::in_full ? Shape{batch, height, width, columns}
                          : kind == Kind::by_row  ? Shape{batch, height, width, 1}
                                                  : Shape{};
      operands.push_back(random_tensor(DType::f32, shape, static_cast<uint32_t>(operands.size() + 1)));
      bound.inputs.push_back({DType::f32, shape});
      node.inputs.push_back(static_cast<ValueId>(operands.size()));
    }
    BoundTensor y{DType::f32, {batch, height, width, columns}};
    if (is_slice) y.strides = {height * width * row_step, width * row_step, row_step, 1};
    bound.outputs = {y};
  }

  std::vector<float> empty() const { return std::vector<float>(static_cast<size_t>(rows * row_step), -1.0f); }

  /// The program of each element by itself.
  std::vector<float> expected(const std::vector<float>& sums) const {
    std::vector<float> y = empty();
    const expr::Evaluator evaluator(value_of(node.program, "the program under test"));
    std::vector<char> scratch(static_cast<size_t>(evaluator.scratch()) + 64);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        std::vector<expr::Operand> in = {{&sums[static_cast<size_t>(r * columns + c)], 1}};
        for (size_t i = 0; i < kinds.size(); ++i) {
          const int64_t at = kinds[i] == Kind::by_column ? c
                             : kinds[i] == Kind::in_full ? r * columns + c
                             : kinds[i] == Kind::by_row  ? r
                                                         : 0;
          in.push_back({operands[i].data<float>() + at, 1});
        }
        void* out = &y[static_cast<size_t>(r * row_step + c)];
        evaluator.run(1, in, std::span(&out, 1), aligned(scratch));
      }
    return y;
  }

  /// What the epilogue makes of sums that begin `stride` elements apart, taken in parts of rows and columns.
  std::vector<float> run(const CpuEpilogue& e, const std::vector<float>& sums, int64_t stride, const int32_t* start) const {
    std::vector<float> y = empty();
    std::vector<char> scratch(static_cast<size_t>(e.scratch()) + 64);
    std::vector<const void*> in;
    for (const Tensor& t : operands) in.push_back(t.raw());
    void* out = y.data();
    const Buffers b{in, std::span(&out, 1)};
    const CpuEpilogue::Runner runner(e, b, aligned(scratch), 0, start);
    const int64_t half = (columns + 1) / 2;
    for (const auto& [column, count] : {std::pair(int64_t{0}, half), std::pair(half, columns - half)}) {
      if (count == 0) continue;
      for (int64_t first : {0, 1, 20}) {
        const int64_t taken = first == 0 ? 1 : first == 1 ? 19 : rows - 20;
        std::vector<float> own(static_cast<size_t>(taken * stride));  // 32-bit sums become floats there
        for (int64_t r = 0; r < taken; ++r)
          std::memcpy(&own[static_cast<size_t>(r * stride)], &sums[static_cast<size_t>((first + r) * columns + column)],
                      static_cast<size_t>(count) * 4);
        runner.take({first, taken, column, count, own.data(), stride, 0});
      }
    }
    return y;
  }

  /// Of random sums of 32 bits with a scale for each column, or 1 for all.
  void expect_right_of_integers(bool is_started, bool is_scaled = true) const {
    const Tensor sums = random_tensor(DType::i32, {rows, columns}, 9, -1e6, 1e6);
    const Tensor start = random_tensor(DType::i32, {columns}, 10, -1e6, 1e6);
    const Tensor scales = is_scaled ? random_tensor(DType::f32, {columns}, 11, -1e-5, 1e-5) : Tensor::scalar(1.0f);
    std::vector<float> bits(static_cast<size_t>(sums.size())), values(bits.size());
    std::memcpy(bits.data(), sums.raw(), bits.size() * 4);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto c = static_cast<int64_t>(i) % columns;
      const int32_t sum = sums.data<int32_t>()[i] + (is_started ? start.data<int32_t>()[c] : 0);
      values[i] = static_cast<float>(sum) * scales.data<float>()[is_scaled ? c : 0];
    }
    const CpuEpilogue e(bound, 0, 3, std::span(scales.data<float>(), static_cast<size_t>(scales.size())));
    expect_same(run(e, bits, columns + 5, is_started ? start.data<int32_t>() : nullptr), expected(values));
  }

  /// clang++ makes no multiply-add of a program's product and sum, which hard_swish is in registers: a rounding more than g++ makes.
  static void expect_same(const std::vector<float>& got, const std::vector<float>& want) {
#ifdef __clang__
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-7f * (1 + std::abs(want[i]))) << i;
#else
    EXPECT_EQ(got, want);
#endif
  }

  static void* aligned(std::vector<char>& scratch) {
    void* at = scratch.data();
    size_t space = scratch.size();
    return std::align(64, 1, at, space);
  }
};

// Operands of each kind, so that sides which lie row behind row, those that repeat and those that are gathered meet.
constexpr const char* general =
    "(in0:f32, in1:f32, in2:f32, in3:f32, in4:f32) { %5 = mul(in0, in1):f32; %6 = add(%5, in2):f32; %7 = mul(%6, in3):f32; "
    "%8 = add(%7, in4):f32; return %8 }";
const std::vector<Kind> each_kind = {Kind::by_column, Kind::in_full, Kind::by_call, Kind::by_row};

TEST(Epilogue, evaluates_rows_of_any_length_and_distance) {
  for (int64_t columns : {1, 7, 24, 64, 300, 700})
    for (bool is_slice : {false, true})
      for (int64_t stride : {columns, columns + 9}) {
        SCOPED_TRACE(testing::Message() << columns << " columns, " << stride << " apart" << (is_slice ? ", into a slice" : ""));
        const Ended t(general, each_kind, columns, is_slice);
        const Tensor sums = random_tensor(DType::f32, {Ended::rows, columns}, 9);
        const std::vector<float> values(sums.data<float>(), sums.data<float>() + sums.size());
        EXPECT_EQ(t.run(CpuEpilogue(t.bound, 0, 3, Tensor()), values, stride, nullptr), t.expected(values));
      }
}

TEST(Epilogue, makes_floats_of_32_bit_sums_first) {
  for (int64_t columns : {1, 7, 24, 64, 300}) {
    SCOPED_TRACE(columns);
    for (bool is_started : {false, true}) Ended(general, each_kind, columns, false).expect_right_of_integers(is_started);
  }
}

struct Form {
  std::string program;
  std::vector<Kind> kinds;
  bool has_scratch = false;  // of the evaluator
};

TEST(Epilogue, takes_32_bit_sums_to_floats_in_one_pass) {
  const Form forms[] = {
      {"(in0:f32) { %1 = relu(in0):f32; return %1 }", {}},
      {"(in0:f32) { return in0 }", {}},
      {"(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; return %2 }", {Kind::by_call}},
      {"(in0:f32, in1:f32) { %2 = mul(in1, in0):f32; return %2 }", {Kind::by_column}},
      {"(in0:f32, in1:f32) { %2 = add(in1, in0):f32; return %2 }", {Kind::in_full}},
      {"(in0:f32, in1:f32) { %2 = add(in0, in1):f32; %3 = hard_swish(%2):f32; return %3 }", {Kind::by_column}},
      {"(in0:f32, in1:f32, in2:f32) { %3 = mul(in0, in1):f32; %4 = add(%3, in2):f32; %5 = const(-1):f32; %6 = const(2.5):f32; "
       "%7 = clip(%4, %5, %6):f32; return %7 }",
       {Kind::by_call, Kind::by_column}},
      {"(in0:f32, in1:f32, in2:f32, in3:f32) { %4 = mul(in0, in1):f32; %5 = add(%4, in2):f32; %6 = add(in3, %5):f32; "
       "%7 = relu(%6):f32; return %7 }",
       {Kind::by_call, Kind::by_column, Kind::in_full}},
      {"(in0:f32, in1:f32) { %2 = add(in0, in1):f32; return %2 }", {Kind::by_call}, true},  // one addend that a run brings
      {"(in0:f32, in1:f32) { %2 = mul(in0, in1):f32; return %2 }", {Kind::by_row}, true},
      {"(in0:f32, in1:f32) { %2 = sigmoid(in0):f32; %3 = mul(%2, in1):f32; return %3 }", {Kind::by_call}, true},
  };
  for (const Form& f : forms)
    for (int64_t columns : {7, 24, 64, 300})
      for (bool is_slice : {false, true}) {
        SCOPED_TRACE(testing::Message() << f.program << ", " << columns << " columns" << (is_slice ? ", into a slice" : ""));
        const Ended t(f.program, f.kinds, columns, is_slice);
        const float scale = 1;
        EXPECT_EQ(CpuEpilogue(t.bound, 0, 3, std::span(&scale, 1)).scratch() > 0, f.has_scratch);
        for (bool is_started : {false, true})
          for (bool is_scaled : {false, true}) t.expect_right_of_integers(is_started, is_scaled);
      }
}

}  // namespace
}  // namespace smelt::ops
