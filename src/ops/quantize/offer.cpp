// Quantisation's operators and their tactics. Casts between types that the expression language knows are pointwise programs.
#include "ops/quantize/offer.h"

#include "ops/quantize/family.h"

namespace smelt::ops {
namespace {

bool is_conversion(const Node& n) {
  return n.is("Cast") || n.is("CastLike") || n.is("QuantizeLinear") || n.is("DequantizeLinear");
}

bool is_dynamic(const Node& n) { return n.is("DynamicQuantizeLinear"); }

constexpr OperatorTactics operators[] = {
    {is_dynamic, offer_dynamic_quantize_cpu, nullptr},
    {is_conversion, nullptr, offer_narrow_types_cuda},
};

}  // namespace

constinit const TacticFamily quantize_family{operators};

}  // namespace smelt::ops
