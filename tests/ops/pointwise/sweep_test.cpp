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

/// y[i, j, k] = a[i, j] + b[j, k], for runs that are gathered and runs that are not, each thread's part beginning anywhere.
template <class T> void check_outer_sums() {
  expr::Program p;
  const expr::Ref first = p.input(dtype_of<T>::value), second = p.input(dtype_of<T>::value);
  p.output(p.call(expr::Fn::add, first, second));
  for (const int64_t n : {1, 7, 8, 33, 64, 300, 1100})
    for (const int threads : {1, 3}) {
      const Shape shape = {5, 61, n};
      const Tensor a = random_tensor(dtype_of<T>::value, {5 * 61}, 1, 0, 50),
                   b = random_tensor(dtype_of<T>::value, {61 * n}, 2, 0, 50);
      const Sweep sweep(p, shape, {{61, 1, 0}, {0, n, 1}, {61 * n, n, 1}}, threads);
      std::vector<T> y(static_cast<size_t>(elements(shape)));
      std::vector<char> memory(static_cast<size_t>(sweep.workspace()) + 64);
      const void* const in[] = {a.raw(), b.raw()};
      void *out = y.data(), *workspace = memory.data();
      size_t space = memory.size();
      sweep.run(in, std::span(&out, 1), std::align(64, static_cast<size_t>(sweep.workspace()), workspace, space));
      for (int64_t i = 0; i < elements(shape); ++i)
        ASSERT_EQ(y[static_cast<size_t>(i)], static_cast<T>(a.data<T>()[i / n] + b.data<T>()[i % (61 * n)])) << n << ": " << i;
    }
}

// Callers' bools may be any byte: a cast that takes them needs no pass over them before.
TEST(Sweep, casts_every_byte_but_0_to_1) {
  for (const char* type : {"u8", "i8", "i32", "i64", "f32", "f16", "f64"}) {
    const expr::Program p = expr::Program::parse(std::string("(in0:bool) { %1 = cast(in0):") + type + "; return %1 }");
    constexpr int64_t count = 1000;
    const Sweep sweep(p, {count}, {{1}, {1}}, 1);
    EXPECT_TRUE(sweep.takes_any_boolean(0)) << type;
    std::vector<uint8_t> x(count);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i % 3 ? i : 0);
    Tensor y = Tensor::empty(p.type(p.outputs()[0]), {count});
    const void* in = x.data();
    void* out = y.raw();
    std::vector<char> memory(static_cast<size_t>(sweep.workspace()) + 64);
    void* workspace = memory.data();
    size_t space = memory.size();
    sweep.run(std::span(&in, 1), std::span(&out, 1), std::align(64, static_cast<size_t>(sweep.workspace()), workspace, space));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y.to_doubles()[i], x[i] != 0) << type << ' ' << i;
  }
}

TEST(Sweep, sums_outer_products_of_every_width) {
  check_outer_sums<uint8_t>();
  check_outer_sums<int16_t>();
  check_outer_sums<float>();
  check_outer_sums<double>();
}

}  // namespace
}  // namespace smelt::ops
