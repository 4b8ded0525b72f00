// Runs every candidate for a node whose outputs' extents depend on data against its reference.
#pragma once

#include "ops/core/data_dependent.h"
#include "ops/tactic_check.h"

namespace smelt::ops {

inline Node named(const std::string& op, std::map<std::string, Attribute> attrs = {}) {
  Node n;
  n.op = op;
  n.name = "n";
  n.attrs = std::move(attrs);
  return n;
}

inline bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.type() == b.type() && a.shape() == b.shape() &&
         (a.nbytes() == 0 || std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0);
}

/// Runs every candidate over poisoned memory; the names of those that agree with the reference bit for bit.
inline std::vector<std::string> agreeing(Node node, const std::vector<Tensor>& inputs, size_t outputs, int threads) {
  BoundNode b;
  node.opset = 23;
  b.node = &node;
  for (const Tensor& t : inputs) {
    node.inputs.push_back(static_cast<ValueId>(node.inputs.size()));
    b.inputs.push_back({t.type(), t.shape(), Layout::plain, {}, {}});
  }
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(static_cast<ValueId>(100 + i));
  const std::vector<Tensor> want = evaluate(node, inputs);
  const std::vector<AtMost> most = outputs_at_most(node, b.inputs);
  EXPECT_EQ(most.size(), outputs);
  b.outputs = bound_at_most(most);
  Machine machine;
  machine.threads = threads;
  std::vector<std::string> names;
  for (const Candidate& c : offer(b, machine).candidates) {
    std::vector<std::vector<uint8_t>> memory;
    std::vector<void*> out;
    for (const BoundTensor& t : b.outputs) {
      memory.push_back(poisoned(t));
      out.push_back(aligned(memory.back()));
    }
    std::vector<const void*> in;
    for (const Tensor& t : inputs) in.push_back(t.raw());
    const auto kernel = c.prepare();
    std::vector<uint8_t> workspace(static_cast<size_t>(kernel->workspace()) + 128, 0xff);
    for (int twice = 0; twice < 2; ++twice) kernel->run({in, out, aligned(workspace)});
    const int64_t count = *static_cast<int64_t*>(out.back());
    bool same = true;
    for (size_t i = 0; i < outputs; ++i)
      same = same && same_bytes(Tensor::borrow(most[i].type, found_shape(most[i], count), out[i]), want[i]);
    if (same) names.push_back(c.tactic);
  }
  return names;
}

}  // namespace smelt::ops
