// Bodies of Pointwise and Reduce.
#include <algorithm>

#include "base/error.h"
#include "ops/core/function_body.h"
#include "ops/reduce/reduction.h"

namespace smelt::ops {
namespace {

/// Which of the program's inputs each of its outputs depends on.
std::vector<std::vector<bool>> dependences(const expr::Program& p) {
  std::vector<std::vector<bool>> of(p.code().size(), std::vector<bool>(static_cast<size_t>(p.input_count())));
  for (size_t i = 0; i < of.size(); ++i) {
    if (i < static_cast<size_t>(p.input_count())) of[i][i] = true;
    for (expr::Ref a : p.code()[i].args)
      if (a >= 0)
        for (size_t k = 0; k < of[i].size(); ++k)
          if (of[static_cast<size_t>(a)][k]) of[i][k] = true;
  }
  std::vector<std::vector<bool>> outputs;
  for (expr::Ref r : p.outputs()) outputs.push_back(of[static_cast<size_t>(r)]);
  return outputs;
}

/// True when `s` is known to be at least as large as `other` along every axis, so that broadcasting against it changes nothing.
bool covers(const std::optional<SymShape>& s, const std::optional<SymShape>& other) {
  if (!s || !other || other->size() > s->size()) return false;
  for (size_t i = 0; i < other->size(); ++i) {
    const Dim &mine = (*s)[s->size() - other->size() + i], &theirs = (*other)[i];
    const bool same = mine == theirs && (mine.known() || !mine.symbol.empty());
    if (!same && !(theirs.known() && theirs.value == 1)) return false;
  }
  return true;
}

/// The program's outputs, each in the broadcast shape of all `inputs`, whichever of them it reads.
std::vector<ValueId> full_outputs(Body& b, const expr::Program& p, std::span<const ValueId> inputs) {
  std::vector<ValueId> outputs = b.program(p, inputs);
  const auto reads = dependences(p);
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (reads[o][i]) continue;
      bool covered = false;
      for (size_t k = 0; k < inputs.size() && !covered; ++k)
        covered = reads[o][k] && covers(b.shape_of(inputs[k]), b.shape_of(inputs[i]));
      if (!covered) outputs[o] = b.op("Expand", {outputs[o], b.op("Shape", {inputs[i]}, DType::i64)});
    }
  }
  return outputs;
}

}  // namespace

std::vector<ValueId> expand_pointwise(Body& b) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < b.node().inputs.size(); ++i) inputs.push_back(b.in(i));
  return full_outputs(b, *b.node().program, inputs);
}

std::vector<ValueId> expand_reduce(Body& b) {
  const Reduction r(b.node());
  std::vector<ValueId> before, after;
  for (size_t i = 0; i < b.node().inputs.size(); ++i) (i < r.inputs_before ? before : after).push_back(b.in(i));
  const ValueId body = full_outputs(b, *b.node().program, before)[0];
  std::vector<int64_t> axes = r.axes;
  const ValueId reduced = axes.empty() ? b.op(std::string(r.onnx()), {body}, {{"keepdims", int64_t{r.keepdims}}})
                                       : b.op(std::string(r.onnx()), {body, b.ints(axes)}, {{"keepdims", int64_t{r.keepdims}}});
  if (!r.post) return {b.cast(reduced, b.output_type())};
  after.insert(after.begin(), reduced);
  return b.program(*r.post, after);
}

}  // namespace smelt::ops
