#include "plan/channels_last_moves.h"

#include <algorithm>

#include "ops/core/channels_last.h"
#include "ops/core/facts.h"
#include "ops/core/strides.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

using ops::Layout;

bool same_places(const Shape& shape, const Shape& a, const Shape& b) {
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1 && a[i] != b[i]) return false;
  return true;
}

}  // namespace

ChannelsLastMoves::ChannelsLastMoves(Segment& s, const std::vector<Step>& steps, const std::set<NodeId>& plain, Runs runs,
                                     Wants makes_images, Wants follows)
    : s_(s),
      plain_(plain),
      runs_(std::move(runs)),
      makes_images_(std::move(makes_images)),
      follows_(std::move(follows)),
      held_(s.tensors.size(), false),
      readers_(s.tensors.size()) {
  const auto hold = [&](TensorIndex t) {
    if (t != absent) held_[static_cast<size_t>(t)] = true;
  };
  for (size_t t = 0; t < s.tensors.size(); ++t) held_[t] = s.tensors[t].constant.valid();
  for (const auto* ports : {&s.externals, &s.results})
    for (const Port& p : *ports) hold(p.tensor);
  for (const Step& step : steps) {
    for (TensorIndex t : step.inputs)
      if (t != absent) readers_[static_cast<size_t>(t)].push_back(&step);
    if (step.kind != StepKind::dynamic && step.kind != StepKind::control) continue;
    std::ranges::for_each(step.inputs, hold);
    std::ranges::for_each(step.outputs, hold);
  }
  free_views(steps);
}

bool ChannelsLastMoves::is_move(const Step& step) const {
  if (step.kind != StepKind::view && step.kind != StepKind::kernel) return false;
  if (step.inputs.empty() || step.inputs[0] == absent || step.outputs.size() != 1 || step.outputs[0] == absent) return false;
  if (plain_.contains(step.id)) return false;
  const Node& n = *step.node;
  return n.is("Transpose") || (step.kind == StepKind::view && ops::facts(n).elements == ops::Elements::in_order);
}

bool ChannelsLastMoves::is_free(TensorIndex t) const { return !held_[static_cast<size_t>(t)]; }

bool ChannelsLastMoves::is_image(TensorIndex t) const {
  const BoundValue& v = s_.tensor(t);
  const size_t rank = v.shape.size();
  return v.type != DType::undefined && rank >= 3 && rank <= 5 && !v.constant.valid() && !ops::is_same_either_way(v.shape);
}

bool ChannelsLastMoves::is_plain(TensorIndex t, const Shape& strides) const {
  const Shape& shape = s_.tensor(t).shape;
  return same_places(shape, strides, smelt::strides(shape));
}

bool ChannelsLastMoves::is_channels_last(TensorIndex t, const Shape& strides) const {
  const Shape& shape = s_.tensor(t).shape;
  return is_image(t) && same_places(shape, strides, ops::channels_last_strides(shape));
}

const Step* ChannelsLastMoves::only_reader(TensorIndex t) const {
  const auto& readers = readers_[static_cast<size_t>(t)];
  return readers.size() == 1 && is_free(t) ? readers[0] : nullptr;
}

std::optional<Shape> ChannelsLastMoves::view(const Step& step, const Shape& from) const {
  const auto views = strided_views(s_, step, from);
  return views ? std::optional(views->front().strides) : std::nullopt;
}

void ChannelsLastMoves::free_views(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (step.kind != StepKind::view || plain_.contains(step.id)) continue;
    if (step.node->is("Split") || step.node->is("Slice")) {
      for (const auto* tensors : {&step.inputs, &step.outputs})
        for (TensorIndex t : *tensors)
          if (t != absent && is_free(t) && is_image(t)) s_.tensor(t).fixed_layout = false;
    }
    if (!is_move(step)) continue;
    const TensorIndex x = step.inputs[0], y = step.outputs[0];
    if (is_free(x) && is_image(x)) {
      const auto lies = view(step, ops::channels_last_strides(s_.tensor(x).shape));
      const Step* reader = only_reader(y);
      if (lies && (is_plain(y, *lies) || is_channels_last(y, *lies) || (reader && reader->node->is("Transpose"))))
        s_.tensor(x).fixed_layout = false;
    }
    if (is_free(y) && is_image(y)) s_.tensor(y).fixed_layout = false;
  }
}

/// Looks at `depth` steps ahead.
bool ChannelsLastMoves::is_wanted(TensorIndex t, int depth) {
  if (const auto at = wanted_.find(t); at != wanted_.end()) return at->second;
  if (depth == 0) return false;
  bool wanted = false;
  for (const Step* step : readers_[static_cast<size_t>(t)]) {
    if (wanted) break;
    if (plain_.contains(step->id)) continue;
    const auto leads_on = [&](TensorIndex y) { return y != absent && is_image(y) && is_wanted(y, depth - 1); };
    const bool follows = follows_(*step) || is_move(*step) || step->node->is("Split") || step->node->is("Slice");
    wanted = makes_images_(*step) || (follows && std::ranges::any_of(step->outputs, leads_on));
  }
  return wanted_[t] = wanted;
}

bool ChannelsLastMoves::become_view(Step& step, const Shape& strides) {
  const TensorIndex y = step.outputs[0];
  if (!is_plain(y, strides)) {
    if (s_.tensor(y).fixed_layout || !is_channels_last(y, strides)) return false;
    s_.tensor(y).layout = Layout::nhwc;
  }
  step.kind = StepKind::view;
  return true;
}

/// The step cuts the channels, which its only reader transposes: that may read them by strides.
bool ChannelsLastMoves::begin_shuffle(Step& step, const Shape& strides) {
  const TensorIndex y = step.outputs[0];
  const Step* turn = only_reader(y);
  if (step.kind != StepKind::view || !turn || !turn->node->is("Transpose") || !is_move(*turn)) return false;
  BoundValue& cut = s_.tensor(y);
  cut.strides = strides;
  if (!view(*turn, strides) || !runs_(*turn, bound_node(s_, *turn, nullptr))) {
    cut.strides.clear();
    return false;
  }
  strided_[y] = strides;
  return true;
}

/// Reads what lies otherwise, and writes for the Reshape behind it where that makes a channels-last image of it.
bool ChannelsLastMoves::transpose(Step& step) {
  const TensorIndex y = step.outputs[0];
  BoundValue& turned = s_.tensor(y);
  const BoundValue before = turned;
  const Step* reshape = only_reader(y);
  if (reshape && is_move(*reshape) && reshape->kind == StepKind::view && !reshape->node->is("Transpose")) {
    const TensorIndex z = reshape->outputs[0];
    const bool may = is_image(z) && !s_.tensor(z).fixed_layout && is_wanted(z);
    if (const auto lies = may ? strides_before(s_, *reshape, ops::channels_last_strides(s_.tensor(z).shape)) : std::nullopt) {
      if (!is_plain(y, *lies)) turned.strides = *lies;
      if (runs_(step, bound_node(s_, step, nullptr))) {
        if (!turned.strides.empty()) strided_[y] = turned.strides;
        return true;
      }
      turned = before;
    }
  } else if (is_image(y) && !turned.fixed_layout && is_wanted(y)) {
    turned.layout = Layout::nhwc;
    if (runs_(step, bound_node(s_, step, nullptr))) return true;
    turned = before;
  }
  return runs_(step, bound_node(s_, step, nullptr));
}

bool ChannelsLastMoves::follow(Step& step) {
  if (!is_move(step)) return false;
  const TensorIndex x = step.inputs[0], y = step.outputs[0];
  const bool lies_plain = s_.tensor(x).layout == Layout::plain && !strided_.contains(x);
  const auto lies = view(step, ops::memory_strides(s_.tensor(x)));
  if (lies_plain) {
    const bool turns = step.kind == StepKind::kernel && lies && !is_plain(y, *lies);
    return turns && is_wanted(y) && become_view(step, *lies);
  }
  if (lies && (become_view(step, *lies) || begin_shuffle(step, *lies))) return true;
  return step.kind == StepKind::kernel && transpose(step);
}

}  // namespace smelt::plan
