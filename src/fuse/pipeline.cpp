// The list of fuse/rewrites/pipeline.def as a table.
#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

template <Outcome (*)(const Graph&, NodeId)> constexpr void (*sweep_of)(const Graph*) = nullptr;
template <> constexpr void (*sweep_of<merge_duplicates>)(const Graph*) = file_duplicates;

template <Outcome (*)(const Graph&, NodeId)> constexpr bool at_rest = false;
template <> constexpr bool at_rest<joined_products> = true;  // other rewrites look for single products

constexpr Rewrite rewrites[] = {
#define REWRITE(name, what) {#name, name, what, sweep_of<name>, at_rest<name>},
#define TIDY(name, what) {#name, name, what, sweep_of<name>, at_rest<name>, true},
#include "fuse/rewrites/pipeline.def"
#undef REWRITE
};

}  // namespace

std::span<const Rewrite> pipeline() { return rewrites; }

}  // namespace smelt::fuse
