// Quantisation's operators and their tactics. Casts between types that the expression language knows are pointwise programs.
#include "ops/quantize/offer.h"

#include "ops/quantize/family.h"

namespace smelt::ops {
namespace {

bool is_cast(const Node& n) { return n.is("Cast") || n.is("CastLike"); }

bool is_linear(const Node& n) {
  return (n.op == "QuantizeLinear" || n.op == "DequantizeLinear") && (n.domain == onnx_domain || n.domain == microsoft_domain);
}

bool is_dynamic(const Node& n) { return n.is("DynamicQuantizeLinear"); }

constexpr OperatorTactics operators[] = {
    {is_dynamic, offer_dynamic_quantize_cpu, nullptr},
    {is_linear, offer_linear_cpu, offer_narrow_types_cuda},
    {is_cast, nullptr, offer_narrow_types_cuda},
};

}  // namespace

constinit const TacticFamily quantize_family{operators};

}  // namespace smelt::ops
