// The list of fuse/rewrites/pipeline.def as a table.
#include <algorithm>

#include "fuse/rewrites/rewrites.h"

namespace smelt::fuse {
namespace {

template <Outcome (*)(const Graph&, NodeId)> constexpr void (*sweep_of)(const Graph*) = nullptr;
template <> constexpr void (*sweep_of<merge_duplicates>)(const Graph*) = file_duplicates;

template <Outcome (*)(const Graph&, NodeId)> constexpr bool at_rest = false;
template <> constexpr bool at_rest<joined_products> = true;  // other rewrites look for single products

constexpr Rewrite rewrites[] = {
#define REWRITE(name, what) {#name, name, what, sweep_of<name>, at_rest<name>},
#include "fuse/rewrites/pipeline.def"
#undef REWRITE
};

}  // namespace

std::span<const Rewrite> pipeline() { return rewrites; }

bool tidies(std::string_view name) {
  constexpr std::string_view names[] = {"dead_code",        "shape_from_inputs",  "fold_constants",
                                        "inline_if",        "remove_identity",    "merge_casts",
                                        "merge_transposes", "transpose_of_ones",  "transpose_of_merged_axes",
                                        "einsum_product",   "transposed_product", "transposed_softmax",
                                        "merge_reshapes",   "merge_duplicates",   "sum_as_mean"};
  return std::ranges::find(names, name) != std::end(names);
}

}  // namespace smelt::fuse
