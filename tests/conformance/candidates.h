// The processor's candidates for a node of ONNX's cases, against what the reference makes of it.
#pragma once

#include <cstring>

#include "conformance/node_walk.h"
#include "ops/core/facts.h"

namespace smelt::conformance {

/// Runs one candidate over poisoned memory. Empty when its results are the reference's.
inline std::string run_candidate(const ops::Candidate& c, std::span<const Tensor> inputs, const std::vector<Tensor>& expected) {
  std::vector<const void*> in;
  for (const Tensor& t : inputs) in.push_back(t.valid() ? t.raw() : nullptr);
  std::vector<Tensor> results;
  std::vector<void*> out;
  for (const Tensor& t : expected) {
    results.push_back(t.valid() ? Tensor::empty(t.type(), t.shape()) : Tensor());
    if (t.valid() && t.nbytes() > 0) std::memset(results.back().raw(), 0x5a, static_cast<size_t>(t.nbytes()));
    out.push_back(t.valid() ? results.back().raw() : nullptr);
  }
  const std::unique_ptr<ops::Kernel> kernel = c.prepare();
  std::vector<uint8_t> workspace(static_cast<size_t>(kernel->workspace()) + 64, 0xff);
  void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
  kernel->run({in, out, aligned});
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].valid()) continue;
    const bool narrow = expected[i].type() == DType::f16 || expected[i].type() == DType::bf16;
    const std::string wrong = difference(results[i], expected[i], {narrow ? 1e-2 : 1e-3, narrow ? 1e-3 : 1e-5});
    if (!wrong.empty()) return fmt::format("{} {}: output {}: {}", c.tactic, c.config, i, wrong);
  }
  return "";
}

/// The extents of its results depend on data: tests/ops/select and tests/ops/detect have those with a kernel.
inline bool is_dynamic(const Node& n) { return ops::facts(n).data_dependent; }

/// Without a seed every run draws other numbers.
inline bool draws_anew(const Node& n) {
  const ops::OpDef* def = ops::find(n.op, n.domain);
  return def && !def->deterministic && !n.attrs.contains("seed");
}

/// Texts have no place in memory that kernels see.
inline bool has_text(const std::vector<Tensor>& outputs) {
  return std::ranges::any_of(outputs, [](const Tensor& t) { return t.valid() && t.type() == DType::string; });
}

}  // namespace smelt::conformance
