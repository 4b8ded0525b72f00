// Tree ensembles on a GPU (src/kernels/ml/trees.cuh).
#include <algorithm>
#include <memory>

#include "expr/cuda.h"
#include "kernels/ml/trees.h"
#include "ops/core/key.h"
#include "ops/core/strides.h"
#include "ops/cuda/launches.h"
#include "ops/ml/classes.h"
#include "ops/ml/flat_forest.h"
#include "ops/ml/offer.h"
#include "ops/ml/trees.h"

namespace smelt::ops {
namespace {

constexpr unsigned threads = 256;                  // kernels' tree_threads
constexpr int64_t most_leaves = int64_t{1} << 30;  // of all rows, a word of the workspace each

/// The forest as its kernels read it, and what a node's tensors are.
struct Ensemble {
  std::shared_ptr<const Node> node;
  int64_t rows = 0, features = 0;
  DType x = DType::f32, y = DType::f32;
  bool labels = false, results = false;  // which outputs are asked for
  bool classifies() const { return node->op == "TreeEnsembleClassifier"; }
};

template <class T> std::vector<kernels::TreeNode<T>> nodes_of(const FlatForest<T>& flat) {
  std::vector<kernels::TreeNode<T>> nodes;
  for (size_t i = 0; i < flat.nodes().size(); ++i) {
    const FlatNode<T>& n = flat.nodes()[i];
    nodes.push_back({n.split, static_cast<uint32_t>(n.feature) | (flat.to_left(i) ? 1u << 31 : 0u), {n.child[0], n.child[1]}});
  }
  return nodes;
}

int64_t trees_of(const Node& node) {
  if (node.op == "TreeEnsemble") return static_cast<int64_t>(node.get_ints("tree_roots").size());
  std::vector<int64_t> ids = node.get_ints("nodes_treeids");
  std::ranges::sort(ids);
  return std::unique(ids.begin(), ids.end()) - ids.begin();
}

/// The launches of trees whose features are compared as T.
template <class T> LaunchPlan launches_of(const Ensemble& e) {
  const Forest forest = forest_of(*e.node);
  check_features(forest, e.features);
  const FlatForest<T> flat(forest);
  LaunchPlan plan("trees", "#include \"ml/trees.cuh\"\n");
  if (e.rows == 0 || forest.targets == 0) return plan;
  const auto trees = static_cast<uint32_t>(flat.trees()), rows = static_cast<uint32_t>(e.rows),
             targets = static_cast<uint32_t>(forest.targets), bases = static_cast<uint32_t>(forest.base.size());
  std::vector<int32_t> roots;
  for (size_t t = 0; t < flat.trees(); ++t) roots.push_back(flat.root(t));
  std::vector<kernels::TreeWeight> weights;
  for (const LeafWeight& w : forest.weights) weights.push_back({w.target, w.weight});
  const auto first_leaf = static_cast<int32_t>(forest.branches.size());
  const BufferRef leaves = plan.reserve(e.rows * trees * 4), scores = plan.reserve(e.rows * targets * 8),
                  seen = plan.reserve(e.rows * targets);

  const kernels::TreeWalkArgs<T, void> walk{.x = nullptr,
                                            .nodes = nullptr,
                                            .roots = nullptr,
                                            .leaves = nullptr,
                                            .features = e.features,
                                            .rows = rows,
                                            .trees = trees,
                                            .first_leaf = first_leaf,
                                            .end_leaf = first_leaf + static_cast<int32_t>(forest.leaves())};
  const std::string types = fmt::format("{}, {}", expr::cuda_type(dtype_of<T>::value), expr::cuda_type(e.x));
  plan.launch({"tree_walk", "tree_threads", fmt::format("TreeWalkArgs<{}>", types), fmt::format("tree_walk<{}>", types)},
              blocks_of(e.rows * trees, threads))
      .args(walk, {{walk.x, BufferRef{BufferRef::input, 0}},
                   {walk.nodes, plan.table(nodes_of(flat))},
                   {walk.roots, plan.table(roots)},
                   {walk.leaves, leaves}});

  kernels::TreeConfig c{.aggregate = static_cast<int32_t>(forest.aggregate),
                        .transform = static_cast<int32_t>(ensemble_transform(*e.node)),
                        .classifies = e.classifies()};
  std::vector<int64_t> labels;
  if (e.classifies()) {
    const ClassRule rule(*e.node);
    c.single = rule.single, c.positive = rule.positive;
    const ClassLabels names(*e.node);
    for (size_t k = 0; k < names.size(); ++k) labels.push_back(names.integer(static_cast<int64_t>(k)));
    while (labels.size() < targets) labels.push_back(-static_cast<int64_t>(labels.size()));
  }
  const std::string config = config_source("TreeConfig", {{"aggregate", c.aggregate},
                                                          {"transform", c.transform},
                                                          {"classifies", c.classifies},
                                                          {"single", c.single},
                                                          {"positive", c.positive}});
  const kernels::TreeSumArgs sum{.leaves = nullptr,
                                 .first_weight = nullptr,
                                 .weights = nullptr,
                                 .base = nullptr,
                                 .scores = nullptr,
                                 .seen = nullptr,
                                 .rows = rows,
                                 .trees = trees,
                                 .targets = targets,
                                 .bases = bases};
  plan.launch({"tree_sum", "tree_threads", "TreeSumArgs", fmt::format("tree_sum<{}>", config)},
              blocks_of(e.rows * targets * 32, threads))
      .args(sum, {{sum.leaves, leaves},
                  {sum.first_weight, plan.table(forest.first_weight)},
                  {sum.weights, plan.table(weights)},
                  {sum.base, plan.table(forest.base)},
                  {sum.scores, scores},
                  {sum.seen, seen}});

  const kernels::TreeResultArgs<void> result{
      .scores = nullptr, .seen = nullptr, .labels = nullptr, .chosen = nullptr, .y = nullptr, .rows = rows, .targets = targets};
  std::vector<TensorMember> tensors{{result.scores, scores}, {result.seen, seen}, {result.labels, plan.table(labels)}};
  if (e.labels) tensors.emplace_back(result.chosen, BufferRef{BufferRef::output, 0});
  if (e.results) tensors.emplace_back(result.y, BufferRef{BufferRef::output, e.classifies() ? size_t{1} : size_t{0}});
  const std::string_view y = expr::cuda_type(e.y);
  plan.launch({"tree_result", "tree_threads", fmt::format("TreeResultArgs<{}>", y), fmt::format("tree_result<{}>", config)},
              blocks_of(e.rows, threads))
      .args(result, tensors);
  return plan;
}

}  // namespace

void offer_trees_cuda(const BoundNode& b, const Machine& machine, Offer& offer) {
  const bool classifies = b.node->op == "TreeEnsembleClassifier";
  const auto given = [&](size_t o) { return o < b.outputs.size() && b.outputs[o].type != DType::undefined; };
  Ensemble e{.rows = rows_of(b.inputs[0].shape), .features = features_of(b.inputs[0].shape), .x = b.inputs[0].type};
  e.labels = classifies && given(0), e.results = given(classifies ? 1 : 0);
  if (e.results) e.y = b.outputs[classifies ? 1 : 0].type;
  if (e.labels && b.outputs[0].type == DType::string) return offer.refuse("cuda", Reason::wrong_type, "labels that are strings");
  if (e.y != DType::f32 && e.y != DType::f64) return offer.refuse("cuda", Reason::wrong_type, "results of {}", name(e.y));
  if (e.x != DType::f32 && e.x != DType::f64 && e.x != DType::i32 && e.x != DType::i64)
    return offer.refuse("cuda", Reason::wrong_type, "features of {}", name(e.x));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cuda", *why);
  const size_t nodes = b.node->get_ints("nodes_featureids").size();
  const int64_t trees = trees_of(*b.node);
  if (e.rows * trees > most_leaves)
    return offer.refuse("cuda", Reason::too_large, "{} rows of {} trees; it keeps 2^30 leaves", e.rows, trees);
  // Written out, a forest's attributes are megabytes.
  offer.problem = Key(b.node->op).field(fmt::format("{} nodes", nodes)).field(b.inputs[0]).to(b.outputs.back()).text();
  e.node = std::make_shared<const Node>(*b.node);
  const double us = 10 + 1e-3 * static_cast<double>(e.rows * trees);
  offer.candidates.push_back({"cuda", "", us, [e, gpu = machine.gpu] {
                                return launched(e.x == DType::f64 ? launches_of<double>(e) : launches_of<float>(e), *gpu);
                              }});
}

}  // namespace smelt::ops
