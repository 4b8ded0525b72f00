// Movement's operators and their tactics.
#include "ops/movement/offer.h"

#include "ops/movement/family.h"

namespace smelt::ops {
namespace {

bool is_strided(const Node& n) { return n.is("Transpose") || n.is("Slice") || n.is("Expand") || n.is("Split"); }
bool is_block_move(const Node& n) { return n.is("DepthToSpace") || n.is("SpaceToDepth") || n.is("Tile"); }
bool is_pad(const Node& n) { return n.is("Pad") || n.is("CenterCropPad"); }

constexpr OperatorTactics operators[] = {
    {is_strided, offer_windows_cpu, offer_windows_cuda},
    {is_block_move, offer_blocks_cpu, nullptr},
    {is_pad, offer_mapped_cpu, offer_pad_cuda},
};

}  // namespace

constinit const TacticFamily movement_family{operators};

}  // namespace smelt::ops
