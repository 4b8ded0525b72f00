// Runs every candidate that an operator offers against the reference, over the layouts and slices that tensors may have.
#pragma once

#include <cpuid.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ops/core/reference_kernel.h"
#include "ops/core/strides.h"
#include "ops/core/tactic.h"
#include "support/random.h"

namespace smelt::ops {

/// A node under test: tensors are given as logical (plain) values; `node.inputs` say where and how they lie.
struct Trial {
  Node node;
  BoundNode bound;
  std::vector<Tensor> inputs;  // not valid() where left out

  size_t add(Tensor value, bool constant, Layout layout = Layout::plain) {
    BoundTensor t;
    if (value.valid()) {
      t.type = value.type();
      t.shape = value.shape();
      t.layout = layout;
      if (constant) t.constant = value;
    }
    bound.inputs.push_back(t);
    node.inputs.push_back(value.valid() ? static_cast<ValueId>(inputs.size()) : ValueId::none);
    inputs.push_back(std::move(value));
    return inputs.size() - 1;
  }
  /// Gives the node a program, unless it is empty. Returns the type of its first result; without one, `type`.
  DType compute(const std::string& program, DType type) {
    if (program.empty()) return type;
    node.program = expr::Program::parse(program);
    return node.program->type(node.program->outputs()[0]);
  }
  void result(DType type, Shape shape, Layout layout = Layout::plain) {
    bound.outputs.push_back({type, std::move(shape), layout, {}, {}});
    node.outputs.push_back(static_cast<ValueId>(100 + bound.outputs.size()));
  }
};

/// Copies between logical order (dense, plain) and where a bound tensor's elements lie.
inline void scatter(const BoundTensor& t, void* memory, void* logical, bool to_memory) {
  if (bits(t.type) < 8) {  // several to a byte: dense
    std::memcpy(to_memory ? memory : logical, to_memory ? logical : memory,
                static_cast<size_t>(bytes(t.type, elements(t.shape))));
    return;
  }
  const Shape steps = memory_strides(t), dense = strides(t.shape);
  const int64_t size = bytes(t.type, 1);
  for (int64_t i = 0; i < elements(t.shape); ++i) {
    int64_t at = 0, rest = i;
    for (size_t a = 0; a < dense.size(); ++a) {
      at += rest / dense[a] * steps[a];
      rest %= dense[a];
    }
    char* m = static_cast<char*>(memory) + at * size;
    char* l = static_cast<char*>(logical) + i * size;
    std::memcpy(to_memory ? m : l, to_memory ? l : m, static_cast<size_t>(size));
  }
}

/// Memory that a bound tensor spans, every byte 0xff: a NaN in each floating-point type.
inline std::vector<uint8_t> poisoned(const BoundTensor& t) {
  const Shape steps = memory_strides(t);
  int64_t last = 0;
  for (size_t a = 0; a < steps.size(); ++a) last += std::max<int64_t>(0, t.shape[a] - 1) * steps[a];
  return std::vector<uint8_t>(static_cast<size_t>(bytes(t.type, last + 1)) + 128, 0xff);
}

inline void* aligned(std::vector<uint8_t>& memory) {
  return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

/// What the reference makes of the logical values; before a result is declared too, to learn its shape.
inline Tensor expected(Trial& t) {
  t.bound.node = &t.node;
  Node node = t.node;
  if (node.outputs.empty()) node.outputs.push_back(static_cast<ValueId>(101));
  return evaluate(node, t.inputs)[0];
}

/// Runs one candidate; its output in logical order.
inline Tensor run(Trial& t, const Candidate& c) {
  t.bound.node = &t.node;
  std::vector<std::vector<uint8_t>> memory;
  std::vector<const void*> in;
  for (size_t i = 0; i < t.inputs.size(); ++i) {
    if (!t.inputs[i].valid()) {
      in.push_back(nullptr);
      continue;
    }
    memory.push_back(poisoned(t.bound.inputs[i]));
    void* data = aligned(memory.back());
    scatter(t.bound.inputs[i], data, t.inputs[i].raw(), true);
    in.push_back(data);
  }
  memory.push_back(poisoned(t.bound.outputs[0]));
  void* out = aligned(memory.back());
  const std::unique_ptr<Kernel> kernel = c.prepare();
  std::vector<uint8_t> workspace(static_cast<size_t>(kernel->workspace()) + 64, 0xff);
  kernel->run({in, std::span(&out, 1), aligned(workspace)});
  Tensor result = Tensor::empty(t.bound.outputs[0].type, t.bound.outputs[0].shape);
  scatter(t.bound.outputs[0], out, result.raw(), false);
  return result;
}

/// The largest error over the largest magnitude expected; infinite when a NaN appears on one side only.
inline double error(const Tensor& got, const Tensor& want) {
  const std::vector<double> g = got.to_doubles(), w = want.to_doubles();
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < w.size(); ++i) {
    if (std::isnan(g[i]) != std::isnan(w[i])) return std::numeric_limits<double>::infinity();
    if (std::isnan(w[i])) continue;
    scale = std::max(scale, std::abs(w[i]));
    worst = std::max(worst, std::abs(g[i] - w[i]));
  }
  return worst / scale;
}

/// The root mean square of the errors over that of what is expected.
inline double rms_error(const Tensor& got, const Tensor& want) {
  const std::vector<double> g = got.to_doubles(), w = want.to_doubles();
  double errors = 0, scale = 1e-60;
  for (size_t i = 0; i < w.size(); ++i) errors += (g[i] - w[i]) * (g[i] - w[i]), scale += w[i] * w[i];
  return std::sqrt(errors / scale);
}

/// Every candidate but the reference agrees with `want`; returns the names of those that ran, in the offer's order.
inline std::vector<std::string> agree(Trial& t, const Tensor& want, double tolerance, int threads = 2) {
  t.bound.node = &t.node;
  Machine machine;
  machine.threads = threads;
  machine.isa = "avx2";
  const Offer o = offer(t.bound, machine);
  std::vector<std::string> names;
  for (const Candidate& c : o.candidates) {
    if (c.tactic == "reference") continue;
    SCOPED_TRACE(o.problem + " " + c.tactic + " " + c.config);
    EXPECT_LE(error(run(t, c), want), tolerance);
    names.push_back(c.tactic);
  }
  return names;
}

/// The same against what the reference makes of it.
inline std::vector<std::string> check(Trial& t, double tolerance, int threads = 2) {
  return agree(t, expected(t), tolerance, threads);
}

/// Names without oneDNN's, whose 8-bit kernels are offered where the CPU has exact ones.
inline std::vector<std::string> own(std::vector<std::string> names) {
  std::erase(names, "onednn");
  return names;
}

/// Whether the CPU multiplies bytes into 32-bit sums.
inline bool has_dot_products() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // clang 14 has no name for AVX-VNNI: leaf 7.1, EAX's bit 4
  const bool has_leaf = __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0;
  return __builtin_cpu_supports("avx512vnni") || (has_leaf && (eax >> 4 & 1) != 0);
}

/// A weight tensor within [-64, 64] once less a zero point of 0, or of 128 for unsigned bytes.
inline Tensor seven_bits(DType type, const Shape& shape, uint32_t seed) {
  return type == DType::u8 ? random_tensor(type, shape, seed, 64, 192.99) : random_tensor(type, shape, seed, -64.99, 64.99);
}

/// Why oneDNN was not offered; empty when it was.
inline std::string onednn_reason(Trial& t) {
  t.bound.node = &t.node;
  const Offer o = offer(t.bound, Machine{});
  const auto r = std::ranges::find(o.refused, "onednn", &RefusedTactic::tactic);
  return r == o.refused.end() ? "" : r->why.text;
}

}  // namespace smelt::ops
