// A body of a Loop or Scan that runs again and again on small tensors of the same shapes: bound once, in memory that stays.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "smelt/tensor.h"

namespace smelt {
class Graph;
struct Node;
}  // namespace smelt

namespace smelt::ops {

class RepeatedBody {
 public:
  virtual ~RepeatedBody() = default;
  /// Reads `inputs`, those that change, and writes `outputs`.
  virtual void run() = 0;
  std::vector<Tensor> inputs, outputs;
};

/// What binds bodies: whoever runs the node that they are part of.
class BodyBinder {
 public:
  /// The body on these inputs, of which the first `changing` are only examples; null where its outputs' sizes depend on data, or
  /// where it is no body of what this runs. It ends before the scope that it is from.
  virtual std::unique_ptr<RepeatedBody> bind(const Node& node, const Graph& body, std::span<const Tensor> inputs,
                                             size_t changing) = 0;

 protected:
  ~BodyBinder() = default;
};

/// While this lives, operators that this thread runs can ask.
class BodyBinderScope {
 public:
  explicit BodyBinderScope(BodyBinder& binder);
  ~BodyBinderScope();
  BodyBinderScope(const BodyBinderScope&) = delete;
  /// Null outside of all scopes.
  static BodyBinder* innermost();

 private:
  BodyBinder* outer_;
};

}  // namespace smelt::ops
