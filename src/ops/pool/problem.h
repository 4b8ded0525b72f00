// What a pooling computes, channels last: the contract between the graph and the tactics.
//
//   pool:max:f32:1x64x112x112:k3s2p1:nhwc       max, mean (padding counted), mean-inside (not counted)
#pragma once

#include <string>
#include <string_view>

#include "ops/conv/window.h"
#include "ops/integer/program.h"
#include "ops/tactics.h"

namespace smelt::ops::pool {

enum class Kind : uint8_t { max, mean, mean_inside };

struct Problem {
  Kind kind = Kind::max;
  DType type = DType::f32;
  Shape x, y;
  Window window;
  Layout from = Layout::nhwc, to = Layout::nhwc;
  std::optional<integer::Dequantized>
      dequantized;  // bytes that the node's program dequantizes before they are pooled; not printed
};

std::string print(const Problem& p);
/// The inverse of print; throws Error with what cannot be read.
Problem parse(std::string_view text);

/// MaxPool, AveragePool, GlobalMaxPool, GlobalAveragePool, and ReduceMean over all spatial axes. Nothing for other nodes, or with
/// the reason in `why`.
std::optional<Problem> problem(const BoundNode& node, std::string& why);

}  // namespace smelt::ops::pool
