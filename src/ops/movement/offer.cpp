// Movement's operators and their tactics. The other operators of the room run through their references.
#include "ops/movement/offer.h"

#include "ops/movement/family.h"

namespace smelt::ops {
namespace {

bool is_strided(const Node& n) { return n.is("Transpose") || n.is("Slice") || n.is("Expand") || n.is("Split"); }
bool is_pad(const Node& n) { return n.is("Pad") || n.is("CenterCropPad"); }

constexpr OperatorTactics operators[] = {
    {is_strided, offer_windows_cpu, offer_windows_cuda},
    {is_pad, nullptr, offer_pad_cuda},
};

}  // namespace

constinit const TacticFamily movement_family{operators};

}  // namespace smelt::ops
