#include "ops/registry/converted.h"

#include <algorithm>
#include <optional>
#include <variant>

#include "ops/core/align.h"
#include "ops/core/data_dependent.h"
#include "ops/core/real_types.h"
#include "ops/core/strides.h"
#include "ops/pointwise/family.h"
#include "ops/quantize/family.h"

namespace smelt::ops {
namespace {

using Inner = std::function<void(const BoundNode&, const Wanted&, Offer&)>;

/// What stands for integers where an operator's kernels know other types alone.
enum class Integers : uint8_t {
  own,   // nothing: its kernels are of the type itself
  wrap,  // wider integers: sums, products and copies, whose low bits are those of the operands' low bits
  real,  // doubles, as in its reference, which truncates them
};
Integers integers_of(const Node& node) {
  if (node.is("Einsum") || node.is("Col2Im")) return Integers::wrap;
  return node.is("GridSample") ? Integers::real : Integers::own;
}

/// Floats of 8 bits and less, and integers several to a byte.
bool is_narrow(DType t) { return (is_float(t) && bits(t) <= 8) || (is_integer(t) && bits(t) < 8); }

template <class F> bool any_tensor(const BoundNode& b, F&& f) {
  return std::ranges::any_of(b.inputs, [&](const BoundTensor& t) { return f(t.type); }) ||
         std::ranges::any_of(b.outputs, [&](const BoundTensor& t) { return f(t.type); });
}

/// A node in other types. `suffix`: of its candidates' configurations.
struct Converted {
  BoundNode bound;
  std::string suffix;
};
using ConvertedPtr = std::shared_ptr<const Converted>;

/// A constant in another type: one tensor for all plans that share weights, so that its packed forms are shared too.
Tensor converted(const BoundNode& b, const Tensor& constant, DType type) {
  const auto make = [&] { return constant.cast(type); };
  return b.weights ? b.weights->packed(constant, name(type), make) : make();
}

/// The node with `replace(type)` for its tensors' types.
template <class F> ConvertedPtr with_types(const BoundNode& b, DType type, F&& replaces) {
  auto made = std::make_shared<Converted>(Converted{b, fmt::format(" as {}", name(type))});
  for (BoundTensor& t : made->bound.inputs) {
    if (!replaces(t.type)) continue;
    if (t.constant.valid()) t.constant = converted(b, t.constant, type);
    t.type = type, t.alignment = BoundTensor().alignment;
  }
  for (BoundTensor& t : made->bound.outputs)
    if (replaces(t.type)) t.type = type, t.alignment = BoundTensor().alignment;
  return made;
}

/// The forms of a node, the nearest first.
std::vector<ConvertedPtr> forms(const BoundNode& b) {
  std::vector<ConvertedPtr> found;
  if (b.node->op == "DequantizeLinear") {  // f32 holds what is quantised, and so its differences from the zero point
    found.push_back(with_types(b, DType::f32, is_narrow));
    return found;
  }
  for (const DType type : {DType::f32, DType::f64}) {
    const auto others = [&](DType t) { return is_real(t) && t != type; };
    if (type == DType::f32 && any_tensor(b, [](DType t) { return t == DType::f64; })) continue;
    if (any_tensor(b, others)) found.push_back(with_types(b, type, others));
  }
  const DType own = b.outputs[0].type;
  const auto same = [&](DType t) { return t == own; };
  switch (integers_of(*b.node)) {
    case Integers::own: break;
    case Integers::wrap:
      if ((is_integer(own) && bits(own) >= 8 && bits(own) < 32) || own == DType::boolean)
        found.push_back(with_types(b, is_signed(own) ? DType::i32 : DType::u32, same));
      break;
    case Integers::real:
      if ((is_integer(own) && bits(own) >= 8) || own == DType::boolean)
        found.push_back(with_types(b, DType::f64, [&](DType t) { return same(t) || is_real(t); }));
      break;
  }
  return found;
}

/// Nodes that are the same computation in another type: not those that name a type in an attribute, or run a program or a graph of
/// their own.
bool is_convertible(const BoundNode& b) {
  const Node& node = *b.node;
  if (node.program || is_bound_at_most(b) || b.outputs.empty() || node.domain == smelt_domain) return false;
  if (node.is("Cast") || node.is("CastLike") || node.is("BitCast") || node.is("QuantizeLinear")) return false;
  if (node.op == "DequantizeLinear" && !is_narrow(b.inputs[0].type)) return false;
  for (const auto& [name, value] : node.attrs)
    if (std::holds_alternative<GraphPtr>(value) || std::holds_alternative<Tensor>(value)) return false;
  const auto is_plain = [](const BoundTensor& t) { return t.type == DType::undefined || is_dense(t); };
  return std::ranges::all_of(b.inputs, is_plain) && std::ranges::all_of(b.outputs, is_plain);
}

/// One tensor's conversion, by the kernel of a Cast.
class Conversion {
 public:
  Conversion(const BoundTensor& from, const BoundTensor& to, const Machine& machine) {
    auto cast = std::make_shared<Node>();
    cast->op = "Cast";
    cast->attrs["to"] = static_cast<int64_t>(to.type);
    const auto flat = [](const BoundTensor& t) {
      return BoundTensor{.type = t.type, .shape = {elements(t.shape)}, .alignment = t.alignment};
    };
    const BoundNode bound{.node = cast.get(), .inputs = {flat(from)}, .outputs = {flat(to)}};
    Offer offer;
    for (const TacticFamily* family : {&pointwise_family, &quantize_family})  // the latter's are of types of less than 8 bits
      for (const OperatorTactics& t : family->operators) {
        const OfferTactics casts = machine.gpu ? t.cuda : t.cpu;
        if (offer.candidates.empty() && casts && t.handles(*cast)) casts(bound, machine, offer);
      }
    node_ = cast;
    if (!offer.candidates.empty()) estimate_us_ = offer.candidates[0].estimate_us, prepare_ = offer.candidates[0].prepare;
  }
  bool exists() const { return prepare_ != nullptr; }
  double estimate_us() const { return estimate_us_; }
  std::unique_ptr<Kernel> prepare() const { return prepare_(); }

 private:
  std::shared_ptr<const Node> node_;
  std::function<std::unique_ptr<Kernel>()> prepare_;
  double estimate_us_ = 0;
};

/// The conversions that a form takes; nothing where one of them has no kernel. A GPU's include those of constants, which lie in its
/// memory as the model has them; on the processor they are converted beforehand.
struct Conversions {
  std::vector<std::pair<size_t, Conversion>> before, after;
  double us = 0;
};
std::optional<Conversions> conversions(const BoundNode& b, const Converted& form, const Machine& machine) {
  Conversions c;
  const auto add = [&](auto& list, size_t i, const BoundTensor& from, const BoundTensor& to) {
    if (from.type == to.type || elements(from.shape) == 0) return true;
    list.emplace_back(i, Conversion(from, to, machine));
    c.us += list.back().second.estimate_us();
    return list.back().second.exists();
  };
  for (size_t i = 0; i < b.inputs.size(); ++i)
    if ((machine.gpu || !b.inputs[i].constant.valid()) && !add(c.before, i, b.inputs[i], form.bound.inputs[i]))
      return std::nullopt;
  for (size_t i = 0; i < b.outputs.size(); ++i)
    if (!add(c.after, i, form.bound.outputs[i], b.outputs[i])) return std::nullopt;
  return c;
}

class ConvertedKernel final : public Kernel {
 public:
  ConvertedKernel(const BoundNode& b, const ConvertedPtr& form, const Conversions& c, std::unique_ptr<Kernel> inner, bool on_gpu)
      : inner_(std::move(inner)), in_(b.inputs.size()), out_(b.outputs.size()), constants_(b.inputs.size()) {
    for (size_t i = 0; i < b.inputs.size() && !on_gpu; ++i)
      if (b.inputs[i].constant.valid() && form->bound.inputs[i].type != b.inputs[i].type)
        constants_[i] = form->bound.inputs[i].constant;
    const auto add = [&](std::vector<Pass>& list, size_t i, const Conversion& conversion, const BoundTensor& wide) {
      list.push_back({i, memory_, conversion.prepare()});
      memory_ += device_aligned(bytes(wide.type, elements(wide.shape)));
      scratch_ = std::max(scratch_, list.back().cast->workspace());
    };
    for (const auto& [i, conversion] : c.before)
      if (!b.inputs[i].constant.valid() || inner_->reads(i)) add(before_, i, conversion, form->bound.inputs[i]);
    for (const auto& [i, conversion] : c.after) add(after_, i, conversion, form->bound.outputs[i]);
  }

  int64_t workspace() const override { return memory_ + std::max(scratch_, inner_->workspace()); }
  bool reads(size_t i) const override { return !(i < constants_.size() && constants_[i].valid()) && inner_->reads(i); }

  void run(const Buffers& b) override {
    char* const memory = static_cast<char*>(b.workspace);
    char* const scratch = memory + memory_;
    std::ranges::copy(b.inputs, in_.begin());
    std::ranges::copy(b.outputs, out_.begin());
    for (size_t i = 0; i < constants_.size(); ++i)
      if (constants_[i].valid()) in_[i] = constants_[i].raw();
    for (const Pass& p : before_) {
      if (!b.inputs[p.index]) continue;
      void* to = memory + p.offset;
      p.cast->run(
          {.inputs = b.inputs.subspan(p.index, 1), .outputs = std::span(&to, 1), .workspace = scratch, .stream = b.stream});
      in_[p.index] = to;
    }
    for (const Pass& p : after_)
      if (b.outputs[p.index]) out_[p.index] = memory + p.offset;
    inner_->run({.inputs = in_, .outputs = out_, .workspace = scratch, .stream = b.stream});
    for (const Pass& p : after_) {
      if (!b.outputs[p.index]) continue;
      const void* from = memory + p.offset;
      p.cast->run(
          {.inputs = std::span(&from, 1), .outputs = b.outputs.subspan(p.index, 1), .workspace = scratch, .stream = b.stream});
    }
  }

 private:
  struct Pass {
    size_t index;    // of the input or output
    int64_t offset;  // of its converted form in the workspace
    std::unique_ptr<Kernel> cast;
  };
  std::unique_ptr<Kernel> inner_;
  std::vector<Pass> before_, after_;
  int64_t memory_ = 0, scratch_ = 0;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::vector<Tensor> constants_;  // by input, those that were converted beforehand
};

/// The form's candidates; whether it has any.
bool offer_form(const BoundNode& node, const ConvertedPtr& form, const Machine& machine, const Wanted& wanted, const Inner& inner,
                Offer& offer) {
  std::optional<ChosenTactic> only;
  if (wanted.only) {
    if (!wanted.only->config.ends_with(form->suffix)) return false;
    only = ChosenTactic{wanted.only->tactic, wanted.only->config.substr(0, wanted.only->config.size() - form->suffix.size())};
  }
  Offer found;
  inner(form->bound, {only ? &*only : nullptr, wanted.at_once}, found);
  if (found.candidates.empty()) return false;
  const auto c = conversions(node, *form, machine);
  if (!c) return false;
  for (const Candidate& candidate : found.candidates) {
    offer.candidates.push_back({candidate.tactic, candidate.config + form->suffix, candidate.estimate_us + c->us,
                                [node, form, c = *c, prepare = candidate.prepare, on_gpu = machine.gpu != nullptr] {
                                  return std::make_unique<ConvertedKernel>(node, form, c, prepare(), on_gpu);
                                },
                                candidate.lengthy});
  }
  return true;
}

}  // namespace

bool is_converted(std::string_view config) {
  return std::ranges::any_of(converted_suffixes, [&](std::string_view s) { return config.ends_with(s); });
}

void offer_converted(const BoundNode& node, const Machine& machine, const Wanted& wanted, const Inner& inner, Offer& offer) {
  if (!is_convertible(node)) return;
  for (const ConvertedPtr& form : forms(node))
    if (offer_form(node, form, machine, wanted, inner, offer)) return;
}

}  // namespace smelt::ops
