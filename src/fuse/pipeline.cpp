// The list of fuse/rewrites/pipeline.def as a table.
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

constexpr Rewrite rewrites[] = {
#define REWRITE(name, what) {#name, name, what},
#include "fuse/rewrites/pipeline.def"
#undef REWRITE
};

}  // namespace

std::span<const Rewrite> pipeline() { return rewrites; }

}  // namespace smelt::fuse
