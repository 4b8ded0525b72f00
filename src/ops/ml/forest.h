// Trees as the ai.onnx.ml operators give them, read into one form: TreeEnsemble (version 5), TreeEnsembleRegressor and
// TreeEnsembleClassifier (versions 1 and 3, which name nodes by a tree's and a node's number).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/core/operator.h"
#include "ops/ml/ml.h"

namespace smelt::ops {

/// A branch, or a leaf.
struct TreeRef {
  bool leaf = true;
  int32_t index = 0;
  bool operator==(const TreeRef&) const = default;
};

/// TreeEnsemble's numbering.
enum class Branching : uint8_t { leq, lt, gte, gt, eq, neq, member };

struct TreeBranch {
  Branching mode = Branching::leq;
  bool missing_true = false;  // a NaN takes the true branch
  int32_t feature = 0;
  double split = 0;
  int32_t first_member = 0, last_member = 0;  // of Forest::members: the values that take the true branch
  TreeRef yes, no;
};

struct LeafWeight {
  int32_t target;
  double weight;
};

/// TreeEnsemble's numbering.
enum class Aggregate : uint8_t { average, sum, minimum, maximum };

struct Forest {
  std::vector<TreeBranch> branches;
  std::vector<double> members;
  std::vector<int32_t> first_weight;  // by leaf, and one more
  std::vector<LeafWeight> weights;
  std::vector<TreeRef> roots;
  std::vector<int64_t> depths;        // by root: branches on the longest path
  int64_t targets = 0, features = 0;  // that a row must have at least
  Aggregate aggregate = Aggregate::sum;
  std::vector<double> base;  // by target, or none

  size_t leaves() const { return first_weight.size() - 1; }
};

/// Throws Error for attributes that do not fit together: lengths that differ, branches to nodes that do not exist, cycles.
Forest forest_of(const Node& node);

/// How the leaves that a row reaches become one score for each target.
struct ScoreSum {
  const Forest& forest;
  double* scores;
  bool* seen;  // by target: whether a leaf had a weight for it

  void clear() const {
    std::fill_n(scores, forest.targets, 0.0);
    std::fill_n(seen, forest.targets, false);
  }
  void add(size_t leaf) const {
    for (int32_t i = forest.first_weight[leaf]; i < forest.first_weight[leaf + 1]; ++i) {
      const auto& [target, weight] = forest.weights[static_cast<size_t>(i)];
      merge(target, weight);
    }
  }
  void merge(int64_t target, double weight) const {
    double& s = scores[target];
    if (forest.aggregate == Aggregate::minimum)
      s = !seen[target] || weight < s ? weight : s;
    else if (forest.aggregate == Aggregate::maximum)
      s = !seen[target] || weight > s ? weight : s;
    else
      s += weight;
    seen[target] = true;
  }
  /// Behind the last leaf: the average, then the base values.
  void end() const {
    if (forest.aggregate == Aggregate::average)
      for (int64_t t = 0; t < forest.targets; ++t) scores[t] /= static_cast<double>(forest.roots.size());
    for (size_t t = 0; t < forest.base.size(); ++t) {
      scores[t] += forest.base[t];
      seen[t] = seen[t] || forest.targets > 2;
    }
  }
};

}  // namespace smelt::ops
