// Convolutions of 8-bit integers by the kernels of floats: of few products a sum, where dot products of bytes have little to do (groups of few
// channels, and processors without such instructions). Floats of 24 bits hold integers exactly, so that every sum is exact in any order where no
// partial one can grow beyond 2^24: that is looked up in the weights. Winograd's windows divide, and are left out.
#include <algorithm>
#include <cmath>

#include "expr/simd/isa.h"
#include "ops/conv/conv.h"
#include "ops/conv/int8_sums_end.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops::conv {
namespace {

constexpr std::string_view in_floats = "in floats";
constexpr size_t most_offered = 3;                   // the likeliest by their estimates
constexpr int64_t short_sum = 64, longer_sum = 256;  // products: below it bytes gain little, with dot products of four and of two

/// in0: an element of the image; gives what it is above the zero point.
expr::Program above_zero(const Request& q) {
  expr::Program p;
  const expr::Ref x = p.input(q.problem.input), zero = p.constant(DType::f32, q.quantization().a_zero);
  p.output(p.call(expr::Fn::sub, p.cast(x, DType::f32), zero));
  return p;
}

struct Floats {
  Node node;
  BoundNode bound;
};

BoundTensor dense(DType type, const BoundTensor& like) {
  BoundTensor t;
  t.type = type, t.shape = like.shape, t.layout = like.layout;
  return t;
}

/// The convolution of floats with the same sums.
std::shared_ptr<const Floats> floats_of(const Request& q) {
  auto s = std::make_shared<Floats>();
  s->node.op = "Conv";
  for (const char* name : {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"})
    if (const auto it = q.node.node->attrs.find(name); it != q.node.node->attrs.end()) s->node.attrs.insert(*it);
  s->bound.node = &s->node;
  const Shape& w = q.problem.w;
  const std::vector<float> weights = int8_weights_as_floats(q);
  const auto constant = [&](const Shape& shape, const std::vector<float>& values) {
    BoundTensor t;
    t.type = DType::f32, t.shape = shape, t.constant = Tensor::of<float>(shape, values);
    return t;
  };
  BoundTensor image = dense(DType::f32, q.node.inputs[q.at.x]);
  image.layout = q.node.outputs[0].layout;  // widening turns it
  s->bound.inputs = {image, constant(w, weights)};
  if (std::vector<float> bias(q.quantization().bias.begin(), q.quantization().bias.end()); !bias.empty()) {
    if (bias.size() == 1) bias.resize(static_cast<size_t>(w[0]), bias[0]);
    s->bound.inputs.push_back(constant({w[0]}, bias));
  }
  s->bound.outputs = {dense(DType::f32, q.node.outputs[0])};
  return s;
}

class FloatsBetweenSweeps final : public Kernel {
 public:
  FloatsBetweenSweeps(const Request& q, std::shared_ptr<const Floats> own, std::unique_ptr<Kernel> conv)
      : own_(std::move(own)),
        conv_(std::move(conv)),
        widen_(above_zero(q), q.node.inputs[q.at.x].shape,
               {memory_strides(q.node.inputs[q.at.x]), memory_strides(own_->bound.inputs[0])}, q.threads),
        end_(q, own_->bound.outputs[0]),
        image_bytes_(aligned(storage_bytes(own_->bound.inputs[0]))),
        sums_bytes_(aligned(storage_bytes(own_->bound.outputs[0]))),
        x_(q.at.x) {}

  int64_t workspace() const override {
    return image_bytes_ + sums_bytes_ + std::max({conv_->workspace(), widen_.workspace(), end_.workspace()});
  }

  void run(const Buffers& b) override {
    void* const image = b.workspace;
    void* const sums = static_cast<char*>(image) + image_bytes_;
    void* const scratch = static_cast<char*>(sums) + sums_bytes_;
    widen_.run(std::span(&b.inputs[x_], 1), std::span(&image, 1), scratch);
    const std::vector<BoundTensor>& own = own_->bound.inputs;
    const void* const in[] = {image, own[1].constant.raw(), own.size() > 2 ? own[2].constant.raw() : nullptr};
    conv_->run({std::span(in, own.size()), std::span(&sums, 1), scratch});
    end_.run(sums, b, scratch);
  }

 private:
  std::shared_ptr<const Floats> own_;
  std::unique_ptr<Kernel> conv_;
  Sweep widen_;
  Int8SumsEnd end_;
  int64_t image_bytes_, sums_bytes_;
  size_t x_;
};

/// Why the sums are not exact in floats, or bytes are faster beyond doubt.
std::optional<Refusal> rejects_floats(const Request& q, bool has_dot_products) {
  const Problem& p = q.problem;
  if (elements(p.y) == 0 || elements(p.w) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (ImageZero(q).is_computed()) return refuse(Reason::not_constant, "the image's zero point is computed");
  if (const int64_t most = has_dot_products ? short_sum : longer_sum; p.group == 1 && depth(p) > most)
    return refuse(Reason::wrong_shape, "{} products a sum in one group: by floats at most {}, for bytes are faster beyond",
                  depth(p), most);
  return rejects_float_sums(q, true);
}

}  // namespace

void offer_int8_floats(const Request& q, Offer& offer) {
  Offer floats;
  ChosenTactic inner;
  if (const ChosenTactic* only = offer.wanted.only) {  // no search through the others
    if (!only->config.ends_with(in_floats)) return;
    inner = {only->tactic, only->config.substr(0, only->config.size() - in_floats.size())};
    if (inner.config.ends_with(", ")) inner.config.resize(inner.config.size() - 2);
    floats.wanted = {&inner, offer.wanted.at_once};
  }
  if (const auto why = rejects_floats(q, simd::has_dots())) return offer.refuse("cpu", *why);
  const BoundTensor& y = q.node.outputs[0];
  if (const auto why = Int8SumsEnd::rejects(q, DType::f32)) return offer.refuse("cpu", *why);
  const auto own = floats_of(q);
  Machine machine;
  machine.threads = q.threads;
  offer_cpu(own->bound, machine, floats);
  std::erase_if(floats.candidates, [](const Candidate& c) { return c.tactic == "winograd" || c.lengthy; });
  std::ranges::stable_sort(floats.candidates, {}, &Candidate::estimate_us);
  if (floats.candidates.size() > most_offered) floats.candidates.resize(most_offered);
  const double sweeps_us = 1 + static_cast<double>(elements(q.node.inputs[q.at.x].shape) + elements(y.shape)) / 8e3 / q.threads;
  for (const Candidate& c : floats.candidates)
    offer.candidates.push_back(
        {c.tactic, c.config + (c.config.empty() ? "" : ", ") + std::string(in_floats), c.estimate_us + sweeps_us,
         [q, own, prepare = c.prepare] { return std::make_unique<FloatsBetweenSweeps>(q, own, prepare()); }});
}

}  // namespace smelt::ops::conv
