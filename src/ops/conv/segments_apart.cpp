#include "ops/conv/segments_apart.h"

#include <algorithm>

#include "ops/conv/segments.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

/// The first image's: its scaled sums as they are. `then`: added to those before, which are the last input; of the last image what follows.
expr::Program part_program(bool first, const expr::Program* then) {
  expr::Program p;
  std::vector<expr::Ref> inputs{p.input(DType::f32)};
  for (int i = 1; then != nullptr && i < then->input_count(); ++i) inputs.push_back(p.input(then->type(i)));
  if (!first) inputs[0] = p.call(expr::Fn::add, p.input(DType::f32), inputs[0]);
  if (then == nullptr)
    p.output(inputs[0]);
  else
    for (const expr::Ref r : p.splice(*then, inputs)) p.output(r);
  return p;
}

struct Part {
  std::shared_ptr<const Node> own;
  BoundNode node;
  Offer offer;
};

class ApartKernel final : public Kernel {
 public:
  ApartKernel(std::vector<std::unique_ptr<Kernel>> parts, const ConvSegments& s, size_t inputs, int64_t between)
      : parts_(std::move(parts)), s_(s), inputs_(inputs), between_(device_aligned(between)) {}

  int64_t workspace() const override {
    int64_t most = 0;
    for (const auto& p : parts_) most = std::max(most, p->workspace());
    return buffers() * between_ + most;
  }
  bool reads(size_t i) const override { return i < s_.count || i >= s_.quantized().operands; }

  void run(const Buffers& b) override {
    char* const memory = static_cast<char*>(b.workspace);
    const auto between = [&](size_t part) { return memory + static_cast<int64_t>(part % 2) * between_; };
    for (size_t i = 0; i < parts_.size(); ++i) {
      const bool last = i + 1 == parts_.size();
      given_.assign(7, nullptr);
      given_[0] = b.inputs[i];
      if (last)
        given_.insert(given_.end(), b.inputs.begin() + static_cast<int64_t>(std::min(s_.quantized().operands, inputs_)),
                      b.inputs.end());
      if (i > 0) given_.push_back(between(i - 1));
      void* const made[] = {last ? b.outputs[0] : between(i)};
      parts_[i]->run({given_, made, memory + buffers() * between_, b.stream});
    }
  }

 private:
  int64_t buffers() const { return parts_.size() > 2 ? 2 : 1; }

  std::vector<std::unique_ptr<Kernel>> parts_;
  ConvSegments s_;
  size_t inputs_;
  int64_t between_;  // bytes of the sums between two parts
  std::vector<const void*> given_;
};

}  // namespace

void offer_segments_apart(const BoundNode& node, const Machine& machine, OfferTactics offer, Offer& o) {
  const ConvSegments s(*node.node);
  const ConvSegments::Quantized at = s.quantized();
  const auto constant = [](Tensor t) {
    BoundTensor b{.type = t.type(), .shape = t.shape()};
    b.constant = std::move(t);
    return b;
  };
  const auto number = [&](size_t input, size_t i) {
    if (!node.has(input)) return BoundTensor{};
    const Tensor& all = node.inputs[input].constant;
    return constant(Tensor::scalar(all.to_doubles()[i]).cast(all.type()));
  };
  BoundTensor sums{.type = DType::f32, .shape = node.outputs[0].shape, .layout = node.outputs[0].layout};
  const auto parts = std::make_shared<std::vector<Part>>();
  const Tensor& w = node.inputs[s.weight()].constant;
  int64_t channel = 0;
  for (size_t i = 0; i < s.count; ++i) {
    const bool last = i + 1 == s.count;
    auto own = std::make_shared<Node>(*node.node);
    own->attrs.erase("segments");
    own->attrs.erase("upsample");
    const expr::Program plain = expr::conversion(DType::f32, node.outputs[0].type);
    own->program = part_program(i == 0, !last ? nullptr : node.node->program ? &*node.node->program : &plain);
    BoundNode part = node;
    part.node = own.get();
    const int64_t count = node.inputs[i].shape[1];
    const auto cut = [&, first = channel] { return channels_of(w, first, count); };
    const std::string name = "conv:channels " + std::to_string(channel) + "+" + std::to_string(count);
    part.inputs = {node.inputs[i],
                   constant(node.weights ? node.weights->packed(w, name, cut) : cut()),
                   BoundTensor{},
                   number(at.x_scale, i),
                   number(at.x_zero, i),
                   node.inputs[at.w_scale],
                   node.has(at.w_zero) ? node.inputs[at.w_zero] : BoundTensor{}};
    channel += count;
    if (last && at.operands < node.inputs.size())
      part.inputs.insert(part.inputs.end(), node.inputs.begin() + static_cast<int64_t>(at.operands), node.inputs.end());
    if (i > 0) part.inputs.push_back(sums);
    if (!last) part.outputs = {sums};
    own->inputs.assign(part.inputs.size(), ValueId::none);
    Offer made;
    offer(part, machine, made);
    for (const RefusedTactic& r : i == 0 ? made.refused : std::vector<RefusedTactic>{}) o.refuse(r.tactic, r.why);
    std::ranges::stable_sort(made.candidates, {}, &Candidate::estimate_us);
    parts->push_back({own, std::move(part), std::move(made)});
  }
  std::vector<std::string> tactics;
  for (const Candidate& c : parts->front().offer.candidates)
    if (std::ranges::find(tactics, c.tactic) == tactics.end()) tactics.push_back(c.tactic);
  for (const std::string& tactic : tactics) {
    std::vector<const Candidate*> chosen;
    std::string config;
    double us = 0;
    for (const Part& p : *parts) {
      const auto best = std::ranges::find(p.offer.candidates, tactic, &Candidate::tactic);
      if (best == p.offer.candidates.end()) break;
      chosen.push_back(&*best);
      config += best->config + ", ";
      us += best->estimate_us;
    }
    if (chosen.size() != parts->size()) continue;
    o.candidates.push_back({tactic, config + std::string(segments_apart), us,
                            [parts, chosen, s, inputs = node.inputs.size(), between = storage_bytes(sums)] {
                              std::vector<std::unique_ptr<Kernel>> kernels;
                              for (const Candidate* c : chosen) kernels.push_back(c->prepare());
                              return std::make_unique<ApartKernel>(std::move(kernels), s, inputs, between);
                            }});
  }
}

}  // namespace smelt::ops::conv
