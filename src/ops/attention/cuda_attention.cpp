#include "ops/attention/cuda_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "expr/cuda.h"
#include "graph/fused.h"
#include "ops/attention/cuda_mask.h"
#include "ops/core/strides.h"

namespace smelt::ops {

namespace {

AttentionShape shape_of(const BoundNode& b) {
  if (!keeps_cache(*b.node)) return {*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape};
  return {*b.node, b.inputs[0].shape, joined_keys(b.inputs[1].shape, b.inputs[3].shape),
          joined_keys(b.inputs[2].shape, b.inputs[4].shape)};
}

/// The widest access to rows of `width` elements whose `extents` lie `strides` apart.
int64_t access_to(const Shape& extents, const Shape& strides, int64_t width, int64_t alignment, int64_t size) {
  if (strides[3] != 1 && width > 1) return 1;
  int64_t vector = 16 / size;
  const auto fits = [&] {
    bool all = width % vector == 0 && alignment % (vector * size) == 0;
    for (size_t a = 0; a < 3; ++a) all = all && (extents[a] == 1 || strides[a] % vector == 0);
    return all;
  };
  while (vector > 1 && !fits()) vector /= 2;
  return std::max<int64_t>(vector, 1);
}

}  // namespace

AttentionCuda::AttentionCuda(const BoundNode& b)
    : shape(shape_of(b)), type(b.outputs[0].type), program(b.node->program), first_operand(keeps_cache(*b.node) ? 5 : 3) {
  const BoundTensor* const tensors[] = {&b.inputs[0], &b.inputs[1], &b.inputs[2], &b.outputs[0]};
  for (size_t t = 0; t < 4; ++t) {
    strides[t] = memory_strides(*tensors[t]);
    alignments[t] = tensors[t]->alignment;
  }
  if (shape.k_transposed) std::swap(strides[1][2], strides[1][3]);
  if (keeps_cache(*b.node)) {
    cache.emplace();
    cache->past = b.inputs[1].shape[2];
    const BoundTensor* const more[] = {&b.inputs[3], &b.inputs[4], &b.outputs[1], &b.outputs[2]};
    for (size_t t = 0; t < 4; ++t) {
      cache->strides[t] = memory_strides(*more[t]);
      cache->alignments[t] = more[t]->alignment;
    }
  }
  for (size_t i = first_operand; program && i < b.inputs.size(); ++i)
    operands.push_back({i, b.inputs[i].type, broadcast_strides(b.inputs[i], 4), b.inputs[i].alignment});
}

int64_t AttentionCuda::access(size_t t) const {
  const bool of_keys = t == 1 || t == 2;
  const Shape extents{shape.batch, of_keys ? shape.kv_heads : shape.heads,
                      !of_keys ? shape.queries
                      : cache  ? cache->past
                               : shape.keys};
  return access_to(extents, strides[t], t < 2 ? shape.depth : shape.value_depth, alignments[t], bytes(type, 1));
}

int64_t AttentionCuda::cache_access(size_t t) const {
  const Shape extents{shape.batch, shape.kv_heads, t < 2 ? shape.keys - cache->past : shape.keys};
  return access_to(extents, cache->strides[t], t % 2 == 0 ? shape.depth : shape.value_depth, cache->alignments[t],
                   bytes(type, 1));
}

double AttentionCuda::flops() const {
  return 2.0 * static_cast<double>(shape.batch * shape.heads * shape.queries) * static_cast<double>(shape.keys) *
         static_cast<double>(shape.depth + shape.value_depth);
}

double AttentionCuda::bytes_moved() const {
  const int64_t rows = shape.batch * shape.heads * shape.queries, cached = shape.batch * shape.kv_heads * shape.keys;
  return static_cast<double>(bytes(type, (rows + cached * (cache ? 2 : 1)) * (shape.depth + shape.value_depth)));
}

kernels::AttentionProblem<void> attention_args(const AttentionCuda& p) {
  const AttentionShape& s = p.shape;
  kernels::AttentionProblem<void> args{};
  args.batch = static_cast<uint32_t>(s.batch);
  args.heads = static_cast<uint32_t>(s.heads);
  args.group = static_cast<uint32_t>(s.heads / s.kv_heads);
  args.queries = static_cast<uint32_t>(s.queries);
  args.keys = static_cast<uint32_t>(s.keys);
  args.depth = static_cast<uint32_t>(s.depth);
  args.value_depth = static_cast<uint32_t>(s.value_depth);
  args.nan_guard = s.nan_guard;
  args.scale = s.scale;
  std::ranges::copy(p.strides[0], args.q_strides);
  std::ranges::copy(p.strides[1], args.k_strides);
  std::ranges::copy(p.strides[2], args.v_strides);
  std::ranges::copy(p.strides[3], args.y_strides);
  return args;
}

void set_tensors(kernels::AttentionProblem<void>& args, const Buffers& b) {
  args.q = b.inputs[0];
  args.k = b.inputs[1];
  args.v = b.inputs[2];
  args.y = b.outputs[0];
}

namespace {

/// Two neighbouring keys' elements of it can be read in one access.
bool read_in_pairs(const AttentionCuda& p, const ScoreOperand& o) {
  const int64_t pair = 2 * bytes(o.type, 1);
  bool fits = o.strides[3] == 1 && p.shape.keys % 2 == 0 && o.alignment % pair == 0 && pair <= 16;
  for (size_t a = 0; a < 3; ++a) fits = fits && o.strides[a] % 2 == 0;
  return fits;
}

}  // namespace

CudaScores::CudaScores(const AttentionCuda& p) : operands_(std::max<size_t>(1, p.operands.size())) {
  const std::string_view computing = accumulator(p.type) == DType::f64 ? "double" : "float";
  if (!p.program) {
    type_ = fmt::format("BareScores<{}>", computing);
    return;
  }
  std::string types;
  for (size_t o = 0; o < p.operands.size(); ++o) {
    const ScoreOperand& x = p.operands[o];
    const std::string_view along = x.strides[3] == 0     ? "repeated"
                                   : read_in_pairs(p, x) ? "pairs"
                                   : x.strides[3] == 1   ? "contiguous"
                                                         : "strided";
    types += fmt::format(", ScoreOperand<{}, AlongKeys::{}>", expr::cuda_type(x.type), along);
    inputs_.push_back(x.input);
    std::ranges::copy(x.strides, operands_[o].strides);
  }
  definition_ = "\n" + expr::to_cuda(*p.program, "Program");
  type_ = fmt::format("ProgramScores<{}, Program{}>", computing, types);
}

std::string CudaScores::source(KernelEntry entry, size_t bytes, size_t alignment) const {
  entry.arguments = fmt::format("WithScores<{}, {}>", entry.arguments, inputs_.size());
  const size_t all = bytes + kernels::score_operands_bytes(inputs_.size());
  return definition_ + entry_source(entry, (all + alignment - 1) / alignment * alignment);
}

void CudaScores::pass(const Buffers& b, Arguments& arguments) const {
  for (size_t o = 0; o < operands_.size(); ++o) {
    kernels::ScoreOperandArgs operand = operands_[o];
    if (o < inputs_.size()) operand.tensor = b.inputs[inputs_[o]];
    arguments.value(operand);
  }
}

std::string kernel_name(const AttentionCuda& p, const std::string& config) {
  const AttentionShape& s = p.shape;
  return fmt::format("attention:{}:{}x{}x{}x{}x{}:{}", name(p.type), s.batch, s.heads, s.queries, s.keys, s.depth, config);
}

}  // namespace smelt::ops
