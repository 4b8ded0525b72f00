#include "ops/attention/cuda_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "expr/cuda.h"
#include "graph/fused.h"
#include "ops/attention/cuda_mask.h"
#include "ops/core/strides.h"

namespace smelt::ops {

AttentionCuda::AttentionCuda(const BoundNode& b)
    : shape(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape), type(b.outputs[0].type), program(b.node->program) {
  const BoundTensor* const tensors[] = {&b.inputs[0], &b.inputs[1], &b.inputs[2], &b.outputs[0]};
  for (size_t t = 0; t < 4; ++t) {
    strides[t] = memory_strides(*tensors[t]);
    alignments[t] = tensors[t]->alignment;
  }
  if (shape.k_transposed) std::swap(strides[1][2], strides[1][3]);
  for (size_t i = 3; program && i < b.inputs.size(); ++i)
    operands.push_back({i, b.inputs[i].type, broadcast_strides(b.inputs[i], 4), b.inputs[i].alignment});
}

int64_t AttentionCuda::access(size_t t) const {
  const int64_t size = bytes(type, 1), width = t < 2 ? shape.depth : shape.value_depth;
  if (strides[t][3] != 1 && width > 1) return 1;
  const Shape extents{shape.batch, t == 0 || t == 3 ? shape.heads : shape.kv_heads,
                      t == 0 || t == 3 ? shape.queries : shape.keys};
  int64_t vector = 16 / size;
  const auto fits = [&] {
    bool all = width % vector == 0 && alignments[t] % (vector * size) == 0;
    for (size_t a = 0; a < 3; ++a) all = all && (extents[a] == 1 || strides[t][a] % vector == 0);
    return all;
  };
  while (vector > 1 && !fits()) vector /= 2;
  return std::max<int64_t>(vector, 1);
}

double AttentionCuda::flops() const {
  return 2.0 * static_cast<double>(shape.batch * shape.heads * shape.queries) * static_cast<double>(shape.keys) *
         static_cast<double>(shape.depth + shape.value_depth);
}

double AttentionCuda::bytes_moved() const {
  const int64_t rows = shape.batch * shape.heads * shape.queries, cached = shape.batch * shape.kv_heads * shape.keys;
  return static_cast<double>(bytes(type, (rows + cached) * (shape.depth + shape.value_depth)));
}

AttentionArgument::AttentionArgument(const AttentionCuda& p)
    : batch(static_cast<uint32_t>(p.shape.batch)),
      heads(static_cast<uint32_t>(p.shape.heads)),
      group(static_cast<uint32_t>(p.shape.heads / p.shape.kv_heads)),
      queries(static_cast<uint32_t>(p.shape.queries)),
      keys(static_cast<uint32_t>(p.shape.keys)),
      depth(static_cast<uint32_t>(p.shape.depth)),
      value_depth(static_cast<uint32_t>(p.shape.value_depth)),
      nan_guard(p.shape.nan_guard),
      scale(p.shape.scale) {
  std::ranges::copy(p.strides[0], q);
  std::ranges::copy(p.strides[1], k);
  std::ranges::copy(p.strides[2], v);
  std::ranges::copy(p.strides[3], y);
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

// Scores has two faces: at(i, j, x) for one score; and for pairs of neighbouring keys near(i, j), where a row's operands lie,
// then two(near, c) for keys j + c and j + c + 1, or two_of(i, j, next) for any two, and apply(two, x, y).
ScoresSource::ScoresSource(const AttentionCuda& p) {
  const std::string_view computing = accumulator(p.type) == DType::f64 ? "double" : "float";
  if (!p.program) {
    definition = fmt::format(
        "struct Scores {{\n  __device__ __forceinline__ void seek(u32, u32) {{}}\n"
        "  __device__ __forceinline__ {0} at(u32, u32, {0} x) const {{ return x; }}\n"
        "  struct Near {{}};\n  struct Two {{}};\n"
        "  __device__ __forceinline__ Near near(u32, u32) const {{ return {{}}; }}\n"
        "  __device__ __forceinline__ Two two(Near, u32) const {{ return {{}}; }}\n"
        "  __device__ __forceinline__ Two two_of(u32, u32, u32) const {{ return {{}}; }}\n"
        "  __device__ __forceinline__ static void apply(Two, {0}&, {0}&) {{}}\n}};\n",
        computing);
    value = "Scores{}";
    return;
  }
  const size_t n = p.operands.size();
  std::string members, offsets, reads, near, nears, held, twos, others, left, right;
  for (size_t o = 0; o < n; ++o) {
    const ScoreOperand& x = p.operands[o];
    const std::string type(expr::cuda_type(x.type));
    const bool repeats = x.strides[3] == 0;
    const std::string step = x.strides[3] == 1 ? "" : fmt::format(" * strides.of[{}][3]", o);
    members += fmt::format("  const {}* operand{};\n", type, o);
    parameters += fmt::format(", const {}* operand{}", type, o);
    value += fmt::format("operand{}, ", o);
    offsets += fmt::format("    operand{0} += b * strides.of[{0}][0] + h * strides.of[{0}][1];\n", o);
    reads += fmt::format(", operand{0}[i * strides.of[{0}][2] + j * strides.of[{0}][3]]", o);
    near += fmt::format("    const {}* at{};\n", type, o);
    nears += fmt::format("{0}operand{1} + i * strides.of[{1}][2] + j{2}", o ? ", " : "", o, repeats ? " * 0" : step);
    held += fmt::format("    Vector<{}, {}> x{};\n", type, repeats ? 1 : 2, o);
    const std::string at = fmt::format("operand{0}[i * strides.of[{0}][2] + ", o);
    if (repeats) {
      twos += fmt::format("    two.x{0}.at[0] = near.at{0}[0];\n", o);
      others += fmt::format("    two.x{}.at[0] = {}0];\n", o, at);
    } else {
      if (read_in_pairs(p, x)) {
        twos += fmt::format("    two.x{0} = *reinterpret_cast<const Vector<{1}, 2>*>(near.at{0} + c);\n", o, type);
      } else {
        twos += fmt::format("    two.x{0}.at[0] = near.at{0}[c{1}];\n    two.x{0}.at[1] = near.at{0}[(c + 1){1}];\n", o, step);
      }
      others += fmt::format("    two.x{0}.at[0] = {1}j{2}];\n    two.x{0}.at[1] = {1}next{2}];\n", o, at, step);
    }
    left += fmt::format(", two.x{}.at[0]", o);
    right += fmt::format(", two.x{}.at[{}]", o, repeats ? 0 : 1);
    strides.insert(strides.end(), x.strides.begin(), x.strides.end());
  }
  if (n > 0) {
    members += fmt::format("  ScoreStrides<{}> strides;\n", n);
    parameters += fmt::format(", const ScoreStrides<{}> score_strides", n);
    value += "score_strides";
  }
  value = "Scores{" + value + "}";
  definition = expr::to_cuda(*p.program, "Program") + "\nstruct Scores {\n" + members;
  definition += fmt::format("  __device__ __forceinline__ void seek(u32 b, u32 h) {{\n{}  }}\n", offsets);
  definition += fmt::format(
      "  __device__ __forceinline__ {0} at(u32 i, u32 j, {0} x) const {{\n    {0} y;\n    Program::apply(x{1}, y);\n"
      "    return y;\n  }}\n",
      computing, reads);
  definition += fmt::format("  struct Near {{\n{}  }};\n  struct Two {{\n{}  }};\n", near, held);
  definition += fmt::format("  __device__ __forceinline__ Near near(u32 i, u32 j) const {{ return {{{}}}; }}\n", nears);
  definition += fmt::format(
      "  __device__ __forceinline__ Two two(const Near& near, u32 c) const {{\n    Two two;\n{}    return two;\n  }}\n", twos);
  definition += fmt::format(
      "  __device__ __forceinline__ Two two_of(u32 i, u32 j, u32 next) const {{\n    Two two;\n{}    return two;\n  }}\n",
      others);
  definition += fmt::format(
      "  __device__ __forceinline__ static void apply(const Two& two, {0}& x, {0}& y) {{\n    const {0} a = x, b = y;\n"
      "    Program::apply(a{1}, x);\n    Program::apply(b{2}, y);\n  }}\n}};\n",
      computing, left, right);
}

void ScoresSource::pass(const AttentionCuda& p, const Buffers& b, Arguments& arguments) const {
  for (const ScoreOperand& o : p.operands) arguments.tensor(b.inputs[o.input]);
  if (!strides.empty()) arguments.bytes(strides.data());
}

std::string kernel_name(const AttentionCuda& p, const std::string& config) {
  const AttentionShape& s = p.shape;
  return fmt::format("attention:{}:{}x{}x{}x{}x{}:{}", name(p.type), s.batch, s.heads, s.queries, s.keys, s.depth, config);
}

}  // namespace smelt::ops
