// Inputs as the caller gives them, checked against what the model says.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smelt/session.h"

namespace smelt::run {

/// The feeds in the order of `inputs`; none for the pasts of caches. Throws Error (usage) for a name that is no input (suggesting
/// the nearest) and for an input without a feed, both listing the model's inputs, and for an input that is a past and a feed.
std::vector<Tensor> order_feeds(const std::vector<TensorInfo>& inputs, const std::map<std::string, Tensor>& feeds,
                                std::span<const Cache> caches = {});

/// Throws Error (usage) unless there are as many tensors as inputs, each valid and of the type, rank and known extents of its
/// input.
void check_inputs(const std::vector<TensorInfo>& inputs, std::span<const Tensor> tensors);

/// What check_inputs() would say of the tensors' shapes; nothing where they fit. As many tensors as inputs, each valid.
std::optional<std::string> misfit(const std::vector<TensorInfo>& inputs, std::span<const Tensor> tensors);

/// The one of `names` with the fewest edits to `name`; empty when even that one differs in more than half its letters.
std::string nearest(const std::string& name, std::span<const std::string> names);

}  // namespace smelt::run
