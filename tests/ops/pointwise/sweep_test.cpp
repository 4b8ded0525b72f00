#include "ops/pointwise/cpu_sweep.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ops/core/strides.h"
#include "support/random.h"

namespace smelt::ops {
namespace {

// Operands that lie as the output does, that repeat over its last axes, over all of it, along the first one, and one that is transposed.
TEST(Sweep, repeats_and_gathers_operands_of_short_runs) {
  const expr::Program p = expr::Program::parse(
      "(in0:f32, in1:f32, in2:f32, in3:f32, in4:f32, in5:f32) { %6 = mul(in0, in1):f32; %7 = add(%6, in2):f32; %8 = mul(%7, "
      "in3):f32; "
      "%9 = add(%8, in4):f32; %10 = sub(%9, in5):f32; return %10 }");
  for (const Shape& shape :
       {Shape{50, 3, 12}, Shape{700, 2, 4}, Shape{9, 40, 100}, Shape{6, 7, 300}, Shape{40, 1, 600}, Shape{3, 900, 5}})
    for (int threads : {1, 2, 5}) {
      SCOPED_TRACE(testing::Message() << to_string(shape) << ", " << threads << " threads");
      const int64_t a = shape[0], b = shape[1], c = shape[2], count = a * b * c;
      const std::vector<Shape> strides = {{b * c, c, 1}, {0, 0, 1},     {0, c, 1},    {0, 0, 0},
                                          {1, 0, 0},     {1, a, a * b}, {b * c, c, 1}};
      std::vector<Tensor> inputs;
      std::vector<const void*> in;
      for (int i = 0; i < 6; ++i) inputs.push_back(random_tensor(DType::f32, {count}, static_cast<uint32_t>(i)));
      for (const Tensor& t : inputs) in.push_back(t.raw());
      std::vector<float> y(static_cast<size_t>(count), -1.0f);
      void* out = y.data();
      const Sweep sweep(p, shape, strides, threads);
      std::vector<char> memory(static_cast<size_t>(sweep.workspace()) + 64);
      void* workspace = memory.data();
      size_t space = memory.size();
      sweep.run(in, std::span(&out, 1), std::align(64, static_cast<size_t>(sweep.workspace()), workspace, space));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at[] = {i / (b * c), i / c % b, i % c};
        float v[6];
        for (size_t k = 0; k < 6; ++k)
          v[k] = inputs[k].data<float>()[at[0] * strides[k][0] + at[1] * strides[k][1] + at[2] * strides[k][2]];
        const float scaled = v[0] * v[1], more = scaled + v[2], again = more * v[3], last = again + v[4];
        ASSERT_EQ(y[static_cast<size_t>(i)], last - v[5]) << "element " << i;
      }
    }
}

}  // namespace
}  // namespace smelt::ops
