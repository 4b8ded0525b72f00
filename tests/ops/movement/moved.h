#pragma once

#include <map>
#include <string>

#include "ops/tactic_check.h"

namespace smelt::ops {

inline Tensor ints(std::vector<int64_t> v) { return Tensor::of<int64_t>({static_cast<int64_t>(v.size())}, v); }

/// A node with one input of random numbers.
inline Trial moved(const std::string& op, DType type, const Shape& shape, std::map<std::string, Attribute> attrs = {}) {
  Trial t;
  t.node.op = op;
  t.node.attrs = std::move(attrs);
  t.node.opset = 23;
  t.add(random_tensor(type, shape, 7, 0, 100), false);
  return t;
}

}  // namespace smelt::ops
