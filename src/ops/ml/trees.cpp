// The references of the tree ensembles: sums, averages or extrema of the leaves that a row of features reaches, for each target.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/list_inputs.h"
#include "ops/ml/classes.h"
#include "ops/ml/forest.h"
#include "ops/ml/trees.h"

namespace smelt::ops {
namespace {

bool takes_yes(const Forest& f, const TreeBranch& b, double v) {
  if (std::isnan(v) && b.missing_true) return true;
  switch (b.mode) {
    case Branching::leq: return v <= b.split;
    case Branching::lt: return v < b.split;
    case Branching::gte: return v >= b.split;
    case Branching::gt: return v > b.split;
    case Branching::eq: return v == b.split;
    case Branching::neq: return v != b.split;
    default: {
      const auto begin = f.members.begin();
      return std::find(begin + b.first_member, begin + b.last_member, v) != begin + b.last_member;
    }
  }
}

size_t leaf_of(const Forest& f, TreeRef at, const double* row) {
  while (!at.leaf) {
    const TreeBranch& b = f.branches[static_cast<size_t>(at.index)];
    at = takes_yes(f, b, row[b.feature]) ? b.yes : b.no;
  }
  return static_cast<size_t>(at.index);
}

/// Calls f(row, scores, seen) for each row of x.
template <class F> void for_each_row(const ComputeContext& c, const F& f) {
  const Forest forest = forest_of(c.node);
  const Shape& x = c.in(0).shape();
  const int64_t features = x.back(), rows = x.size() > 1 ? x[0] : 1;
  check_features(forest, features);
  const bool narrow = is_integer(c.in(0).type());  // splits of integers are compared as f32, as ONNX Runtime does
  const std::vector<double> values = (narrow ? c.in(0).cast(DType::f32) : c.in(0)).to_doubles();
  std::vector<double> scores(static_cast<size_t>(forest.targets));
  const auto seen = std::make_unique<bool[]>(scores.size());
  for (int64_t r = 0; r < rows; ++r) {
    const ScoreSum sum{forest, scores.data(), seen.get()};
    sum.clear();
    for (const TreeRef& root : forest.roots) sum.add(leaf_of(forest, root, values.data() + r * features));
    sum.end();
    std::vector<double> given = scores;
    f(r, given, seen.get());
  }
}

}  // namespace

void check_features(const Forest& f, int64_t features) {
  if (f.features > features) fail("a node reads feature {}, the rows have {}", f.features - 1, features);
}

PostTransform ensemble_transform(const Node& node) {
  if (node.op != "TreeEnsemble") return post_transform_of(node);
  const int64_t transform = node.get_int("post_transform", 0);
  if (transform < 0 || transform > 4) fail("post_transform is {}, expected 0 to 4", transform);
  return static_cast<PostTransform>(transform);
}

void infer_trees(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.size() != 2) fail("X has shape {}, expected [N, features]", to_string(x));
  c.set(0, type_of(c, 0), {x[0], c.node.get_int("n_targets", 0)});
}

void infer_tree_regressor(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty() || x.size() > 2) fail("X has shape {}, expected [N, features]", to_string(x));
  const int64_t targets = c.node.get_int("n_targets", 1);
  if (targets < 1) fail("n_targets is {}, expected 1 or more", targets);
  c.set(0, DType::f32, {x.size() > 1 ? x[0] : 1, targets});
}

void infer_tree_classifier(InferContext& c) {
  const Shape& x = c.shape(0);
  if (x.empty() || x.size() > 2) fail("X has shape {}, expected [N, features]", to_string(x));
  const ClassLabels labels(c.node);
  const int64_t rows = x.size() > 1 ? x[0] : 1;
  c.set(0, labels.type(), {rows});
  c.set(1, DType::f32, {rows, static_cast<int64_t>(labels.size())});
}

void run_trees(ComputeContext& c) {
  const PostTransform transform = ensemble_transform(c.node);
  std::vector<double> out;
  for_each_row(c, [&](int64_t, std::vector<double>& scores, const bool*) {
    post_transform(scores, transform);
    out.insert(out.end(), scores.begin(), scores.end());
  });
  store_doubles(out, c.outputs[0]);
}

void run_tree_classifier(ComputeContext& c) {
  const ClassLabels labels(c.node);
  const ClassRule rule(c.node);
  std::vector<double> out;
  for_each_row(c, [&](int64_t row, std::vector<double>& scores, const bool* seen) {
    const int64_t chosen = rule.decide(scores, seen);
    if (c.wants(0)) labels.put(chosen, row, c.outputs[0]);
    out.insert(out.end(), scores.begin(), scores.end());
  });
  if (c.wants(1)) store_doubles(out, c.outputs[1]);
}

}  // namespace smelt::ops
