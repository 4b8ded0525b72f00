// Which nodes make one model slower than another of the same nodes, such as a quantised one than the one in float, and why.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fuse/match/rewrite.h"
#include "graph/graph.h"
#include "profile/profile.h"
#include "report/float_nodes.h"
#include "report/table.h"

namespace smelt::report {

struct NamedNode {
  std::string op;
  std::vector<std::string> outputs;     // their values' names
  std::vector<std::string> neighbours;  // nodes that make what it reads or read what it makes
};
/// A model's nodes by name, as profiles call them.
using NamedNodes = std::map<std::string, NamedNode>;
NamedNodes named_nodes(const Graph& model);

/// A node's or a value's name without what quantisers append: "conv1_out" of "conv1_out_QuantizeLinear_Output".
std::string unquantized_name(std::string_view name);

/// One of the two models, as it was profiled.
struct ProfiledModel {
  const profile::Profile& profile;
  const NamedNodes& nodes;
};

struct SlowerNodes {
  std::vector<std::string> nodes;      // of the models, that the steps stand for
  std::string step;                    // of the slower model, the longest
  double before_us = 0, after_us = 0;  // of all steps that stand for them; before: NaN where there are none
  bool beyond_noise = false;           // the difference is more than the steps' times scatter
  // stayed_in_float; conversion: steps that quantise or dequantise and no more; reorder: of an image; more_steps than before;
  // tactic_refused: those that run are not the fastest there are; kernel: none of these
  std::string reason;
  std::string detail, tactic;
  double longer_us() const;
};

/// What takes longer in `after` than in `before`, the largest differences first. Steps are matched by the names of the nodes that
/// they stand for and of what those write; where one side has a step for several of the other's, they are one row. Steps that only
/// quantise or dequantise are rows of their own.
std::vector<SlowerNodes> slower_nodes(const ProfiledModel& before, const ProfiledModel& after,
                                      const std::vector<FloatNode>& float_nodes, const fuse::Ledger& ledger);

/// One row each: those beyond noise, or all where none is.
Table slower_table(const std::vector<SlowerNodes>& nodes, const profile::Profile& before, const profile::Profile& after);

}  // namespace smelt::report
