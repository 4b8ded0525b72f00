// QuantizeLinear and DequantizeLinear on the processor: pointwise programs, for which scales and zero points are views of the result
// that repeat along every axis but their own.
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/pointwise/offer.h"
#include "ops/pointwise/onnx_program.h"
#include "ops/quantize/offer.h"

namespace smelt::ops {
namespace {

/// The result's shape and its views. Blocks cut their axis in two: the blocks, and the places in one.
struct BlockedViews {
  Shape shape, dense, scale;  // dense: strides of x and y
};

BlockedViews views_of(const BoundNode& b) {
  const Shape& x = b.inputs[0].shape;
  BlockedViews v{x, memory_strides(b.inputs[0]), Shape(x.size(), 0)};
  const int64_t block = b.node->get_int("block_size", 0);
  if (block == 0 && elements(b.inputs[1].shape) == 1) return v;
  const auto axis =
      static_cast<size_t>(normalize_axis(x.size() == 1 ? 0 : b.node->get_int("axis", 1), static_cast<int64_t>(x.size())));
  if (block == 0) {
    v.scale[axis] = 1;
    return v;
  }
  v.scale = memory_strides(b.inputs[1]);
  const auto place = static_cast<Shape::difference_type>(axis) + 1;
  v.shape[axis] = x[axis] / block;
  v.shape.insert(v.shape.begin() + place, block);
  v.dense.insert(v.dense.begin() + place, v.dense[axis]);
  v.dense[axis] *= block;
  v.scale.insert(v.scale.begin() + place, 0);
  return v;
}

std::optional<Refusal> rejects(const BoundNode& b) {
  if (auto why = rejects_layouts(b)) return why;
  if (elements(b.inputs[0].shape) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  if (b.node->op == "QuantizeLinear") {
    const auto asked = static_cast<DType>(b.node->get_int("precision", 0));
    const DType precision = asked == DType::undefined ? b.inputs[1].type : asked;
    if (precision != DType::f32) return refuse(Reason::not_exact, "quotients of {}; the program's are f32", name(precision));
    if (is_float(b.outputs[0].type)) return refuse(Reason::wrong_type, "y is {}", name(b.outputs[0].type));
    if (bits(b.outputs[0].type) > 16)
      return refuse(Reason::not_exact, "y is {}: f32 does not hold its limits", name(b.outputs[0].type));
  }
  const int64_t block = b.node->get_int("block_size", 0);
  if (block != 0) {
    const auto rank = static_cast<int64_t>(b.inputs[0].shape.size());
    const int64_t extent = b.inputs[0].shape[static_cast<size_t>(normalize_axis(b.node->get_int("axis", 1), rank))];
    if (extent % block != 0) return refuse(Reason::wrong_shape, "an axis of {} in blocks of {}", extent, block);
  }
  return std::nullopt;
}

}  // namespace

void offer_linear_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (auto why = rejects(b)) return offer.refuse("cpu", std::move(*why));
  Node node = *b.node;
  node.domain = onnx_domain;  // of ONNX Runtime's twins, too
  BoundNode plain = b;
  plain.node = &node;
  const auto program = program_of(plain);
  if (!program) return offer.refuse("cpu", Reason::wrong_type, "the expression language has no program for its types");
  const BlockedViews v = views_of(b);
  PointwiseProblem p{*program, v.shape};
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    if (!b.has(i)) continue;
    p.present.push_back(i);
    p.strides.push_back(i == 0 ? v.dense : v.scale);
    p.alignments.push_back(b.inputs[i].alignment);
  }
  p.strides.push_back(v.dense);
  p.alignments.push_back(b.outputs[0].alignment);
  offer_pointwise_cpu(p, machine, offer);
}

}  // namespace smelt::ops
