// Convolutions of 8-bit integers over plain images that the other kernels leave (three spatial axes): ConvInteger's kernels make the sums, a
// sweep ends them.
#include <algorithm>

#include "ops/conv/int8_problem.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops::conv {
namespace {

/// in0: the sum, in1: its channel's scale, in2: its bias, then the program's operands.
expr::Program ending(const Request& q) {
  const expr::Program& own = value_of(q.own->program, "the program of an int8 convolution");
  expr::Program p;
  const expr::Ref sum = p.input(DType::i32), scale = p.input(DType::f32), bias = p.input(DType::i32);
  std::vector<expr::Ref> inputs = {-1};
  for (int i = 1; i < own.input_count(); ++i) inputs.push_back(p.input(own.type(static_cast<expr::Ref>(i))));
  inputs[0] = p.call(expr::Fn::mul, p.cast(p.call(expr::Fn::add, sum, bias), DType::f32), scale);
  for (const expr::Ref r : p.splice(own, inputs)) p.output(r);
  return p;
}

/// Where the sums and the operands lie, in the result's shape.
std::vector<Shape> views(const Request& q) {
  const BoundTensor& y = q.node.outputs[0];
  Shape by_channel(y.shape.size(), 0);
  by_channel[1] = 1;
  const int inputs = value_of(q.own->program, "the program of an int8 convolution").input_count();
  std::vector<Shape> all = {strides(y.shape), by_channel, by_channel};
  for (int i = 1; i < inputs; ++i)
    all.push_back(broadcast_strides(q.node.inputs[q.at.operands + static_cast<size_t>(i) - 1], y.shape.size()));
  all.push_back(memory_strides(y));
  return all;
}

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
        sweep_(ending(q), q.node.outputs[0].shape, views(q), q.threads),
        bytes_(aligned(elements(q.node.outputs[0].shape) * 4)),
        x_(q.at.x),
        w_(q.at.w),
        x_zero_(q.own->domain == smelt_domain ? q.at.x + 4 : q.at.x + 2),
        w_zero_(q.own->domain == smelt_domain ? q.at.x + 6 : q.at.x + 5),
        operands_(q.at.operands),
        scales_(q.quantization().scales),
        bias_(q.quantization().bias) {
    const auto channels = static_cast<size_t>(q.problem.outputs());
    if (scales_.size() == 1) scales_.resize(channels, scales_[0]);
    bias_.resize(channels, 0);
    inputs_.resize(static_cast<size_t>(value_of(q.own->program, "the program of an int8 convolution").input_count()) + 2);
  }

  int64_t workspace() const override { return bytes_ + std::max(sums_->workspace(), sweep_.workspace()); }

  void run(const Buffers& b) override {
    void* sums = b.workspace;
    void* scratch = static_cast<char*>(b.workspace) + bytes_;
    const auto input = [&](size_t i) { return i < b.inputs.size() ? b.inputs[i] : nullptr; };
    const void* const in[] = {input(x_), input(w_), input(x_zero_), input(w_zero_)};
    sums_->run({in, std::span(&sums, 1), scratch});
    inputs_[0] = sums, inputs_[1] = scales_.data(), inputs_[2] = bias_.data();
    for (size_t i = 3; i < inputs_.size(); ++i) inputs_[i] = b.inputs[operands_ + i - 3];
    sweep_.run(inputs_, b.outputs, scratch);
  }

 private:
  std::shared_ptr<const Sums> own_;
  std::unique_ptr<Kernel> sums_;
  Sweep sweep_;
  int64_t bytes_;
  size_t x_, w_, x_zero_, w_zero_, operands_;
  std::vector<float> scales_;
  std::vector<int32_t> bias_;
  std::vector<const void*> inputs_;
};

}  // namespace

void offer_int8_sums(const Request& q, Offer& offer) {
  const BoundTensor& y = q.node.outputs[0];
  if (elements(y.shape) == 0) return;
  const auto own = sums_of(q);
  const Shape steps[] = {memory_strides(y)};
  if (const auto why = Sweep::rejects(ending(q), y.shape, steps)) return offer.refuse("cpu", *why);
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
