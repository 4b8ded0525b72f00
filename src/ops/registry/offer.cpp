// What can run a node: the tactics of the first operators in the families' lists that have one for it, else those that have one for it
// in other types, then the reference.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "ops/attention/family.h"
#include "ops/conv/family.h"
#include "ops/core/data_dependent.h"
#include "ops/core/facts.h"
#include "ops/core/key.h"
#include "ops/core/late_kernel.h"
#include "ops/core/reference_kernel.h"
#include "ops/core/tactic_names.h"
#include "ops/cuda/gpu.h"
#include "ops/detect/family.h"
#include "ops/einsum/family.h"
#include "ops/gather/family.h"
#include "ops/generate/family.h"
#include "ops/matmul/family.h"
#include "ops/ml/family.h"
#include "ops/movement/family.h"
#include "ops/norm/family.h"
#include "ops/pointwise/family.h"
#include "ops/pool/family.h"
#include "ops/quantize/family.h"
#include "ops/reduce/family.h"
#include "ops/registry/converted.h"
#include "ops/reorder/around.h"
#include "ops/reorder/family.h"
#include "ops/resize/family.h"
#include "ops/rnn/family.h"
#include "ops/select/family.h"
#include "ops/signal/family.h"
#include "ops/softmax/family.h"

namespace smelt::ops {
namespace {

/// The order counts where two families know an operator: a mean that no pooling computes is left to the reductions, a conversion
/// that is no pointwise program to quantisation.
constexpr const TacticFamily* families[] = {
    &conv_family,   &matmul_family, &pool_family,      &resize_family,   &reorder_family,   &movement_family,
    &norm_family,   &reduce_family, &attention_family, &softmax_family,  &pointwise_family, &quantize_family,
    &gather_family, &rnn_family,    &einsum_family,    &generate_family, &select_family,    &detect_family,
    &signal_family, &ml_family,     &col2im_family,    &stem_family,
};

/// What a reference costs an output element, at least: a guess. It ranks behind every other tactic, whatever they estimate.
constexpr double reference_us_per_element = 0.05;
constexpr double reference_over_others = 20;

std::string attribute_text(const Attribute& a) {
  struct Print {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(float v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const { return v; }
    std::string operator()(const Tensor& v) const { return fmt::format("{}[{}]", smelt::name(v.type()), to_text(v.shape())); }
    std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("{}", fmt::join(v, "x")); }
    std::string operator()(const std::vector<float>& v) const { return fmt::format("{}", fmt::join(v, "x")); }
    std::string operator()(const std::vector<std::string>& v) const { return fmt::format("{}", fmt::join(v, "+")); }
    std::string operator()(const GraphPtr& v) const { return v ? v->name : ""; }
  };
  return std::visit(Print{}, a);
}

/// Axes, pads, starts, repeats: integers that decide what a kernel does where they are known before it is made.
bool is_list(const Tensor& t) {
  constexpr int64_t most = 16;
  return t.valid() && (t.type() == DType::i64 || t.type() == DType::i32) && t.rank() <= 1 && t.size() <= most;
}

/// What problems name of constant inputs, beside the values of lists.
struct NamedConstants {
  bool floats = false;  // the values of f32: "f32[4]=1x1x2x2"
  bool all = false;     // that the others are constant: "i8[3,2,3,3]=constant"
};

/// "f32[512,64]", on a GPU with where it begins if that narrows its accesses: "f32[512,64]@4", and "i64[1]=2" of a list.
void add_tensors(Key& key, std::string_view before, const std::vector<BoundTensor>& tensors, bool on_gpu, NamedConstants named) {
  for (const BoundTensor& t : tensors) {
    key.option(&t == tensors.data() ? before : ",", t);
    if (on_gpu && t.type != DType::undefined) key.begins("", t);
    if (is_list(t.constant))
      key.option("=", t.constant.to_ints());
    else if (named.floats && t.constant.valid() && t.type == DType::f32)
      key.option("=", fmt::format("{}", fmt::join(t.constant.span<float>(), "x")));
    else
      key.flag("=constant", named.all && t.constant.valid());
  }
}

/// The problem of an operator without a family: "Gather:axis=0:f32[512,64],i64[8]>f32[8,64]".
std::string plain_problem(const BoundNode& b, bool on_gpu) {
  Key key(b.node->domain.empty() ? b.node->op : b.node->domain + "." + b.node->op);
  for (const auto& [name, value] : b.node->attrs) key.field(name).option("=", attribute_text(value));
  if (b.node->program) key.field(*b.node->program);
  NamedConstants named;
  for (const TacticFamily* family : families)
    for (const OperatorTactics& t : family->operators) {
      if (!t.handles(*b.node)) continue;
      named.floats = named.floats || t.by_float_inputs;
      named.all = named.all || (t.by_constants && !on_gpu);
    }
  add_tensors(key, ":", b.inputs, on_gpu, named);
  add_tensors(key, ">", b.outputs, on_gpu, {});
  return key.text();
}

/// Every output has a shape and no elements.
bool writes_nothing(const BoundNode& b) {
  return std::ranges::all_of(b.outputs,
                             [](const BoundTensor& t) { return t.type == DType::undefined || elements(t.shape) == 0; });
}

/// What it makes is made of nothing: its first input, or an operand of a product, has no elements. Loops that begin with a first element
/// have none to begin with, so that on the processor the reference alone runs it, which takes no time over no elements.
bool reads_nothing(const BoundNode& b) {
  const size_t operands = facts(*b.node).contracts ? 3 : 1;
  for (size_t i = 0; i < std::min(operands, b.inputs.size()); ++i)
    if (b.inputs[i].type != DType::undefined && elements(b.inputs[i].shape) == 0) return true;
  return false;
}

class NothingKernel final : public Kernel {
 public:
  void run(const Buffers&) override {}
};

/// The same over channels-last images, with reorders around it.
void offer_reordered(OfferTactics offer, const BoundNode& node, const Machine& machine, const Wanted& wanted, Offer& o) {
  std::optional<ChosenTactic> only;
  if (wanted.only) {
    if (!wanted.only->config.ends_with(reordered_suffix)) return;
    std::string config = wanted.only->config.substr(0, wanted.only->config.size() - reordered_suffix.size());
    if (config.ends_with(' ')) config.pop_back();
    only = ChosenTactic{wanted.only->tactic, std::move(config)};
  }
  auto form = channels_last_inside(node);
  if (!form) return;
  const auto inside = std::make_shared<const BoundNode>(std::move(*form));
  Offer inner;
  inner.wanted = {only ? &*only : nullptr, wanted.at_once};
  offer(*inside, machine, inner);
  for (const Candidate& c : inner.candidates) o.candidates.push_back(reordered(node, inside, c, machine));
}

/// Whether the node folds whole planes of plain images, which the reductions read once where they lie: poolings would reorder them.
bool folds_plain_planes(const BoundNode& node) {
  if (node.inputs.empty() || node.inputs[0].layout != Layout::plain || node.outputs[0].layout != Layout::plain) return false;
  const auto handles = [&](const OperatorTactics& t) { return t.cpu && t.handles(*node.node); };
  return std::ranges::any_of(pool_family.operators, handles) && std::ranges::any_of(reduce_family.operators, handles);
}

void offer_tactics(const BoundNode& node, const Machine& machine, const Wanted& wanted, Offer& o) {
  const bool of_nothing = !machine.gpu && !writes_nothing(node) && reads_nothing(node) && !reference_rejects(node);
  if (of_nothing) o.refuse("cpu", Reason::wrong_shape, "an input has no elements");
  for (const TacticFamily* family : families) {
    // Reductions know what nothing adds up to.
    if (of_nothing && family != &reduce_family) continue;
    if (family == &pool_family && !machine.gpu && folds_plain_planes(node)) {
      o.wanted = wanted;
      for (const OperatorTactics& tactics : reduce_family.operators)
        if (tactics.cpu && tactics.handles(*node.node)) tactics.cpu(node, machine, o);
    }
    for (const OperatorTactics& tactics : family->operators) {
      if (!o.candidates.empty()) return;
      const OfferTactics offer = machine.gpu ? tactics.cuda : tactics.cpu;
      if (!offer || !tactics.handles(*node.node)) continue;
      static const ChosenTactic none;
      o.wanted = wanted;
      if (wanted.only && (wanted.only->config.ends_with(reordered_suffix) || is_converted(wanted.only->config)))
        o.wanted.only = &none;
      offer(node, machine, o);
      if (family->images && !machine.gpu) offer_reordered(offer, node, machine, wanted, o);
      if (wanted.at_once) std::erase_if(o.candidates, [](const Candidate& c) { return generates_code(c.tactic); });
    }
  }
}

}  // namespace

bool is_found_on_processor(const Node& node) {
  return std::ranges::any_of(families, [&](const TacticFamily* family) {
    return std::ranges::any_of(family->operators, [&](const OperatorTactics& t) { return t.cpu && t.handles(node); });
  });
}

bool has_late_kernel(const Node& node) { return !facts(node).data_dependent && is_found_on_processor(node); }

Offer offer(const BoundNode& node, const Machine& machine, Wanted wanted) {
  Offer o;
  if (machine.gpu && writes_nothing(node))
    o.candidates.push_back({"cuda", "empty", 0, [] { return std::make_unique<NothingKernel>(); }});
  offer_tactics(node, machine, wanted, o);
  if (o.candidates.empty()) {
    const auto inner = [&](const BoundNode& form, const Wanted& w, Offer& of) { offer_tactics(form, machine, w, of); };
    offer_converted(node, machine, wanted, inner, o);
  }
  for (const Candidate& c : o.candidates)
    if (std::ranges::find(tactic_names, std::string_view(c.tactic)) == std::end(tactic_names))
      fail("tactic '{}' of {} is not listed in tactic_names", c.tactic, o.problem);
  if (o.problem.empty()) o.problem = plain_problem(node, machine.gpu != nullptr);
  o.wanted = {};
  if (wanted.only && wanted.only->tactic != "reference") return o;
  if (machine.gpu) {
    o.refuse("reference", Reason::wrong_machine, "runs on the processor");
  } else if (const auto why = reference_rejects(node)) {
    o.refuse("reference", *why);
  } else {
    double count = 0;
    for (const BoundTensor& t : node.outputs) count += static_cast<double>(t.type == DType::undefined ? 0 : elements(t.shape));
    double estimate = 1 + count * reference_us_per_element;
    for (const Candidate& c : o.candidates) estimate = std::max(estimate, reference_over_others * c.estimate_us);
    o.candidates.push_back({"reference", "", estimate, [node] { return reference_kernel(node); }});
  }
  if (o.candidates.empty() && !wanted.at_once) {
    std::string reasons;
    for (const RefusedTactic& r : o.refused) reasons += fmt::format("\n  {}: {}", r.tactic, r.why.text);
    fail_unsupported("{}: no tactic runs this problem{}", o.problem, reasons);
  }
  return o;
}

}  // namespace smelt::ops
