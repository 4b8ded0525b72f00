#include "ops/cpu/onednn/post_ops.h"

#include <fmt/core.h>

namespace smelt::ops::onednn {
namespace {

using dnnl::algorithm;
using expr::Fn;

struct Eltwise {
  algorithm is;
  float alpha = 0, beta = 0;
};

/// oneDNN's elementwise operation for a function, with its numbers; nothing for one that it lacks.
std::optional<Eltwise> eltwise(const expr::PostOp& op) {
  switch (op.fn) {
    case Fn::relu: return Eltwise{algorithm::eltwise_relu};
    case Fn::leaky_relu: return Eltwise{algorithm::eltwise_relu, op.alpha};
    case Fn::elu: return Eltwise{algorithm::eltwise_elu, op.alpha};
    case Fn::clip: return Eltwise{algorithm::eltwise_clip_v2, op.alpha, op.beta};
    case Fn::hard_swish: return Eltwise{algorithm::eltwise_hardswish, 1.0f / 6, 0.5f};
    case Fn::hard_sigmoid: return Eltwise{algorithm::eltwise_hardsigmoid, op.alpha, op.beta};
    case Fn::sigmoid: return Eltwise{algorithm::eltwise_logistic};
    case Fn::silu: return Eltwise{algorithm::eltwise_swish, 1};
    case Fn::swish: return Eltwise{algorithm::eltwise_swish, op.alpha};
    case Fn::tanh: return Eltwise{algorithm::eltwise_tanh};
    case Fn::gelu: return Eltwise{algorithm::eltwise_gelu_erf};
    case Fn::gelu_tanh: return Eltwise{algorithm::eltwise_gelu_tanh};
    case Fn::softplus: return Eltwise{algorithm::eltwise_soft_relu, 1};
    case Fn::mish: return Eltwise{algorithm::eltwise_mish};
    case Fn::abs: return Eltwise{algorithm::eltwise_abs};
    case Fn::sqrt: return Eltwise{algorithm::eltwise_sqrt};
    case Fn::exp: return Eltwise{algorithm::eltwise_exp};
    case Fn::log: return Eltwise{algorithm::eltwise_log};
    case Fn::neg: return Eltwise{algorithm::eltwise_linear, -1, 0};
    case Fn::add: return Eltwise{algorithm::eltwise_linear, 1, op.alpha};
    case Fn::sub: return Eltwise{algorithm::eltwise_linear, 1, -op.alpha};
    case Fn::mul: return Eltwise{algorithm::eltwise_linear, op.alpha, 0};
    default: return std::nullopt;
  }
}

std::optional<algorithm> binary(Fn fn) {
  switch (fn) {
    case Fn::add: return algorithm::binary_add;
    case Fn::sub: return algorithm::binary_sub;
    case Fn::mul: return algorithm::binary_mul;
    case Fn::div: return algorithm::binary_div;
    case Fn::min: return algorithm::binary_min;
    case Fn::max: return algorithm::binary_max;
    default: return std::nullopt;
  }
}

}  // namespace

Result<PostOps> PostOps::of(const BoundNode& node, size_t first_operand, size_t rank, int before) {
  if (!node.node->program) return PostOps();
  auto chain = expr::to_post_ops(*node.node->program);
  if (!chain) return chain.refusal();
  PostOps result;
  for (const expr::PostOp& op : *chain) {
    const int index = before + static_cast<int>(result.steps_.size());
    if (op.kind == expr::PostOp::Kind::eltwise) {
      const auto e = eltwise(op);
      if (!e) return refuse(Reason::unsupported, "{} is none of oneDNN's elementwise operations", expr::info(op.fn).name);
      result.steps_.push_back({e->is, e->alpha, e->beta});
      continue;
    }
    const auto b = binary(op.fn);
    const size_t input = first_operand + static_cast<size_t>(op.input) - 1;
    const BoundTensor& t = node.inputs[input];
    if (!b) return refuse(Reason::unsupported, "{} is none of oneDNN's binary operations", expr::info(op.fn).name);
    if (t.type != DType::f32 && t.type != DType::f16 && t.type != DType::bf16)
      return refuse(Reason::wrong_type, "an operand of {}", smelt::name(t.type));
    if (auto why = rejects_type(t.type)) return why->at(fmt::format("an operand of {}", smelt::name(t.type)));
    if (t.shape.size() > rank)
      return refuse(Reason::wrong_rank, "an operand of {} axes for a result of {}", t.shape.size(), rank);
    const dnnl::memory::desc desc = describe(t, rank);
    result.steps_.push_back({*b, 0, 0, desc});
    result.operands_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1, input, desc});
  }
  return result;
}

void PostOps::append(dnnl::post_ops& ops) const {
  for (const Step& s : steps_) {
    if (s.operand)
      ops.append_binary(s.algorithm, *s.operand);
    else
      ops.append_eltwise(s.algorithm, s.alpha, s.beta);
  }
}

void PostOps::bind(Primitive& primitive) const {
  for (const Operand& o : operands_) primitive.add(o.argument, o.desc);
}

void PostOps::set(Primitive& primitive, const Buffers& b) const {
  for (const Operand& o : operands_) primitive.set(o.argument, const_cast<void*>(b.inputs[o.input]));
}

}  // namespace smelt::ops::onednn
