// BatchNormalization with given statistics on a GPU, where it is not folded into a convolution: a pointwise program whose
// parameters lie along the channels.
#include "base/error.h"
#include "ops/core/strides.h"
#include "ops/norm/offer.h"
#include "ops/pointwise/offer.h"

namespace smelt::ops {

void offer_batch_norm_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Node& n = *b.node;
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (n.get_int("training_mode", 0) != 0) return offer.refuse("cuda", Reason::wrong_attribute, "it trains");
  for (const BoundTensor& t : b.inputs)
    if (t.type != DType::f32 && t.type != DType::f16 && t.type != DType::bf16)
      return offer.refuse("cuda", Reason::wrong_type, "elements of {}", name(t.type));
  using expr::Fn;
  expr::Program p;
  std::vector<expr::Ref> in;
  for (const BoundTensor& t : b.inputs) in.push_back(p.input(t.type));
  for (expr::Ref& r : in) r = p.cast(r, DType::f32);
  const expr::Ref epsilon = p.constant(DType::f32, n.get_float("epsilon", 1e-5f));
  const expr::Ref factor = p.call(Fn::mul, in[1], p.call(Fn::rsqrt, p.call(Fn::add, in[4], epsilon)));
  p.output(p.cast(p.call(Fn::add, p.call(Fn::mul, p.call(Fn::sub, in[0], in[3]), factor), in[2]), y.type));
  PointwiseProblem problem{p, y.shape};
  problem.strides.push_back(memory_strides(x));
  problem.alignments.push_back(x.alignment);
  for (size_t i = 0; i < 5; ++i) {
    problem.present.push_back(i);
    if (i == 0) continue;
    Shape along(x.shape.size(), 0);
    if (x.shape.size() > 1) along[1] = memory_strides(b.inputs[i])[0];
    problem.strides.push_back(along);
    problem.alignments.push_back(b.inputs[i].alignment);
  }
  problem.strides.push_back(memory_strides(y));
  problem.alignments.push_back(y.alignment);
  offer_pointwise_cuda(problem, *machine.gpu, offer);
}

}  // namespace smelt::ops
