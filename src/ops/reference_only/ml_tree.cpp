// TreeEnsemble (ai.onnx.ml 5): sums, averages or extrema of the leaves that a row of features reaches, for each target.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/list_inputs.h"
#include "ops/reference_only/ml.h"

namespace smelt::ops {
namespace {

enum Mode : int64_t { leq, lt, gte, gt, eq, neq, member };
enum Aggregate : int64_t { average, sum, minimum, maximum };

struct TreeNode {
  int64_t mode = 0, feature = 0;
  double split = 0;
  bool true_leaf = false, false_leaf = false, missing_true = false;
  int64_t true_id = 0, false_id = 0;
  std::vector<double> members;
};

struct Leaf {
  int64_t target = 0;
  double weight = 0;
};

struct Ensemble {
  std::vector<TreeNode> nodes;
  std::vector<Leaf> leaves;
  std::vector<int64_t> roots;
  int64_t targets = 0, aggregate = sum, transform = 0;
};

bool branches(const TreeNode& n, double v) {
  if (std::isnan(v) && n.missing_true) return true;
  switch (n.mode) {
    case leq: return v <= n.split;
    case lt: return v < n.split;
    case gte: return v >= n.split;
    case gt: return v > n.split;
    case eq: return v == n.split;
    case neq: return v != n.split;
    default: return std::ranges::find(n.members, v) != n.members.end();
  }
}

Ensemble read(const Node& node) {
  Ensemble e;
  e.targets = node.get_int("n_targets", 0);
  e.aggregate = node.get_int("aggregate_function", sum);
  e.transform = node.get_int("post_transform", 0);
  e.roots = node.get_ints("tree_roots");
  const std::vector<int64_t> features = node.get_ints("nodes_featureids"), true_leafs = node.get_ints("nodes_trueleafs"),
                             false_leafs = node.get_ints("nodes_falseleafs"), true_ids = node.get_ints("nodes_truenodeids"),
                             false_ids = node.get_ints("nodes_falsenodeids"),
                             missing = node.get_ints("nodes_missing_value_tracks_true"),
                             leaf_targets = node.get_ints("leaf_targetids");
  const auto required = [&](const char* attr) {
    const Tensor t = node.get_tensor(attr);
    if (!t.valid()) fail("attribute {} is missing", attr);
    return t.to_doubles();
  };
  const std::vector<double> modes = required("nodes_modes"), splits = required("nodes_splits"),
                            weights = required("leaf_weights");
  const std::vector<double> values =
      node.get_tensor("membership_values").valid() ? required("membership_values") : std::vector<double>{};
  const size_t n = features.size();
  if (modes.size() != n || splits.size() != n || true_leafs.size() != n || false_leafs.size() != n || true_ids.size() != n ||
      false_ids.size() != n || (!missing.empty() && missing.size() != n)) {
    fail("the nodes_ attributes have different lengths");
  }
  if (leaf_targets.size() != weights.size())
    fail("leaf_targetids has {} entries, leaf_weights {}", leaf_targets.size(), weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    if (leaf_targets[i] < 0 || leaf_targets[i] >= e.targets)
      fail("leaf_targetids has {}, expected 0 to {}", leaf_targets[i], e.targets - 1);
    e.leaves.push_back({leaf_targets[i], weights[i]});
  }
  size_t next = 0;  // sets of members, one for each node that asks, each ended by a NaN
  for (size_t i = 0; i < n; ++i) {
    TreeNode t{static_cast<int64_t>(modes[i]),
               features[i],
               splits[i],
               true_leafs[i] != 0,
               false_leafs[i] != 0,
               !missing.empty() && missing[i],
               true_ids[i],
               false_ids[i],
               {}};
    if (t.mode < leq || t.mode > member) fail("nodes_modes has {}, expected 0 to 6", t.mode);
    if (t.mode == member) {
      while (next < values.size() && !std::isnan(values[next])) t.members.push_back(values[next++]);
      ++next;
    }
    for (const auto& [leaf, id] : {std::pair(t.true_leaf, t.true_id), std::pair(t.false_leaf, t.false_id)}) {
      const size_t count = leaf ? e.leaves.size() : n;
      if (id < 0 || static_cast<size_t>(id) >= count) fail("node {} branches to {}, which does not exist", i, id);
    }
    e.nodes.push_back(std::move(t));
  }
  for (int64_t r : e.roots) {
    if (r < 0 || static_cast<size_t>(r) >= n) fail("tree_roots has {}, expected 0 to {}", r, n - 1);
  }
  return e;
}

const Leaf& reached(const Ensemble& e, int64_t root, const double* row, int64_t features) {
  int64_t at = root;
  for (size_t steps = 0; steps <= e.nodes.size(); ++steps) {  // more steps than nodes is a cycle
    const TreeNode& n = e.nodes[static_cast<size_t>(at)];
    if (n.feature < 0 || n.feature >= features) fail("a node reads feature {}, the rows have {}", n.feature, features);
    const bool yes = branches(n, row[n.feature]);
    at = yes ? n.true_id : n.false_id;
    if (yes ? n.true_leaf : n.false_leaf) return e.leaves[static_cast<size_t>(at)];
  }
  fail("the tree at node {} has a cycle", root);
}

}  // namespace

void infer_trees(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() != 2) fail("X has shape {}, expected [N, features]", to_string(x));
  c.set(0, type_of(c, 0), {x[0], c.node.get_int("n_targets", 0)});
}

void run_trees(ComputeContext& c) {
  const Ensemble e = read(c.node);
  const std::vector<double> x = c.in(0).to_doubles();
  const int64_t features = c.in(0).shape()[1];
  std::vector<double> out;
  for (int64_t r = 0; r < c.in(0).shape()[0]; ++r) {
    std::vector<double> score(static_cast<size_t>(e.targets), 0.0);
    std::vector<bool> seen(score.size(), false);
    for (int64_t root : e.roots) {
      const Leaf& leaf = reached(e, root, x.data() + r * features, features);
      const size_t t = static_cast<size_t>(leaf.target);
      double& s = score[t];
      if (e.aggregate == minimum)
        s = seen[t] ? std::min(s, leaf.weight) : leaf.weight;
      else if (e.aggregate == maximum)
        s = seen[t] ? std::max(s, leaf.weight) : leaf.weight;
      else
        s += leaf.weight;
      seen[t] = true;
    }
    if (e.aggregate == average) {
      for (double& s : score) s /= static_cast<double>(e.roots.size());
    }
    post_transform(score, static_cast<PostTransform>(e.transform));
    out.insert(out.end(), score.begin(), score.end());
  }
  store_doubles(out, c.outputs[0]);
}

}  // namespace smelt::ops
