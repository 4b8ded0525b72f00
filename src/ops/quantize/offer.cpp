// Quantisation's operators and their tactics. Casts between types that the expression language knows are pointwise programs.
#include "ops/quantize/offer.h"

#include "ops/quantize/family.h"

namespace smelt::ops {
namespace {

bool is_conversion(const Node& n) {
  return n.is("Cast") || n.is("CastLike") || n.is("QuantizeLinear") || n.is("DequantizeLinear");
}

constexpr OperatorTactics operators[] = {
    {is_conversion, nullptr, offer_narrow_types_cuda},
};

}  // namespace

constinit const TacticFamily quantize_family{operators};

}  // namespace smelt::ops
