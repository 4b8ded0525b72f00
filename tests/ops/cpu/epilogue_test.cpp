#include "ops/cpu/epilogue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "support/random.h"

namespace smelt::ops {
namespace {

// y = (sum · by column + image) · by call + by row: operands of each kind, so that sides which lie row behind row, those that
// repeat and those that are gathered meet in one evaluation.
struct Ended {
  static constexpr int64_t batch = 2, height = 3, width = 5, rows = batch * height * width, gap = 3;
  int64_t columns;
  bool is_slice;  // the output's rows lie `gap` elements apart
  Node node;
  BoundNode bound;
  Tensor by_column, image, by_call, by_row;

  Ended(int64_t c, bool slice) : columns(c), is_slice(slice) {
    node.op = "ai.smelt.Conv";
    node.program = expr::Program::parse(
        "(in0:f32, in1:f32, in2:f32, in3:f32, in4:f32) { %5 = mul(in0, in1):f32; %6 = add(%5, in2):f32; %7 = mul(%6, in3):f32; "
        "%8 = add(%7, in4):f32; return %8 }");
    by_column = random_tensor(DType::f32, {columns}, 1);
    image = random_tensor(DType::f32, {batch, height, width, columns}, 2);
    by_call = random_tensor(DType::f32, {}, 3);
    by_row = random_tensor(DType::f32, {batch, height, width, 1}, 4);
    bound.node = &node;
    for (const Tensor* t : {&by_column, &image, &by_call, &by_row}) bound.inputs.push_back({t->type(), t->shape()});
    BoundTensor y{DType::f32, image.shape()};
    if (is_slice) {
      const int64_t row = columns + gap;
      y.strides = {height * width * row, width * row, row, 1};
    }
    bound.outputs = {y};
  }

  int64_t row_step() const { return columns + (is_slice ? gap : 0); }

  std::vector<float> expected(const std::vector<float>& sums) const {
    std::vector<float> y(static_cast<size_t>(rows * row_step()), -1.0f);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const float scaled = sums[static_cast<size_t>(r * columns + c)] * by_column.data<float>()[c];
        const float whole = (scaled + image.data<float>()[r * columns + c]) * by_call.data<float>()[0];
        y[static_cast<size_t>(r * row_step() + c)] = whole + by_row.data<float>()[r];
      }
    return y;
  }

  /// What the epilogue makes of sums that begin `stride` elements apart, taken in parts of rows and columns.
  std::vector<float> run(const CpuEpilogue& e, const std::vector<float>& sums, int64_t stride, const int32_t* start) const {
    std::vector<float> y(static_cast<size_t>(rows * row_step()), -1.0f);
    std::vector<char> scratch(static_cast<size_t>(e.scratch()) + 64);
    void* aligned = scratch.data();
    size_t space = scratch.size();
    std::align(64, static_cast<size_t>(e.scratch()), aligned, space);
    const void* const in[] = {by_column.raw(), image.raw(), by_call.raw(), by_row.raw()};
    void* out = y.data();
    const Buffers b{in, std::span(&out, 1)};
    const CpuEpilogue::Runner runner(e, b, aligned, 0, start);
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
};

TEST(Epilogue, evaluates_rows_of_any_length_and_distance) {
  for (int64_t columns : {1, 7, 24, 64, 300, 700})
    for (bool is_slice : {false, true})
      for (int64_t stride : {columns, columns + 9}) {
        SCOPED_TRACE(testing::Message() << columns << " columns, " << stride << " apart" << (is_slice ? ", into a slice" : ""));
        const Ended t(columns, is_slice);
        const Tensor sums = random_tensor(DType::f32, {Ended::rows, columns}, 9);
        const std::vector<float> values(sums.data<float>(), sums.data<float>() + sums.size());
        EXPECT_EQ(t.run(CpuEpilogue(t.bound, 0, 3, Tensor()), values, stride, nullptr), t.expected(values));
      }
}

TEST(Epilogue, makes_floats_of_32_bit_sums_first) {
  for (int64_t columns : {1, 7, 24, 64, 300})
    for (bool is_started : {false, true}) {
      SCOPED_TRACE(testing::Message() << columns << " columns" << (is_started ? ", started" : ""));
      const Ended t(columns, false);
      const Tensor sums = random_tensor(DType::i32, {Ended::rows, columns}, 9, -1e6, 1e6);
      const Tensor start = random_tensor(DType::i32, {columns}, 10, -1e6, 1e6);
      const Tensor scales = random_tensor(DType::f32, {columns}, 11);
      std::vector<float> bits(static_cast<size_t>(sums.size())), values(bits.size());
      std::memcpy(bits.data(), sums.raw(), bits.size() * 4);
      for (size_t i = 0; i < values.size(); ++i) {
        const auto c = static_cast<int64_t>(i) % columns;
        const int32_t sum = sums.data<int32_t>()[i] + (is_started ? start.data<int32_t>()[c] : 0);
        values[i] = static_cast<float>(sum) * scales.data<float>()[c];
      }
      const CpuEpilogue e(t.bound, 0, 3, std::span(scales.data<float>(), static_cast<size_t>(columns)));
      EXPECT_EQ(t.run(e, bits, columns + 5, is_started ? start.data<int32_t>() : nullptr), t.expected(values));
    }
}

}  // namespace
}  // namespace smelt::ops
