#include "plan/product_steps.h"

#include <algorithm>
#include <functional>

#include "graph/fused.h"

namespace smelt::plan {

bool is_plain_product(const Step& step) {
  const Node& n = *step.node;
  return step.kind == StepKind::kernel && (n.is("MatMul", smelt_domain) || n.is("MatMul")) && n.get_int("transA", 0) == 0 &&
         n.get_int("transB", 0) == 0 && n.get_float("alpha", 1) == 1;
}

bool is_read_once(const Segment& s, TensorIndex t) {
  int64_t readers = std::ranges::count(s.results, t, &Port::tensor) * 2;
  for (const Step& step : s.steps) readers += std::ranges::count(step.inputs, t);
  return readers == 1;
}

void add_sources(Node& node, const Node& from) {
  node.sources.insert(node.sources.end(), from.sources.begin(), from.sources.end());
  std::ranges::sort(node.sources);
  node.sources.erase(std::unique(node.sources.begin(), node.sources.end()), node.sources.end());
}

void erase_steps(Segment& s, std::vector<size_t> at) {
  std::ranges::sort(at, std::greater<>());
  for (const size_t i : at) s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(i));
}

}  // namespace smelt::plan
