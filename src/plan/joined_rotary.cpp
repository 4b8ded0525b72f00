#include "plan/joined_rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "graph/fused.h"

namespace smelt::plan {
namespace {

bool is_rotary(const Step& step) { return step.kind == StepKind::kernel && step.node->is("RotaryEmbedding", smelt_domain); }

/// The next step after `first` that turns another x as it does; none where a step between them reads the first's result.
std::optional<size_t> partner_of(const Segment& s, size_t first) {
  const Step& a = s.steps[first];
  for (size_t i = first + 1; i < s.steps.size(); ++i) {
    const Step& b = s.steps[i];
    if (std::ranges::count(b.inputs, a.outputs[0]) > 0) return std::nullopt;
    const bool alike = is_rotary(b) && b.inputs[1] == a.inputs[1] && b.inputs[2] == a.inputs[2] &&
                       b.node->get_int("interleaved", 0) == a.node->get_int("interleaved", 0) &&
                       s.tensor(b.inputs[0]).type == s.tensor(a.inputs[0]).type && b.inputs[0] != a.inputs[0];
    if (alike) return i;
  }
  return std::nullopt;
}

Step joined_step(const Step& a, const Step& b) {
  Step one;
  one.id = a.id;
  one.inputs = {a.inputs[0], b.inputs[0], a.inputs[1], a.inputs[2]};
  one.outputs = {a.outputs[0], b.outputs[0]};
  Node node = *a.node;
  node.op = "JoinedRotary";
  node.sources.insert(node.sources.end(), b.node->sources.begin(), b.node->sources.end());
  std::ranges::sort(node.sources);
  node.sources.erase(std::unique(node.sources.begin(), node.sources.end()), node.sources.end());
  one.node = std::make_shared<const Node>(std::move(node));
  return one;
}

}  // namespace

void JoinedRotary::apply(Segment& s, Context& context, bool may_measure) {
  for (size_t i = 0; i < s.steps.size(); ++i) {
    if (!is_rotary(s.steps[i])) continue;
    const auto partner = partner_of(s, i);
    if (!partner) continue;
    Step one = joined_step(s.steps[i], s.steps[*partner]);
    const auto apart = [&] { return std::vector{s.steps[i], s.steps[*partner]}; };
    const OneOrApart::Decision d = choices_.decide(
        s, {.one = one, .kind = "rotary", .with = "another by the same tables", .apart = apart}, context, may_measure);
    if (d.one) {
      one.fused = d.times;
      s.steps[*partner] = std::move(one);
      s.steps.erase(s.steps.begin() + static_cast<std::ptrdiff_t>(i--));
    } else if (d.times) {
      s.steps[i].fused = d.times;
    }
  }
}

}  // namespace smelt::plan
