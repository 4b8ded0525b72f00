// Convolutions along one axis as convolutions of images one row high, which lie in the same memory: what takes images takes them.
#pragma once

#include <memory>
#include <optional>

#include "ops/core/tactic.h"

namespace smelt::ops::conv {

struct ImageForm {
  std::shared_ptr<const Node> own;  // what `node` points to
  BoundNode node;
};

/// A bound Conv, ConvTranspose, QLinearConv or ai.smelt form of one spatial axis over images of one row: tensors [N, C, L] become
/// [N, C, 1, L], the weight [M, C, K] becomes [M, C, 1, K]. Nothing for other ranks, and where an input is upsampled.
std::optional<ImageForm> as_images(const BoundNode& node);

}  // namespace smelt::ops::conv
