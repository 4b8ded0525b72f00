// Selection's operators and their tactics.
#include "ops/select/offer.h"

#include "ops/select/family.h"

namespace smelt::ops {
namespace {

bool is_compaction(const Node& n) { return n.is("NonZero") || n.is("Compress"); }
bool is_top_k(const Node& n) { return n.is("TopK"); }
bool is_unique(const Node& n) { return n.is("Unique"); }

constexpr OperatorTactics operators[] = {
    {is_top_k, nullptr, offer_top_k_cuda},
    {is_compaction, offer_find_cpu, offer_compact_cuda},
    {is_unique, offer_find_cpu, offer_unique_cuda},
};

}  // namespace

constinit const TacticFamily select_family{operators};

}  // namespace smelt::ops
