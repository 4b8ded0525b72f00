// Convolutions of 8-bit integers over plain images that the other kernels leave (three spatial axes): ConvInteger's kernels make the sums, a
// sweep ends them.
#include <algorithm>

#include "ops/conv/int8_sums_end.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

struct Sums {
  Node node;
  BoundNode bound;
};

/// The ConvInteger of the same sums.
std::shared_ptr<const Sums> sums_of(const Request& q) {
  auto s = std::make_shared<Sums>();
  s->node.op = "ConvInteger";
  for (const char* name : {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"})
    if (const auto it = q.node.node->attrs.find(name); it != q.node.node->attrs.end()) s->node.attrs.insert(*it);
  s->bound.node = &s->node;
  s->bound.weights = q.node.weights;
  const auto input = [&](size_t i) { return i < q.node.inputs.size() ? q.node.inputs[i] : BoundTensor{}; };
  s->bound.inputs = {input(q.at.x), input(q.at.w), input(q.at.x + (q.own->domain == smelt_domain ? 4 : 2)),
                     input(q.at.x + (q.own->domain == smelt_domain ? 6 : 5))};
  BoundTensor sums;
  sums.type = DType::i32, sums.shape = q.node.outputs[0].shape;
  s->bound.outputs = {sums};
  return s;
}

class SumsThenSweep final : public Kernel {
 public:
  SumsThenSweep(const Request& q, std::shared_ptr<const Sums> own, std::unique_ptr<Kernel> sums)
      : own_(std::move(own)),
        sums_(std::move(sums)),
        end_(q, own_->bound.outputs[0]),
        bytes_(aligned(elements(q.node.outputs[0].shape) * 4)),
        x_(q.at.x),
        w_(q.at.w),
        x_zero_(q.own->domain == smelt_domain ? q.at.x + 4 : q.at.x + 2),
        w_zero_(q.own->domain == smelt_domain ? q.at.x + 6 : q.at.x + 5) {}

  int64_t workspace() const override { return bytes_ + std::max(sums_->workspace(), end_.workspace()); }

  void run(const Buffers& b) override {
    void* sums = b.workspace;
    void* scratch = static_cast<char*>(b.workspace) + bytes_;
    const auto input = [&](size_t i) { return i < b.inputs.size() ? b.inputs[i] : nullptr; };
    const void* const in[] = {input(x_), input(w_), input(x_zero_), input(w_zero_)};
    sums_->run({in, std::span(&sums, 1), scratch});
    end_.run(sums, b, scratch);
  }

 private:
  std::shared_ptr<const Sums> own_;
  std::unique_ptr<Kernel> sums_;
  Int8SumsEnd end_;
  int64_t bytes_;
  size_t x_, w_, x_zero_, w_zero_;
};

}  // namespace

void offer_int8_sums(const Request& q, Offer& offer) {
  const BoundTensor& y = q.node.outputs[0];
  if (elements(y.shape) == 0) return;
  const auto own = sums_of(q);
  if (const auto why = Int8SumsEnd::rejects(q, DType::i32)) return offer.refuse("cpu", *why);
  Machine machine;
  machine.threads = q.threads;
  Offer sums;
  offer_conv_integer_cpu(own->bound, machine, sums);
  for (const RefusedTactic& r : sums.refused) offer.refuse(r.tactic, r.why);
  for (const Candidate& c : sums.candidates)
    offer.candidates.push_back({c.tactic, c.config.empty() ? "sums, then a sweep" : c.config + ", then a sweep",
                                c.estimate_us + 1 + static_cast<double>(elements(y.shape)) / 2e3 / q.threads,
                                [q, own, prepare = c.prepare] { return std::make_unique<SumsThenSweep>(q, own, prepare()); }});
}

}  // namespace smelt::ops::conv
