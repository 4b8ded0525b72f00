#include "ops/ml/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/error.h"

namespace smelt::ops {
namespace {

constexpr int64_t most_nodes = std::numeric_limits<int32_t>::max() / 4;

/// Numbers of an attribute that is a list of floats, or a tensor under the name with _as_tensor behind it.
std::vector<double> numbers(const Node& node, const std::string& attr) {
  if (const Tensor t = node.get_tensor(attr + "_as_tensor"); t.valid()) return t.to_doubles();
  const std::vector<float> v = node.get_floats(attr);
  return {v.begin(), v.end()};
}

int32_t feature_of(int64_t id) {
  if (id < 0 || id > most_nodes) fail("nodes_featureids has {}, expected 0 to {}", id, most_nodes);
  return static_cast<int32_t>(id);
}

void check_count(size_t n) {
  if (n > static_cast<size_t>(most_nodes)) fail("{} nodes, expected at most {}", n, most_nodes);
}

void add_weights(Forest& f, const std::vector<std::vector<LeafWeight>>& of_leaf) {
  f.first_weight.push_back(0);
  for (const auto& weights : of_leaf) {
    f.weights.insert(f.weights.end(), weights.begin(), weights.end());
    f.first_weight.push_back(static_cast<int32_t>(f.weights.size()));
  }
}

// --- version 5 ----------------------------------------------------------------------------------------------------

std::vector<double> required(const Node& node, const char* attr) {
  const Tensor t = node.get_tensor(attr);
  if (!t.valid()) fail("attribute {} is missing", attr);
  return t.to_doubles();
}

void read_leaves(const Node& node, Forest& f) {
  const std::vector<int64_t> targets = node.get_ints("leaf_targetids");
  const std::vector<double> weights = required(node, "leaf_weights");
  if (targets.size() != weights.size()) fail("leaf_targetids has {} entries, leaf_weights {}", targets.size(), weights.size());
  check_count(weights.size());
  std::vector<std::vector<LeafWeight>> leaves;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= f.targets) fail("leaf_targetids has {}, expected 0 to {}", targets[i], f.targets - 1);
    leaves.push_back({{static_cast<int32_t>(targets[i]), weights[i]}});
  }
  add_weights(f, leaves);
}

/// Sets of members, one for each node that asks, each ended by a NaN.
void read_members(const std::vector<double>& values, size_t& next, TreeBranch& b, Forest& f) {
  b.first_member = static_cast<int32_t>(f.members.size());
  while (next < values.size() && !std::isnan(values[next])) f.members.push_back(values[next++]);
  ++next;
  b.last_member = static_cast<int32_t>(f.members.size());
}

Forest read_ensemble(const Node& node) {
  Forest f;
  f.targets = node.get_int("n_targets", 0);
  const int64_t aggregate = node.get_int("aggregate_function", 1);
  if (aggregate < 0 || aggregate > 3) fail("aggregate_function is {}, expected 0 to 3", aggregate);
  f.aggregate = static_cast<Aggregate>(aggregate);
  read_leaves(node, f);
  const std::vector<int64_t> features = node.get_ints("nodes_featureids"),
                             missing = node.get_ints("nodes_missing_value_tracks_true");
  const std::vector<int64_t> leafs[] = {node.get_ints("nodes_falseleafs"), node.get_ints("nodes_trueleafs")},
                             ids[] = {node.get_ints("nodes_falsenodeids"), node.get_ints("nodes_truenodeids")};
  const std::vector<double> modes = required(node, "nodes_modes"), splits = required(node, "nodes_splits");
  const std::vector<double> members =
      node.get_tensor("membership_values").valid() ? required(node, "membership_values") : std::vector<double>{};
  const size_t n = features.size();
  check_count(n + members.size());
  for (const size_t length : {modes.size(), splits.size(), leafs[0].size(), leafs[1].size(), ids[0].size(), ids[1].size(),
                              missing.empty() ? n : missing.size()})
    if (length != n) fail("the nodes_ attributes have different lengths");
  size_t next = 0;
  for (size_t i = 0; i < n; ++i) {
    if (!(modes[i] >= 0 && modes[i] <= 6)) fail("nodes_modes has {}, expected 0 to 6", modes[i]);
    TreeBranch b{static_cast<Branching>(modes[i]), !missing.empty() && missing[i] != 0, feature_of(features[i]), splits[i]};
    if (b.mode == Branching::member) read_members(members, next, b, f);
    for (const bool yes : {false, true}) {
      const bool leaf = leafs[yes][i] != 0;
      const int64_t id = ids[yes][i];
      if (id < 0 || static_cast<size_t>(id) >= (leaf ? f.leaves() : n))
        fail("node {} branches to {}, which does not exist", i, id);
      (yes ? b.yes : b.no) = {leaf, static_cast<int32_t>(id)};
    }
    f.branches.push_back(b);
  }
  for (const int64_t r : node.get_ints("tree_roots")) {
    if (r < 0 || static_cast<size_t>(r) >= n) fail("tree_roots has {}, expected 0 to {}", r, static_cast<int64_t>(n) - 1);
    f.roots.push_back({false, static_cast<int32_t>(r)});
  }
  return f;
}

// --- versions 1 and 3 ---------------------------------------------------------------------------------------------

/// The nodes by the numbers of their tree and their own.
class NamedNodes {
 public:
  explicit NamedNodes(const Node& node) : trees_(node.get_ints("nodes_treeids")), ids_(node.get_ints("nodes_nodeids")) {
    if (trees_.size() != ids_.size()) fail("nodes_treeids has {} entries, nodes_nodeids {}", trees_.size(), ids_.size());
    check_count(ids_.size());
    places_.reserve(ids_.size());
    for (size_t i = 0; i < ids_.size(); ++i)
      if (!places_.try_emplace({trees_[i], ids_[i]}, i).second) fail("tree {} has two nodes {}", trees_[i], ids_[i]);
  }
  size_t size() const { return ids_.size(); }
  int64_t tree(size_t i) const { return trees_[i]; }
  int64_t id(size_t i) const { return ids_[i]; }
  size_t place(int64_t tree, int64_t id, const char* of) const {
    const auto it = places_.find({tree, id});
    if (it == places_.end()) fail("{} names node {} of tree {}, which does not exist", of, id, tree);
    return it->second;
  }

 private:
  using Name = std::pair<int64_t, int64_t>;
  struct Hash {
    size_t operator()(const Name& n) const {
      return static_cast<size_t>(static_cast<uint64_t>(n.first) * 0x9e3779b97f4a7c15u ^
                                 static_cast<uint64_t>(n.second) * 0xff51afd7ed558ccdu);
    }
  };
  std::vector<int64_t> trees_, ids_;
  std::unordered_map<Name, size_t, Hash> places_;
};

/// -1 for a leaf.
int mode_of(const std::string& text) {
  static constexpr const char* modes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  if (text == "LEAF") return -1;
  const auto it = std::ranges::find(modes, text);
  if (it == std::end(modes)) fail("nodes_modes has '{}', which ONNX does not define", text);
  return static_cast<int>(it - std::begin(modes));
}

/// What leaves add: target_ or class_treeids, _nodeids, _ids and _weights. `kept`: which leaf a node is, -1 for branches.
void read_named_weights(const Node& node, const std::string& of, const NamedNodes& nodes, const std::vector<int32_t>& leaf,
                        size_t leaves, Forest& f) {
  const std::vector<int64_t> trees = node.get_ints(of + "_treeids"), ids = node.get_ints(of + "_nodeids"),
                             targets = node.get_ints(of + "_ids");
  const std::vector<double> weights = numbers(node, of + "_weights");
  if (trees.size() != ids.size() || trees.size() != targets.size() || trees.size() != weights.size())
    fail("the {}_ attributes have different lengths: {}, {}, {} and {}", of, trees.size(), ids.size(), targets.size(),
         weights.size());
  check_count(weights.size());
  std::vector<std::vector<LeafWeight>> of_leaf(leaves);
  for (size_t i = 0; i < trees.size(); ++i) {
    const int32_t at = leaf[nodes.place(trees[i], ids[i], (of + "_nodeids").c_str())];
    if (targets[i] < 0 || targets[i] >= f.targets) fail("{}_ids has {}, expected 0 to {}", of, targets[i], f.targets - 1);
    // ONNX Runtime passes over weights of nodes that branch.
    if (at >= 0) of_leaf[static_cast<size_t>(at)].push_back({static_cast<int32_t>(targets[i]), weights[i]});
  }
  add_weights(f, of_leaf);
}

Aggregate aggregate_of(const std::string& text) {
  static constexpr const char* names[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const auto it = std::ranges::find(names, text);
  if (it == std::end(names)) fail("aggregate_function is '{}', expected SUM, AVERAGE, MIN or MAX", text);
  return static_cast<Aggregate>(it - std::begin(names));
}

/// One base value of two classes is that of the class that leaves have weights for.
std::vector<double> base_values(const Node& node, bool classifies, int64_t targets) {
  std::vector<double> base = numbers(node, "base_values");
  const std::vector<int64_t> ids = node.get_ints("class_ids");
  if (classifies && base.size() == 1 && targets == 2) base.insert(ids.empty() || ids[0] == 0 ? base.end() : base.begin(), 0.0);
  if (!base.empty() && static_cast<int64_t>(base.size()) != targets)
    fail("base_values has {} values, expected {}", base.size(), targets);
  return base;
}

Forest read_named(const Node& node) {
  const bool classifies = node.op == "TreeEnsembleClassifier";
  Forest f;
  f.targets = classifies ? static_cast<int64_t>(class_count(node)) : node.get_int("n_targets", 1);
  f.aggregate = aggregate_of(node.get_string("aggregate_function", "SUM"));
  f.base = base_values(node, classifies, f.targets);
  const NamedNodes nodes(node);
  const std::vector<int64_t> features = node.get_ints("nodes_featureids"), yes = node.get_ints("nodes_truenodeids"),
                             no = node.get_ints("nodes_falsenodeids"), missing = node.get_ints("nodes_missing_value_tracks_true");
  const std::vector<std::string> modes = node.get_strings("nodes_modes");
  const std::vector<double> splits = numbers(node, "nodes_values");
  const size_t n = nodes.size();
  for (const size_t length :
       {features.size(), yes.size(), no.size(), modes.size(), splits.size(), missing.empty() ? n : missing.size()})
    if (length != n) fail("the nodes_ attributes have different lengths: {} and {}", n, length);
  // First what each node becomes, then where branches lead.
  std::vector<TreeRef> refs(n);
  std::vector<int32_t> leaf(n, -1);
  int32_t leaves = 0, branches = 0;
  for (size_t i = 0; i < n; ++i) {
    const bool is_leaf = mode_of(modes[i]) < 0;
    refs[i] = {is_leaf, is_leaf ? leaves++ : branches++};
    if (is_leaf) leaf[i] = refs[i].index;
  }
  std::vector<bool> has_parent(n);
  const auto child = [&](size_t i, int64_t id) {
    const size_t at = nodes.place(nodes.tree(i), id, "a branch");
    has_parent[at] = true;
    return refs[at];
  };
  for (size_t i = 0; i < n; ++i) {
    if (refs[i].leaf) continue;
    TreeBranch b{static_cast<Branching>(mode_of(modes[i])), !missing.empty() && missing[i] != 0, feature_of(features[i]),
                 splits[i]};
    b.yes = child(i, yes[i]);
    b.no = child(i, no[i]);
    f.branches.push_back(b);
  }
  std::unordered_map<int64_t, bool> rooted;
  for (size_t i = 0; i < n; ++i) {
    rooted.try_emplace(nodes.tree(i), false);
    if (has_parent[i]) continue;
    f.roots.push_back(refs[i]);
    rooted[nodes.tree(i)] = true;
  }
  for (const auto& [tree, has_root] : rooted)
    if (!has_root) fail("tree {} has a cycle: each of its nodes is another one's branch", tree);
  read_named_weights(node, classifies ? "class" : "target", nodes, leaf, static_cast<size_t>(leaves), f);
  return f;
}

// --- both ---------------------------------------------------------------------------------------------------------

/// By branch: how many branches there are on the longest path from it. Throws Error where a path comes back.
std::vector<int64_t> longest_paths(const Forest& f) {
  constexpr int64_t unknown = -1, open = -2;
  std::vector<int64_t> length(f.branches.size(), unknown);
  std::vector<int32_t> path;
  for (size_t start = 0; start < f.branches.size(); ++start) {
    if (length[start] != unknown) continue;
    path.push_back(static_cast<int32_t>(start));
    while (!path.empty()) {
      const auto at = static_cast<size_t>(path.back());
      const TreeBranch& b = f.branches[at];
      length[at] = open;
      int64_t longest = 0;
      bool waits = false;
      for (const TreeRef& r : {b.yes, b.no}) {
        if (r.leaf) continue;
        const int64_t of = length[static_cast<size_t>(r.index)];
        if (of == open) fail("the tree of node {} has a cycle", at);
        if (of == unknown) {
          path.push_back(r.index);
          waits = true;
          break;
        }
        longest = std::max(longest, of);
      }
      if (waits) continue;
      length[at] = longest + 1;
      path.pop_back();
    }
  }
  return length;
}

}  // namespace

Forest forest_of(const Node& node) {
  Forest f = node.op == "TreeEnsemble" ? read_ensemble(node) : read_named(node);
  const std::vector<int64_t> lengths = longest_paths(f);
  for (const TreeRef& r : f.roots) f.depths.push_back(r.leaf ? 0 : lengths[static_cast<size_t>(r.index)]);
  for (const TreeBranch& b : f.branches) f.features = std::max<int64_t>(f.features, b.feature + 1);
  return f;
}

}  // namespace smelt::ops
