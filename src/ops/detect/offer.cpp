// Detection's operators and their tactics.
#include "ops/detect/offer.h"

#include "ops/detect/family.h"

namespace smelt::ops {
namespace {

bool is_nms(const Node& n) { return n.is("NonMaxSuppression"); }
bool is_max_roi_pool(const Node& n) { return n.is("MaxRoiPool"); }
bool is_roi_align(const Node& n) { return n.is("RoiAlign"); }

constexpr OperatorTactics operators[] = {
    {is_nms, offer_nms_cpu, offer_nms_cuda},
    {is_max_roi_pool, offer_max_roi_pool_cpu, nullptr},
    {is_roi_align, offer_roi_align_cpu, offer_roi_align_cuda},
};

}  // namespace

constinit const TacticFamily detect_family{operators};

}  // namespace smelt::ops
