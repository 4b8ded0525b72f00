// One operator on given tensors, as the tests of src/ops call it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/operator.h"
#include "support/errors.h"

namespace smelt::ops::test {

using Attributes = std::map<std::string, Attribute>;
using Ints = std::vector<int64_t>;

/// A node with `inputs` inputs and `outputs` outputs that belongs to no graph.
inline Node make_node(std::string op, size_t inputs, Attributes attrs = {}, size_t outputs = 1, std::string domain = {},
                      int opset = 0) {
  Node n;
  const size_t colon = op.find(':');  // "com.microsoft:Gelu"
  if (colon != std::string::npos) {
    domain = op.substr(0, colon);
    op = op.substr(colon + 1);
  }
  n.name = "n";
  n.op = std::move(op);
  n.domain = std::move(domain);
  n.opset = opset;
  n.attrs = std::move(attrs);
  n.inputs.assign(inputs, ValueId{0});
  n.outputs.assign(outputs, ValueId{0});
  return n;
}

/// Inputs that are not valid() are left out.
inline std::vector<Tensor> run_all(const std::string& op, const std::vector<Tensor>& in, Attributes attrs = {},
                                   size_t outputs = 1, int opset = 0) {
  Node n = make_node(op, in.size(), std::move(attrs), outputs, {}, opset);
  for (size_t i = 0; i < in.size(); ++i)
    if (!in[i].valid()) n.inputs[i] = ValueId::none;
  return evaluate(n, in);
}
inline Tensor run(const std::string& op, const std::vector<Tensor>& in, Attributes attrs = {}, int opset = 0) {
  return run_all(op, in, std::move(attrs), 1, opset)[0];
}

inline Tensor f32(Shape shape, const std::vector<float>& v) { return Tensor::of<float>(std::move(shape), v); }
inline Tensor i64(Shape shape, const std::vector<int64_t>& v) { return Tensor::of<int64_t>(std::move(shape), v); }
inline Tensor u8(Shape shape, const std::vector<uint8_t>& v) { return Tensor::of<uint8_t>(std::move(shape), v); }
inline Tensor i8(Shape shape, const std::vector<int8_t>& v) { return Tensor::of<int8_t>(std::move(shape), v); }
inline Tensor i32(Shape shape, const std::vector<int32_t>& v) { return Tensor::of<int32_t>(std::move(shape), v); }
inline Tensor bools(Shape shape, const std::vector<bool>& v) {
  Tensor t = Tensor::empty(DType::boolean, std::move(shape));
  for (size_t i = 0; i < v.size(); ++i) t.data<bool>()[i] = v[i];
  return t;
}

/// 0, 1, 2, … as elements of `type`.
inline Tensor iota(DType type, Shape shape) {
  Tensor t = Tensor::empty(DType::i64, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i) t.data<int64_t>()[i] = i;
  return t.cast(type);
}

/// start, start + step, …
inline Tensor ramp(Shape shape, float start = 0, float step = 1) {
  Tensor t = Tensor::empty(DType::f32, std::move(shape));
  for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = start + step * static_cast<float>(i);
  return t;
}

/// Same shape, and every element within `tolerance` (absolute, or relative to values above 1).
inline void expect_near(const Tensor& got, const Shape& shape, const std::vector<double>& want, double tolerance = 1e-5) {
  ASSERT_EQ(got.shape(), shape);
  const std::vector<double> v = got.to_doubles();
  ASSERT_EQ(v.size(), want.size());
  for (size_t i = 0; i < v.size(); ++i)
    EXPECT_NEAR(v[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << "element " << i;
}

#define EXPECT_TENSOR(t, expected_shape, ...)                           \
  do {                                                                  \
    const ::smelt::Tensor actual_ = (t);                                \
    EXPECT_EQ(actual_.shape(), (::smelt::Shape expected_shape));        \
    EXPECT_EQ(actual_.to_doubles(), (std::vector<double> __VA_ARGS__)); \
  } while (false)

template <class F> void expect_error(const std::string& part, F&& f) { EXPECT_THAT(error_of(f), testing::HasSubstr(part)); }

}  // namespace smelt::ops::test
