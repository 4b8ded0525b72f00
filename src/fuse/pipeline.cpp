// The rewrites, in the order in which they run. A round goes through the list once; rounds repeat until nothing changes.
#include "fuse/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr Rewrite rewrites[] = {
    {"dead_code", dead_code},
};

}  // namespace

std::span<const Rewrite> pipeline() { return rewrites; }

}  // namespace smelt::fuse
