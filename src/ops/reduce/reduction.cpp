#include "ops/reduce/reduction.h"

#include <algorithm>

#include "base/error.h"

namespace smelt::ops {
namespace {

struct KindName {
  std::string_view name, onnx;
};
constexpr KindName kinds[] = {{"sum", "ReduceSum"}, {"mean", "ReduceMean"}, {"max", "ReduceMax"},
                              {"min", "ReduceMin"}, {"prod", "ReduceProd"}, {"sum_square", "ReduceSumSquare"},
                              {"l2", "ReduceL2"}};  // in ReduceKind's order

}  // namespace

Reduction::Reduction(const Node& n)
    : axes(n.get_ints("axes")),
      keepdims(n.get_int("keepdims", 1) != 0),
      inputs_before(static_cast<size_t>(n.get_int("inputs_before", static_cast<int64_t>(n.inputs.size())))) {
  const std::string text = n.get_string("kind", "");
  const auto at = std::ranges::find(kinds, std::string_view(text), &KindName::name);
  if (at == std::end(kinds)) fail("kind = '{}', expected sum, mean, max, min, prod, sum_square or l2", text);
  kind = static_cast<ReduceKind>(at - kinds);
  if (inputs_before > n.inputs.size()) fail("inputs_before = {}, but there are {} operands", inputs_before, n.inputs.size());
  if (const std::string program = n.get_string("post", ""); !program.empty()) post = expr::Program::parse(program);
}

std::string_view Reduction::onnx() const { return kinds[static_cast<size_t>(kind)].onnx; }

Shape reduced_shape(const Shape& shape, std::span<const int64_t> axes, bool keepdims) {
  Shape out;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool reduced = std::ranges::find(axes, static_cast<int64_t>(i)) != axes.end();
    if (!reduced || keepdims) out.push_back(reduced ? 1 : shape[i]);
  }
  return out;
}

}  // namespace smelt::ops
