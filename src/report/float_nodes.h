// What of a quantised model computes in floats, why, and what that costs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fuse/match/rewrite.h"
#include "graph/graph.h"

namespace smelt::report {

struct FloatNode {
  std::string op;                  // of the graph after the rewrites: "ai.smelt.Conv"
  std::vector<std::string> nodes;  // the model's that it stands for
  std::string reason;              // a rejection's code; not_quantized: the model has floats there; no_8_bit_form
  std::string detail;
  double cost_us = 0;  // estimated: what its computed tensors and constants have more than 8 bits an element, moved; 0: not known
};

/// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
bool is_conversion(std::string_view op);
/// The last rejection, by a rewrite to 8 bits, of a place that covers one of the model's nodes of these names; nullptr: none.
const fuse::Entry* rejection_to_8_bits(const fuse::Ledger& ledger, const std::vector<std::string>& nodes);

/// Whether a model has 8-bit products or tensors: QuantizeLinear, DequantizeLinear, their QLinear, integer and dynamic forms.
bool is_quantized(const Graph& g);

/// The nodes of `g`, a quantised model after the rewrites, that read or write floats where a product, a movement or a pointwise step
/// might have had 8 bits; the most expensive first. Quantising and dequantising themselves are left out, and products of 8 bits,
/// whatever their result is.
std::vector<FloatNode> float_nodes(const Graph& g, const fuse::Ledger& ledger, const fuse::Rates& rates);

}  // namespace smelt::report
