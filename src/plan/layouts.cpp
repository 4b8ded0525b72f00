#include "plan/layouts.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "ops/conv/one_axis.h"
#include "ops/conv/problem.h"
#include "ops/core/channels_last.h"
#include "ops/cpu/strided_copy.h"
#include "plan/channels_last_moves.h"
#include "plan/concat_slices.h"
#include "plan/image_roles.h"
#include "plan/turned_axes.h"
#include "plan/views.h"

namespace smelt::plan {
namespace {

using ops::Layout;

class Pass {
 public:
  Pass(Segment& s, const tune::Tuner& tuner, const std::set<NodeId>& plain, AcceptedLayouts* accepted)
      : s_(s), tuner_(tuner), plain_(plain), accepted_(accepted), on_gpu_(tuner.machine().gpu != nullptr) {}

  void run() {
    std::vector<Step> steps = std::move(s_.steps);
    s_.steps.clear();
    if (on_gpu_) find_group_norms(steps);
    if (!on_gpu_ && tuner_.allows("cpu")) {
      moves_.emplace(
          s_, steps, plain_, [&](const Step& step, const ops::BoundNode& node) { return runs(step, node); },
          [&](const Step& step) { return role(s_, step, false) == Role::image; },
          [&](const Step& step) { return role(s_, step, false) == Role::follows; });
    }
    for (Step& step : steps) place(std::move(step));
    if (moves_) seen_.insert(moves_->strided().begin(), moves_->strided().end());
    slice_concatenations(s_, seen_, on_gpu_, [&](const Step& step, const ops::BoundNode& node) { return runs(step, node); });
  }

 private:
  /// Group normalisation of an image: Reshape to [N, G, C/G, pixels], Norm of the last two axes, Reshape back. A channels-last
  /// image is seen so through strides, without moving data.
  struct GroupNorm {
    TensorIndex image, grouped, normalised, result;
    const Step* norm;  // valid until it is placed
  };

  /// Fills group_norms_; their images need not be plain, which views would want.
  void find_group_norms(const std::vector<Step>& steps) {
    std::map<TensorIndex, std::vector<const Step*>> readers;
    std::map<TensorIndex, const Step*> producer;
    for (const Step& step : steps) {
      for (TensorIndex t : step.inputs) readers[t].push_back(&step);
      for (TensorIndex t : step.outputs) producer[t] = &step;
    }
    const auto result = [&](TensorIndex t) { return std::ranges::find(s_.results, t, &Port::tensor) != s_.results.end(); };
    const auto only = [&](TensorIndex t) { return readers[t].size() == 1 && !result(t) ? readers[t][0] : nullptr; };
    const auto reshapes = [](const Step* step) { return step && step->kind == StepKind::view && step->node->is("Reshape"); };
    for (const Step& norm : steps) {
      if (!is_instance_norm(norm) || norm.outputs.size() != 1 || !producer.contains(norm.inputs[0])) continue;
      const Step *before = producer[norm.inputs[0]], *after = only(norm.outputs[0]);
      if (!reshapes(before) || !reshapes(after) || only(norm.inputs[0]) != &norm) continue;
      const GroupNorm g{before->inputs[0], norm.inputs[0], norm.outputs[0], after->outputs[0], &norm};
      const Shape &image = s_.tensor(g.image).shape, &grouped = s_.tensor(g.grouped).shape;
      if (!counts(g.image) || !producer.contains(g.image) || s_.tensor(g.result).shape != image || grouped.size() != 4 ||
          grouped[0] != image[0] || grouped[1] * grouped[2] != image[1])
        continue;
      group_norms_.push_back(g);
      for (TensorIndex t : {g.image, g.result}) s_.tensor(t).fixed_layout = result(t);
    }
  }

  /// Whether the step is part of a group normalisation whose channels-last image a kernel takes as it lies.
  bool groups_channels_last(const Step& step) {
    if (step.inputs.empty() || step.outputs.empty()) return false;
    if (seen_.contains(step.inputs[0])) return true;  // its first step was asked
    const auto g = std::ranges::find(group_norms_, step.outputs[0], &GroupNorm::grouped);
    if (g == group_norms_.end() || s_.tensor(g->image).layout != Layout::nhwc || s_.tensor(g->result).fixed_layout) return false;
    BoundValue &grouped = s_.tensor(g->grouped), &normalised = s_.tensor(g->normalised);
    const int64_t channels = grouped.shape[1] * grouped.shape[2];
    grouped.strides = normalised.strides = {channels * grouped.shape[3], grouped.shape[2], 1, channels};
    if (!runs(*g->norm, bound_node(s_, *g->norm, nullptr))) {
      grouped.strides = normalised.strides = {};
      return false;
    }
    s_.tensor(g->result).layout = Layout::nhwc;
    for (TensorIndex t : {g->grouped, g->normalised}) seen_[t] = grouped.strides;
    return true;
  }

  /// Tensors that have a layout to choose: computed images whose bytes are not the same either way.
  bool counts(const ops::BoundTensor& t) const { return is_image(t) && !t.constant.valid() && !ops::is_same_either_way(t.shape); }
  bool counts(TensorIndex t) const { return t != absent && counts(s_.tensor(t)); }
  /// A constant that is joined to images, and lies as they do then.
  bool is_constant_image(TensorIndex t) const {
    if (t == absent || !s_.tensor(t).constant.valid()) return false;
    return is_image(s_.tensor(t)) && !ops::is_same_either_way(s_.tensor(t).shape);
  }
  /// Those of the step's images that are channels-last where the step is: operands of fewer axes, which broadcast, stay plain.
  bool counts(TensorIndex t, const Step& step) const {
    return counts(t) && s_.tensor(t).shape.size() == s_.tensor(step.outputs[0]).shape.size();
  }

  /// Whether some allowed tactic runs the step with these tensors.
  bool runs(const Step& step, const ops::BoundNode& node) const {
    if (step.kind != StepKind::kernel) return true;
    const auto ask = [&] { return is_offered(node, tuner_); };
    return accepted_ ? accepted_->runs(AcceptedLayouts::form_of(step, node), ask) : ask();
  }

  /// Whether some tactic runs the step with its images channels-last, but for those inputs that it reads as they are.
  bool runs_channels_last(const Step& step, Role r) const {
    // The only one that reorders: what follows may want it plain again.
    if (!tuner_.allows(on_gpu_ ? "cuda" : "cpu")) return false;
    ops::BoundNode node = bound_node(s_, step, nullptr);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (counts(step.inputs[i], step) && !(r == Role::image && reads_any_layout(step, i))) node.inputs[i].layout = Layout::nhwc;
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (counts(step.outputs[i], step)) node.outputs[i].layout = Layout::nhwc;
    }
    return runs(step, node);
  }

  /// A convolution of few channels copies its input with its padding anyhow, from any layout.
  bool reads_any_layout(const Step& step, size_t input) const {
    if (input == 0 && is_quantized_conv(*step.node))
      return s_.tensor(step.inputs[0]).shape[1] <= 4 && step.node->get_int("group", 1) == 1 &&
             step.node->get_int("segments", 1) == 1;
    if (on_gpu_) return input == 0 && reads_plain(step);
    if (input != 0 || !is_image_conv(s_, step, false) || step.node->op != "Conv" || step.node->get_int("segments", 1) != 1)
      return false;
    const ops::BoundNode node = bound_node(s_, step, nullptr);
    const auto images = ops::conv::as_images(node);
    return ops::conv::copies_with_padding(ops::conv::problem(images ? images->node : node));
  }

  /// Whether a GPU's convolution of few channels reads the image as it lies and writes a channels-last one: pixels of 3 elements are no
  /// better to read than rows.
  bool reads_plain(const Step& step) const {
    const BoundValue& x = s_.tensor(step.inputs[0]);
    if (!is_image_conv(s_, step, true) || x.shape[1] > 4 || x.layout != Layout::plain) return false;
    ops::BoundNode node = bound_node(s_, step, nullptr);
    for (ops::BoundTensor& t : node.outputs) t.layout = Layout::nhwc;
    return runs(step, node);
  }

  /// Images that are reordered either way had better be while their elements are small (the dequantized results of a model).
  bool widens_into_plain(const Step& step) const {
    int64_t before = 0, after = 0;
    for (TensorIndex t : step.inputs)
      if (counts(t)) before += bytes(s_.tensor(t).type, elements(s_.tensor(t).shape));
    for (TensorIndex t : step.outputs) {
      if (!s_.tensor(t).fixed_layout) return false;
      after += bytes(s_.tensor(t).type, elements(s_.tensor(t).shape));
    }
    return before < after;
  }

  bool is_last(TensorIndex t) const { return counts(t) && s_.tensor(t).layout == Layout::nhwc; }

  /// A step that reads its images as they lie, all the same where there are several. Its result is channels-last where a kernel makes it
  /// so and, of a copy, where that is wanted.
  bool reads_as_it_lies(Step& step) {
    const auto first = std::ranges::find_if(step.inputs, [&](TensorIndex t) { return is_last(t); });
    if (first == step.inputs.end() || !tuner_.allows("cpu")) return false;
    const Shape shape = s_.tensor(*first).shape;
    const auto like_first = [&](TensorIndex t) { return counts(t) && s_.tensor(t).shape == shape; };
    ops::BoundNode node = bound_node(s_, step, nullptr);
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (like_first(step.inputs[i])) node.inputs[i].layout = Layout::nhwc;
    const TensorIndex y = step.outputs[0];
    const bool may = counts(y) && !s_.tensor(y).fixed_layout && (is_reduction(*step.node) || (moves_ && moves_->is_wanted(y)));
    if (is_block_move(*step.node) && !may && !turns_well(*step.node)) return false;
    if (may) node.outputs[0].layout = Layout::nhwc;
    bool fits = runs(step, node);
    if (!fits && may && is_reduction(*step.node)) {
      node.outputs[0].layout = Layout::plain;
      fits = runs(step, node);
    }
    if (!fits) return false;
    for (TensorIndex& t : step.inputs)
      if (like_first(t)) t = in_layout(t, Layout::nhwc);
    s_.tensor(y).layout = node.outputs[0].layout;
    return true;
  }

  /// Runs the step on the memory of its channels-last image, where it is the same operator there.
  bool turns(const Step& step) {
    if (!moves_ || step.inputs.empty() || step.inputs[0] == absent || !is_last(step.inputs[0])) return false;
    auto all = turned_steps(s_, step, [&](const Step& turned, const ops::BoundNode& node) { return runs(turned, node); });
    if (!all) return false;
    std::ranges::move(all->before, std::back_inserter(s_.steps));
    s_.steps.push_back(std::move(all->step));
    std::ranges::move(all->after, std::back_inserter(s_.steps));
    return true;
  }

  void place(Step step) {
    if (groups_channels_last(step) || (moves_ && moves_->follow(step))) return s_.steps.push_back(std::move(step));
    // A part that is contiguous in a plain image is none in a channels-last one.
    const bool was_view = moves_ && step.kind == StepKind::view && is_part(*step.node) && is_last(step.inputs[0]);
    if (was_view) step.kind = StepKind::kernel;
    const Role r = plain_.contains(step.id) ? Role::plain : role(s_, step, on_gpu_);
    if (r == Role::reads && reads_as_it_lies(step)) return s_.steps.push_back(std::move(step));
    if ((r == Role::plain || r == Role::follows) && !plain_.contains(step.id) &&
        !(r == Role::follows && runs_channels_last(step, r)) && turns(step))
      return;
    const bool wanted =
        r == Role::image || (r == Role::follows && std::ranges::any_of(step.inputs, [&](TensorIndex t) { return is_last(t); }));
    const bool last = wanted && !(r == Role::follows && widens_into_plain(step)) && runs_channels_last(step, r);
    if (was_view && !last) step.kind = StepKind::view;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (last && step.kind == StepKind::concat && is_constant_image(step.inputs[i]))
        step.inputs[i] = constant_channels_last(step.inputs[i]);
      if (!counts(step.inputs[i])) continue;
      if (last && r == Role::image && reads_any_layout(step, i)) continue;
      step.inputs[i] = in_layout(step.inputs[i], last && counts(step.inputs[i], step) ? Layout::nhwc : Layout::plain);
    }
    std::vector<Step> after;
    if (last) {
      for (TensorIndex& t : step.outputs) {
        if (!counts(t, step)) continue;
        if (!s_.tensor(t).fixed_layout) {
          s_.tensor(t).layout = Layout::nhwc;
          continue;
        }
        // Somebody wants it plain: write a channels-last image of our own, and reorder it.
        const TensorIndex own = copy_of(t, Layout::nhwc);
        copies_[{t, Layout::nhwc}] = own;
        after.push_back(reorder_step(s_, own, t));
        t = own;
      }
    }
    s_.steps.push_back(std::move(step));
    for (Step& a : after) s_.steps.push_back(std::move(a));
  }

  TensorIndex copy_of(TensorIndex t, Layout layout) {
    BoundValue v = s_.tensor(t);
    v.layout = layout;
    v.fixed_layout = false;
    v.strides.clear();
    v.constant = Tensor();
    return add_tensor(s_, std::move(v));
  }

  /// A constant's copy that lies as images do; on the processor it is made now.
  TensorIndex constant_channels_last(TensorIndex t) {
    const int64_t bytes = ops::element_bytes(s_.tensor(t).type);
    if (on_gpu_ || !ops::StridedCopy::can_move(bytes)) return in_layout(t, Layout::nhwc);
    const auto [at, fresh] = copies_.try_emplace({t, Layout::nhwc}, absent);
    if (fresh) {
      const Tensor plain = s_.tensor(t).constant;
      Tensor last = Tensor::zeros(plain.type(), plain.shape());
      ops::StridedCopy(plain.shape(), strides(plain.shape()), ops::channels_last_strides(plain.shape()), bytes, 1)
          .run(last.raw(), plain.raw());
      at->second = copy_of(t, Layout::nhwc);
      BoundValue& copy = s_.tensor(at->second);
      copy.constant = std::move(last);
      copy.value = ValueId::none;
    }
    return at->second;
  }

  /// The tensor, or a reordered copy of it made once.
  TensorIndex in_layout(TensorIndex t, Layout layout) {
    if (s_.tensor(t).layout == layout) return t;
    const auto [at, fresh] = copies_.try_emplace({t, layout}, absent);
    if (fresh) {
      at->second = copy_of(t, layout);
      s_.steps.push_back(reorder_step(s_, t, at->second));
    }
    return at->second;
  }

  Segment& s_;
  const tune::Tuner& tuner_;
  const std::set<NodeId>& plain_;
  AcceptedLayouts* accepted_;
  bool on_gpu_;
  std::map<std::pair<TensorIndex, Layout>, TensorIndex> copies_;
  std::optional<ChannelsLastMoves> moves_;  // on the processor
  std::vector<GroupNorm> group_norms_;
  std::map<TensorIndex, Shape> seen_;  // images as their groups
};

}  // namespace

std::string AcceptedLayouts::form_of(const Step& step, const ops::BoundNode& node) {
  std::string form = fmt::format("{}.{}{}", static_cast<int32_t>(step.id), step.part, node.node->op);
  for (const auto* list : {&node.inputs, &node.outputs}) {
    form += ';';
    for (const ops::BoundTensor& t : *list) {
      form += {static_cast<char>('A' + static_cast<int>(t.type)), t.layout == Layout::nhwc ? 'c' : 'p',
               t.strides.empty() ? 'd' : 's', t.constant.valid() ? 'k' : '-'};
      for (int64_t n : t.shape) form += n == 0 ? '0' : n == 1 ? '1' : 'n';
      for (int64_t n : t.strides) form += n == 0 ? '0' : n == 1 ? '1' : 'n';
    }
  }
  return form;
}

bool is_offered(const ops::BoundNode& node, const tune::Tuner& tuner) {
  try {
    const auto is_allowed = [&](const ops::Candidate& c) { return tuner.allows(c.tactic); };
    // A search through oneDNN's takes a hundred times as long.
    return std::ranges::any_of(ops::offer(node, tuner.machine(), {.at_once = true}).candidates, is_allowed) ||
           std::ranges::any_of(ops::offer(node, tuner.machine()).candidates, is_allowed);
  } catch (const Error&) {  // no tactic
    return false;
  }
}

void assign_layouts(Segment& s, const tune::Tuner& tuner, const std::set<NodeId>& plain, AcceptedLayouts* accepted) {
  Pass(s, tuner, plain, accepted).run();
}

}  // namespace smelt::plan
