// One operator on given tensors, for the families' tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/op.h"

namespace smelt::ops::test {

using Attributes = std::map<std::string, Attribute>;
using Ints = std::vector<int64_t>;

/// A node with `inputs` inputs and `outputs` outputs that belongs to no graph.
inline Node make_node(std::string op, size_t inputs, Attributes attrs = {}, size_t outputs = 1, std::string domain = {},
                      int opset = 0) {
  Node n;
  const size_t colon = op.find(':');   // "com.microsoft:Gelu"
  if (colon != std::string::npos) {
    domain = op.substr(0, colon);
    op = op.substr(colon + 1);
  }
  n.op = std::move(op);
  n.domain = std::move(domain);
  n.opset = opset;
  n.attrs = std::move(attrs);
  n.inputs.assign(inputs, ValueId{0});
  n.outputs.assign(outputs, ValueId{0});
  return n;
}

inline std::vector<Tensor> run_all(const std::string& op, const std::vector<Tensor>& in, Attributes attrs = {},
                                   size_t outputs = 1, int opset = 0) {
  return evaluate(make_node(op, in.size(), std::move(attrs), outputs, {}, opset), in);
}
inline Tensor run(const std::string& op, const std::vector<Tensor>& in, Attributes attrs = {}, int opset = 0) {
  return run_all(op, in, std::move(attrs), 1, opset)[0];
}

inline Tensor f32(Shape shape, const std::vector<float>& v) { return Tensor::of<float>(std::move(shape), v); }
inline Tensor i64(Shape shape, const std::vector<int64_t>& v) { return Tensor::of<int64_t>(std::move(shape), v); }
inline Tensor u8(Shape shape, const std::vector<uint8_t>& v) { return Tensor::of<uint8_t>(std::move(shape), v); }
inline Tensor i8(Shape shape, const std::vector<int8_t>& v) { return Tensor::of<int8_t>(std::move(shape), v); }
inline Tensor i32(Shape shape, const std::vector<int32_t>& v) { return Tensor::of<int32_t>(std::move(shape), v); }

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

inline void expect_error(const std::string& part, const std::function<void()>& f) {
  try {
    f();
    ADD_FAILURE() << "expected an error with '" << part << "'";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(part));
  }
}

}  // namespace smelt::ops::test
