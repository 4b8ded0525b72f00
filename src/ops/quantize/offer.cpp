// Quantisation's operators and their tactics. Casts between types that the expression language knows are pointwise programs; the others
// are converted part by part.
#include "ops/quantize/offer.h"

#include "ops/cpu/parts.h"
#include "ops/quantize/family.h"

namespace smelt::ops {
namespace {

bool is_cast(const Node& n) { return n.is("Cast") || n.is("CastLike"); }

bool is_linear(const Node& n) {
  return (n.op == "QuantizeLinear" || n.op == "DequantizeLinear") && (n.domain == onnx_domain || n.domain == microsoft_domain);
}

bool is_dynamic(const Node& n) { return n.is("DynamicQuantizeLinear"); }

/// Of types that no program computes in: floats of 8 bits and less, packed integers.
void offer_cast_cpu(const BoundNode& b, const Machine& machine, Offer& offer) { offer_parts(b, 8, machine, offer); }

void offer_quantization_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  offer_linear_cpu(b, machine, offer);
  // Quotients that become floats of 8 bits, or packed integers. What dequantises them is one program behind their conversion.
  if (offer.candidates.empty() && b.node->op == "QuantizeLinear") offer_parts(b, 16, machine, offer);
}

constexpr OperatorTactics operators[] = {
    {is_dynamic, offer_dynamic_quantize_cpu, nullptr},
    {is_linear, offer_quantization_cpu, offer_narrow_types_cuda},
    {is_cast, offer_cast_cpu, offer_narrow_types_cuda},
};

}  // namespace

constinit const TacticFamily quantize_family{operators};

}  // namespace smelt::ops
