// A kernel that knows channels-last images only, for a plain node: its images are reordered before and behind it. What an
// operator costs at its best when nothing around it is channels-last.
#pragma once

#include <optional>

#include "ops/core/tactic.h"

namespace smelt::ops {

/// The node with every plain image channels-last; nothing when its output is no plain image, or it has none to reorder.
std::optional<BoundNode> channels_last_inside(const BoundNode& node);

/// What the configurations of reordered() candidates end with.
inline constexpr std::string_view reordered_suffix = "reordered";

/// `inner`, offered for channels_last_inside(node) that `inside` is, as a candidate for `node`: the same tactic, "reordered" in
/// its configuration, and the reorders in its estimate and its workspace.
Candidate reordered(const BoundNode& node, const std::shared_ptr<const BoundNode>& inside, const Candidate& inner,
                    const Machine& machine);

}  // namespace smelt::ops
