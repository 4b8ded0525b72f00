// Runs every candidate that an operator offers against the reference, over the layouts and slices that tensors may have.
#pragma once

#include <cpuid.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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

/// Input that may lie where output 0 does, by what the two are.
inline bool may_be_output(const BoundNode& b, size_t i) {
  const BoundTensor &x = b.inputs[i], &y = b.outputs[0];
  return !x.constant.valid() && x.type == y.type && x.shape == y.shape && x.layout == y.layout && x.strides == y.strides &&
         x.alignment == y.alignment && elements(x.shape) > 0;
}

/// Copies between logical order (dense, plain) and where a bound tensor's elements lie.
inline void scatter(const BoundTensor& t, void* memory, void* logical, bool to_memory) {
  const Shape steps = memory_strides(t), dense = strides(t.shape);
  const int64_t count = elements(t.shape);
  if (bits(t.type) < 8 || steps == dense || count == 0) {  // several to a byte: dense
    std::memcpy(to_memory ? memory : logical, to_memory ? logical : memory, static_cast<size_t>(bytes(t.type, count)));
    return;
  }
  const int64_t size = bytes(t.type, 1), row = t.shape.back(), step = steps.back() * size;
  const auto rows = [&](auto one) {  // elements of as many bytes
    using T = decltype(one);
    for (int64_t first = 0; first < count; first += row) {
      int64_t at = 0, rest = first;
      for (size_t a = 0; a < dense.size(); ++a) {
        at += rest / dense[a] * steps[a];
        rest %= dense[a];
      }
      char* m = static_cast<char*>(memory) + at * size;
      T* l = static_cast<T*>(logical) + first;
      for (T* const end = l + row; l != end; ++l, m += step)
        std::memcpy(to_memory ? static_cast<void*>(m) : l, to_memory ? l : static_cast<void*>(m), sizeof(T));
    }
  };
  if (size == 1)
    rows(uint8_t{});
  else if (size == 2)
    rows(uint16_t{});
  else if (size == 4)
    rows(uint32_t{});
  else if (size == 8)
    rows(uint64_t{});
  else
    rows(std::array<uint64_t, 2>{});
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

/// A candidate's kernel with memory of its own for the trial's tensors, poisoned. A tensor whose alignment is below 64 bytes
/// begins that far behind a multiple of 64.
class Prepared {
 public:
  static constexpr size_t nowhere = ~size_t{0};

  Prepared(Trial& t, const Candidate& c) : node_(t.bound) {
    t.bound.node = &t.node;
    kernel_ = c.prepare();
    workspace_.assign(static_cast<size_t>(kernel_->workspace()) + 128, 0xff);
  }
  const Kernel& kernel() const { return *kernel_; }

  /// Its outputs in logical order, from inputs in logical order. `in_place`: the input whose memory is output 0's. The
  /// workspace is as the run before left it.
  std::vector<Tensor> run(std::span<const Tensor> inputs, size_t in_place = nowhere) {
    std::vector<std::vector<uint8_t>> in, out;
    std::vector<const void*> from;
    std::vector<void*> to;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const BoundTensor& t = node_.inputs[i];
      in.push_back(inputs[i].valid() ? poisoned(t) : std::vector<uint8_t>());
      void* at = inputs[i].valid() && (!t.constant.valid() || kernel_->reads(i)) ? begin(t, in.back()) : nullptr;
      if (at) scatter(t, at, const_cast<void*>(inputs[i].raw()), true);
      from.push_back(at);
    }
    for (size_t o = 0; o < node_.outputs.size(); ++o) {
      const BoundTensor& t = node_.outputs[o];
      out.push_back(t.type == DType::undefined ? std::vector<uint8_t>() : poisoned(t));
      to.push_back(t.type == DType::undefined           ? nullptr
                   : o == 0 && in_place < inputs.size() ? const_cast<void*>(from[in_place])
                                                        : begin(t, out.back()));
    }
    const std::vector<std::vector<uint8_t>> before = in;
    kernel_->run({from, to, aligned(workspace_)});
    std::vector<Tensor> results;
    for (size_t o = 0; o < node_.outputs.size(); ++o) {
      const BoundTensor& t = node_.outputs[o];
      results.push_back(t.type == DType::undefined ? Tensor() : Tensor::empty(t.type, t.shape));
      if (results.back().valid()) scatter(t, to[o], results.back().raw(), false);
    }
    beside_.clear();
    for (size_t i = 0; i < in.size(); ++i)
      if (i != in_place && in[i] != before[i]) beside_ = "it writes input " + std::to_string(i);
    for (size_t o = 0; o < out.size(); ++o) {
      if (!results[o].valid() || (o == 0 && in_place < inputs.size())) continue;
      std::vector<uint8_t> alone = poisoned(node_.outputs[o]);
      const std::ptrdiff_t offset = static_cast<uint8_t*>(to[o]) - out[o].data();
      scatter(node_.outputs[o], alone.data() + offset, results[o].raw(), true);
      if (alone != out[o]) beside_ = "it writes beside output " + std::to_string(o);
    }
    const auto* end = static_cast<const uint8_t*>(aligned(workspace_)) + kernel_->workspace();
    if (std::any_of(end, static_cast<const uint8_t*>(workspace_.data() + workspace_.size()), [](uint8_t v) { return v != 0xff; }))
      beside_ = "it writes behind its workspace";
    return results;
  }
  /// What the last run wrote beside its results and its workspace; empty: nothing.
  const std::string& beside() const { return beside_; }

 private:
  static void* begin(const BoundTensor& t, std::vector<uint8_t>& memory) {
    return static_cast<uint8_t*>(aligned(memory)) + (t.alignment < 64 ? t.alignment : 0);
  }
  BoundNode node_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<uint8_t> workspace_;
  std::string beside_;
};

/// Runs one candidate; its output in logical order.
inline Tensor run(Trial& t, const Candidate& c) { return Prepared(t, c).run(t.inputs)[0]; }

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

/// A candidate gives the same with forms of its weights that lay in a file, each in memory of its own that is as long as it, and then
/// packs none of these.
inline void expect_forms_last(Trial& t, const Candidate& c, const Machine& machine) {
  const ChosenTactic chosen{c.tactic, c.config};
  const auto with = [&](WeightStore& store) {
    BoundNode bound = t.bound;
    bound.weights = &store;
    const Offer o = offer(bound, machine, {&chosen, false});
    const auto at =
        std::ranges::find_if(o.candidates, [&](const Candidate& x) { return x.tactic == c.tactic && x.config == c.config; });
    return at == o.candidates.end() ? Tensor() : run(t, *at);
  };
  WeightStore first(0), second(0);  // stores of that kind share nothing
  const Tensor want = with(first);
  std::vector<WeightStore::Lasting> forms = first.lasting();
  const auto is_input = [&](const WeightStore::Lasting& f) {  // not what a conversion made of one
    return std::ranges::any_of(t.inputs, [&](const Tensor& i) { return i.valid() && i.raw() == f.constant.raw(); });
  };
  std::erase_if(forms, [&](const auto& f) { return !is_input(f); });
  if (!want.valid() || forms.empty()) return;
  int64_t bytes = 0;
  for (const WeightStore::Lasting& f : forms) {
    Tensor copy = Tensor::empty(DType::u8, {f.form.nbytes()});
    std::memcpy(copy.raw(), f.form.raw(), static_cast<size_t>(copy.nbytes()));
    second.offer(f.constant.raw(), f.name, copy);
    bytes += copy.nbytes();
  }
  const Tensor found = with(second);
  ASSERT_EQ(found.nbytes(), want.nbytes());
  EXPECT_EQ(std::memcmp(found.raw(), want.raw(), static_cast<size_t>(want.nbytes())), 0) << forms[0].name;
  EXPECT_EQ(first.bytes_made() - second.bytes_made(), bytes) << forms[0].name;
  EXPECT_EQ(second.lasting().size(), first.lasting().size());
}

/// Every candidate but the reference agrees with `want`, where its kernel says so in an input's memory too; returns the names of those
/// that ran, in the offer's order.
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
    Prepared prepared(t, c);
    EXPECT_LE(error(prepared.run(t.inputs)[0], want), tolerance);
    for (size_t i = 0; i < t.inputs.size(); ++i) {
      if (!t.inputs[i].valid() || !may_be_output(t.bound, i) || !prepared.kernel().in_place(i)) continue;
      EXPECT_LE(error(prepared.run(t.inputs, i)[0], want), tolerance) << "in place of input " << i;
    }
    expect_forms_last(t, c, machine);
    names.push_back(c.config.ends_with("in floats") ? "in floats" : c.tactic);
  }
  return names;
}

/// The same against what the reference makes of it.
inline std::vector<std::string> check(Trial& t, double tolerance, int threads = 2) {
  return agree(t, expected(t), tolerance, threads);
}

/// Names without oneDNN's, whose 8-bit kernels are offered where the CPU has exact ones, and without what computes in floats.
inline std::vector<std::string> own(std::vector<std::string> names) {
  std::erase(names, "onednn");
  std::erase(names, "in floats");
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
