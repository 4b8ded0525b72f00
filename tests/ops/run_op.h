// One operator on tensors, as the tests of src/ops call it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ops/op.h"
#include "smelt/error.h"

namespace smelt::ops {

using Attrs = std::map<std::string, Attribute>;

/// Inputs that are not valid() are left out.
inline std::vector<Tensor> run_all(const std::string& op, const std::vector<Tensor>& inputs, Attrs attrs = {}, size_t outputs = 1,
                                   std::string_view domain = onnx_domain) {
  Node node;
  node.op = op;
  node.domain = domain;
  node.name = "n";
  node.attrs = std::move(attrs);
  for (size_t i = 0; i < inputs.size(); ++i)
    node.inputs.push_back(inputs[i].valid() ? ValueId(static_cast<int>(i)) : ValueId::none);
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(ValueId(static_cast<int>(inputs.size() + i)));
  return evaluate(node, inputs);
}

inline Tensor run_op(const std::string& op, const std::vector<Tensor>& inputs, Attrs attrs = {}) {
  return run_all(op, inputs, std::move(attrs))[0];
}

inline Tensor ints(Shape shape, const std::vector<int64_t>& v) { return Tensor::of(std::move(shape), v); }
inline Tensor floats(Shape shape, const std::vector<float>& v) { return Tensor::of(std::move(shape), v); }
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

#define EXPECT_TENSOR(t, expected_shape, ...)                                            \
  do {                                                                                   \
    const ::smelt::Tensor actual_ = (t);                                                 \
    EXPECT_EQ(actual_.shape(), (::smelt::Shape expected_shape));                         \
    EXPECT_EQ(actual_.to_doubles(), (std::vector<double> __VA_ARGS__));                  \
  } while (false)

/// The message of the Error that `f` throws; empty when it throws none.
template <class F> std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace smelt::ops
