// ai.smelt.RotaryEmbedding on a GPU: a kernel over pairs (src/kernels/attention/rotary.cuh) for each set of types, rank and
// accesses; extents and strides are arguments.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/attention/rotary.h"
#include "ops/attention/offer.h"
#include "ops/attention/shape.h"
#include "ops/core/strides.h"
#include "ops/cpu/rows/rows.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda/source.h"
#include "ops/cuda/walk.h"

namespace smelt::ops {
namespace {

constexpr unsigned threads = 256;
constexpr size_t tensors = 4;  // x, y, cos, sin

struct RotaryCuda {
  Views views;                          // of pairs: x, y, cos, sin
  std::array<int64_t, tensors> second;  // elements from the first of a pair to the other
  std::array<DType, tensors> types;
  std::array<int64_t, tensors> alignments;
  bool interleaved;
};

/// Of x number `i`, of one or two (JoinedRotary).
RotaryCuda problem_of(const BoundNode& b, size_t i) {
  const size_t tables = b.outputs.size();
  const BoundTensor* const all[] = {&b.inputs[i], &b.outputs[i], &b.inputs[tables], &b.inputs[tables + 1]};
  Shape pairs = b.inputs[i].shape;
  const int64_t width = pairs.back(), half = width / 2;
  pairs.back() = half;
  RotaryCuda p;
  p.interleaved = b.node->get_int("interleaved", 0) != 0;
  std::vector<Shape> strides;
  for (size_t t = 0; t < tensors; ++t) {
    Shape s = broadcast_strides(*all[t], pairs.size());
    const bool single = t >= 2 && (all[t]->shape.empty() || all[t]->shape.back() != width);  // one entry a pair
    p.second[t] = single ? 0 : p.interleaved ? s.back() : half * s.back();
    if (!single && p.interleaved) s.back() *= 2;
    p.types[t] = all[t]->type;
    p.alignments[t] = all[t]->alignment;
    strides.push_back(std::move(s));
  }
  p.views = merged(pairs, strides, 0);
  return p;
}

/// What load_pairs calls `How`.
int access_of(const RotaryCuda& p, size_t t, int64_t pairs) {
  Shape strides = p.views.strides[t];
  const int64_t size = bytes(p.types[t], 1);
  if (p.interleaved && strides.back() == 2 && p.second[t] == 1) {
    strides.back() = 1;
    return access_step(strides, size, p.alignments[t], 2 * pairs) == 1 ? 2 : -1;
  }
  const int step = access_step(strides, size, p.alignments[t], pairs);
  return step == 1 && p.second[t] * size % std::min<int64_t>(16, pairs * size) != 0 ? -1 : step;
}

std::string config_of(const RotaryCuda& p, int64_t pairs) {
  const auto access = [&](size_t t) { return access_of(p, t, pairs); };
  return config_source("RotaryConfig", {{"pairs", pairs},
                                        {"threads", threads},
                                        {"x", access(0)},
                                        {"y", access(1)},
                                        {"cos", access(2)},
                                        {"sin", access(3)},
                                        {"cos_single", p.second[2] == 0},
                                        {"sin_single", p.second[3] == 0}});
}

/// The kernel of src/kernels/attention/rotary.cuh, of one x or two.
std::string source_of(const std::vector<RotaryCuda>& all, int64_t pairs) {
  std::string ranks, configs;
  uint64_t size = all.size() == 1 ? 0 : 8;
  for (const RotaryCuda& p : all) {
    const auto rank = static_cast<int>(p.views.extents.size());
    ranks += fmt::format(", {}", rank);
    configs += (configs.empty() ? "" : ", ") + config_of(p, pairs);
    size += kernels::rotary_bytes(rank);
  }
  const RotaryCuda& p = all[0];
  const KernelEntry rotary{"rotary", std::to_string(threads),
                           fmt::format("{}RotaryArgs<{}, {}{}>", all.size() == 1 ? "" : "Joined", expr::cuda_type(p.types[0]),
                                       expr::cuda_type(p.types[2]), ranks),
                           fmt::format("rotate_pairs<{}>", configs)};
  return "#include \"attention/rotary.cuh\"\n" + entry_source(rotary, size);
}

class RotaryCudaKernel final : public CompiledKernel {
 public:
  RotaryCudaKernel(const std::vector<RotaryCuda>& all, int64_t pairs, const Gpu& gpu)
      : CompiledKernel(gpu, {fmt::format("rotary:w{}", pairs), source_of(all, pairs), {}}, "rotary") {
    for (const RotaryCuda& p : all) parts_.push_back({WalkArgument(p.views, pairs), p.second});
  }

  /// A thread has read all of what it writes, and no other thread reads it.
  bool in_place(size_t i) const override { return i == 0 && parts_.size() == 1; }

  void run(const Buffers& b) override {
    const size_t tables = parts_.size();
    Arguments arguments;
    int64_t blocks = 0, first = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& p = parts_[i];
      arguments.tensor(b.inputs[i]).tensor(b.outputs[i]).tensor(b.inputs[tables]).tensor(b.inputs[tables + 1]);
      arguments.value(p.second).bytes(p.walk.data(), p.walk.size());
      if (i == 1) first = blocks;
      blocks += (p.walk.chunks() + threads - 1) / threads;
    }
    if (blocks == 0) return;
    if (parts_.size() > 1) arguments.value(std::array<uint32_t, 2>{static_cast<uint32_t>(first), 0});
    launch(b, {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}}, arguments);
  }

 private:
  struct Part {
    WalkArgument walk;
    std::array<int64_t, tensors> second;
  };
  std::vector<Part> parts_;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  const size_t tables = b.outputs.size();
  const auto real = [](DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64; };
  for (size_t o = 0; o < tables; ++o) {
    const BoundTensor &x = b.inputs[o], &y = b.outputs[o];
    if (!real(x.type)) return refuse(Reason::wrong_type, "x is {}; expected f64, f32, f16 or bf16", name(x.type));
    if (y.type != x.type) return refuse(Reason::wrong_type, "y is {}, x {}", name(y.type), name(x.type));
    if (x.type != b.inputs[0].type)
      return refuse(Reason::wrong_type, "one x is {}, the other {}", name(b.inputs[0].type), name(x.type));
    for (size_t i = tables; i < tables + 2; ++i) {
      const BoundTensor& t = b.inputs[i];
      if (!real(t.type) || t.type != b.inputs[tables].type)
        return refuse(Reason::wrong_type, "its tables are not of one floating-point type");
      rotary_table_shape(t.shape, x.shape);
    }
  }
  for (const auto* all : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *all)
      if (t.layout != Layout::plain) return refuse(Reason::wrong_layout, "a tensor is not plain");
  return std::nullopt;
}

}  // namespace

void offer_rotary_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cuda", *why);
  std::vector<RotaryCuda> all;
  for (size_t i = 0; i < b.outputs.size(); ++i) all.push_back(problem_of(b, i));
  double moved = 0;
  int64_t pairs_in_all = 0;
  for (const auto* tensors_of : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors_of) moved += static_cast<double>(bytes(t.type, elements(t.shape)));
  for (const RotaryCuda& p : all) pairs_in_all += elements(p.views.extents);
  const double estimate = gpu_estimate_us(*machine.gpu, moved);
  const int64_t size = bytes(all[0].types[0], 1);
  for (int64_t pairs = 16 / size; pairs >= 1; pairs /= 2) {
    const auto takes = [&](const RotaryCuda& p) {
      return (pairs == 1 || pairs <= p.views.extents.back()) && WalkArgument::fits(p.views, pairs);
    };
    if (!std::ranges::all_of(all, takes) || pairs_in_all >= int64_t{1} << 31) continue;
    bool scattered = false;
    for (const RotaryCuda& p : all)
      for (size_t t = 0; t < tensors; ++t) scattered = scattered || access_of(p, t, pairs) == -1;
    const double worse = scattered && pairs > 1 ? 1.5 : 1 + 0.01 / static_cast<double>(pairs);
    offer.candidates.push_back({"cuda", fmt::format("w{}", pairs), estimate * worse, [all, pairs, gpu = machine.gpu] {
                                  return std::make_unique<RotaryCudaKernel>(all, pairs, *gpu);
                                }});
  }
  if (offer.candidates.empty()) offer.refuse("cuda", Reason::too_large, "{} pairs; it counts to 2^31", pairs_in_all);
}

}  // namespace smelt::ops
