// Tree ensembles on a GPU against the processor's reference.
#include <cmath>
#include <random>

#include "gpu/gpu_batch.h"
#include "ops/ml/ml.h"

namespace smelt::ops {
namespace {

class GpuTrees : public GpuBatch {};

using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;
using Attributes = std::map<std::string, Attribute>;

/// Trees whose branches compare in every way, as versions 1 and 3 of the operators name them. `of`: "target" or "class".
class RandomForest {
 public:
  RandomForest(const std::string& of, int64_t trees, int64_t depth, int64_t features, int64_t targets, int64_t weights,
               uint32_t seed)
      : engine_(seed), features_(features), targets_(targets), weights_(weights) {
    for (tree_ = 0; tree_ < trees; ++tree_) {
      next_ = 0;
      grow(depth);
    }
    attributes = {{"nodes_treeids", trees_},      {"nodes_nodeids", nodes_},
                  {"nodes_featureids", feature_}, {"nodes_values", values_},
                  {"nodes_modes", modes_},        {"nodes_truenodeids", yes_},
                  {"nodes_falsenodeids", no_},    {"nodes_missing_value_tracks_true", missing_},
                  {of + "_treeids", leaf_trees_}, {of + "_nodeids", leaf_nodes_},
                  {of + "_ids", leaf_ids_},       {of + "_weights", leaf_weights_}};
  }
  Attributes attributes;

 private:
  int64_t number(int64_t below) { return static_cast<int64_t>(engine_() % static_cast<uint32_t>(below)); }
  size_t add(const char* mode) {
    trees_.push_back(tree_), nodes_.push_back(next_++), modes_.push_back(mode);
    feature_.push_back(number(features_)), values_.push_back(static_cast<float>(number(9) - 4) / 2);
    yes_.push_back(0), no_.push_back(0), missing_.push_back(number(2));
    return nodes_.size() - 1;
  }
  int64_t grow(int64_t depth) {
    constexpr const char* branches[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
    if (depth == 0 || number(6) == 0) {
      const size_t at = add("LEAF");
      for (int64_t w = 0; w < weights_; ++w) {
        leaf_trees_.push_back(tree_), leaf_nodes_.push_back(nodes_[at]), leaf_ids_.push_back((number(targets_) + w) % targets_);
        leaf_weights_.push_back(static_cast<float>(number(200) - 80) / 64);
      }
      return nodes_[at];
    }
    const size_t at = add(branches[number(6)]);
    const int64_t own = nodes_[at], yes = grow(depth - 1), no = grow(depth - 1);
    yes_[at] = yes, no_[at] = no;
    return own;
  }
  std::mt19937 engine_;
  int64_t features_, targets_, weights_, tree_ = 0, next_ = 0;
  Ints trees_, nodes_, feature_, yes_, no_, missing_, leaf_trees_, leaf_nodes_, leaf_ids_;
  Floats values_, leaf_weights_;
  std::vector<std::string> modes_;
};

/// Values at the splits, between them, and no numbers.
Tensor features(DType type, int64_t rows, int64_t columns, uint32_t seed) {
  Tensor x = random_tensor(DType::f64, {rows, columns}, seed, -3, 3);
  size_t i = 0;
  for (double& v : x.span<double>()) {
    if (++i % 3 == 0) v = std::round(v * 2) / 2;
    if (i % 11 == 0 && is_float(type)) v = NAN;
  }
  return x.cast(type);
}

TEST_F(GpuTrees, regressors_of_every_aggregate_and_transform) {
  for (const char* aggregate : {"SUM", "AVERAGE", "MIN", "MAX"})
    for (const char* transform : {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"})
      for (const auto& [trees, rows, targets] : {std::tuple{1, 1, 1}, std::tuple{70, 33, 3}, std::tuple{200, 1, 2}}) {
        Attributes a = RandomForest("target", trees, 6, 7, targets, 2, 5).attributes;
        a["n_targets"] = int64_t{targets};
        a["aggregate_function"] = std::string(aggregate), a["post_transform"] = std::string(transform);
        if (rows > 1) a["base_values"] = Floats(static_cast<size_t>(targets), 0.25f);
        expect(node_trial("ai.onnx.ml:TreeEnsembleRegressor", {features(DType::f32, rows, 7, 3)}, a), 1e-6);
      }
}

TEST_F(GpuTrees, probabilities_become_quantiles) {
  Attributes a = RandomForest("target", 1, 6, 7, 1, 1, 5).attributes;
  for (float& w : std::get<Floats>(a["target_weights"])) w = 0.02f + std::abs(w) / 2;
  a["n_targets"] = int64_t{1}, a["post_transform"] = std::string("PROBIT");
  expect(node_trial("ai.onnx.ml:TreeEnsembleRegressor", {features(DType::f32, 100, 7, 3)}, a), 1e-6);
}

TEST_F(GpuTrees, classifiers_of_every_type_of_features) {
  for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (const auto& [classes, ids] : {std::pair{2, 1}, std::pair{2, 2}, std::pair{5, 5}})
      for (const char* transform : {"NONE", "LOGISTIC", "SOFTMAX"}) {
        Attributes a = RandomForest("class", 40, 8, 11, ids, 1, 9).attributes;
        Ints labels;
        for (int64_t k = 0; k < classes; ++k) labels.push_back(10 - 3 * k);
        a["classlabels_int64s"] = labels, a["post_transform"] = std::string(transform);
        expect(node_trial("ai.onnx.ml:TreeEnsembleClassifier", {features(type, 65, 11, 4)}, a, 2), 1e-6);
      }
}

TEST_F(GpuTrees, ensembles_of_version_5_with_sets) {
  Attributes a{{"n_targets", int64_t{2}},
               {"aggregate_function", int64_t{1}},
               {"tree_roots", Ints{0, 2}},
               {"nodes_featureids", Ints{0, 1, 1}},
               {"nodes_splits", Tensor::of<double>({3}, {1.5, 0, 0.5})},
               {"nodes_modes", Tensor::of<uint8_t>({3}, {0, 6, 2})},
               {"membership_values", Tensor::of<double>({4}, {1, 2, 3, NAN})},
               {"nodes_truenodeids", Ints{1, 0, 2}},
               {"nodes_trueleafs", Ints{0, 1, 1}},
               {"nodes_falsenodeids", Ints{3, 1, 3}},
               {"nodes_falseleafs", Ints{1, 1, 1}},
               {"leaf_targetids", Ints{0, 1, 0, 1}},
               {"leaf_weights", Tensor::of<double>({4}, {5, 7, 11, 13})}};
  for (const int64_t rows : {0, 1, 50})
    expect(node_trial("ai.onnx.ml:TreeEnsemble", {features(DType::f64, rows, 2, 6)}, a), 1e-12);
}

}  // namespace
}  // namespace smelt::ops
