// Attention, rotary embedding, and their tactics.
#include "ops/attention/offer.h"

#include <fmt/core.h>

#include "ops/attention/cuda_attention.h"
#include "ops/attention/cuda_mask.h"
#include "ops/attention/family.h"
#include "ops/attention/linear.h"

namespace smelt::ops {
namespace {

bool is_cached_attention(const Node& n) { return keeps_cache(n); }
bool is_attention(const Node& n) { return n.is("Attention", smelt_domain); }
bool is_onnx_attention(const Node& n) { return n.is("Attention"); }
bool is_rotary(const Node& n) { return n.is("RotaryEmbedding", smelt_domain); }
bool is_joined_rotary(const Node& n) { return n.is("JoinedRotary", smelt_domain); }
bool is_linear_attention(const Node& n) { return n.is("LinearAttention", microsoft_domain); }
bool is_rotary_operator(const Node& n) { return n.is("RotaryEmbedding") || n.is("RotaryEmbedding", microsoft_domain); }

void offer_attention_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const DType type = b.outputs[0].type;
  if (type != DType::f16 && type != DType::bf16 && type != DType::f32 && type != DType::f64)
    return offer.refuse("cuda", Reason::wrong_type, "its type is {}; expected f64, f32, f16 or bf16", name(type));
  const size_t tensors = keeps_cache(*b.node) ? 5 : 3;
  for (size_t i = 0; i < tensors; ++i)
    if (b.inputs[i].type != type) return offer.refuse("cuda", Reason::wrong_type, "q, k, v and y differ in type");
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.layout != Layout::plain) return offer.refuse("cuda", Reason::wrong_layout, "a tensor is not plain");
  const AttentionCuda p(b);
  for (const int64_t extent : {p.shape.queries, p.shape.keys, p.shape.depth, p.shape.value_depth, p.shape.batch * p.shape.heads})
    if (extent >= int64_t{1} << 31)
      return offer.refuse("cuda", Reason::too_large, "an extent of {}, a kernel counts to 2^31", extent);
  const size_t others = tensors + b.outputs.size();
  if (p.operands.size() + others > Arguments::most_tensors)
    return offer.refuse("cuda", Reason::too_large, "{} operands, a kernel takes {}", p.operands.size(),
                        Arguments::most_tensors - others);
  const ScoreMask mask = machine.gpu->caches->get<ScoreMasks>().of(b, p);
  offer_flash_attention(p, mask, machine, offer);
  if (p.cache) return;
  offer_hopper_attention(p, mask, machine, offer);
  offer_tiled_attention(p, mask, machine, offer);
  offer_plain_attention(p, machine, offer);
  offer_cudnn_attention(b, p, mask, machine, offer);
}

constexpr OperatorTactics operators[] = {
    {is_attention, offer_attention_cpu, offer_attention_cuda},
    {is_cached_attention, nullptr, offer_attention_cuda},
    {is_onnx_attention, nullptr, offer_general_attention_cuda},
    {is_rotary, offer_rotary_cpu, offer_rotary_cuda},
    {is_joined_rotary, nullptr, offer_rotary_cuda},
    {is_rotary_operator, offer_rotary_operator_cpu, nullptr},
    {is_linear_attention, offer_linear_attention_cpu, nullptr},
};

}  // namespace

constinit const TacticFamily attention_family{operators};

}  // namespace smelt::ops
