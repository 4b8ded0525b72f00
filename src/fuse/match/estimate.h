// What a rewrite saves, and what a rejected one leaves to pay, by bytes and launches: an estimate made before anything runs.
//
//   work(nodes)  bytes: each input and output of each node once; launches: one a node that runs a kernel
//   time(work)   bytes / bandwidth + launches * launch
//   saved        time(work before) - time(work after), over the nodes matched, their neighbours and what took their place
//   cost         of a rejection: the result goes through memory once more (written and read) and one more kernel starts
//
// Arithmetic is left out: fusing does not change it. Views (Reshape, …) and shape arithmetic on the host count nothing.
#pragma once

#include <optional>
#include <set>
#include <span>

#include "fuse/match/rewrite.h"

namespace smelt::fuse {

struct Work {
  int64_t bytes = 0;
  int launches = 0;
};

/// Nothing when an extent is not known.
std::optional<Work> work(const Graph& g, NodeId n);
double time_us(const Work& w, const Rates& rates);

/// Watches one match being applied.
class Saving {
 public:
  /// Before the change.
  Saving(const Graph& g, std::span<const NodeId> matched);
  /// After it, in microseconds; 0 when an extent is not known. A rewrite that only prepares another one saves nothing.
  double saved_us(const Graph& g, const Rates& rates) const;

 private:
  std::set<NodeId> around_;  // the match, and the nodes beside it that may read or write something else afterwards
  std::optional<Work> before_;
  size_t nodes_before_ = 0;
};

/// Of leaving what reads the node's result apart.
double cost_us(const Graph& g, NodeId n, const Rates& rates);

}  // namespace smelt::fuse
