// The operators on features on the processor against the references.
#include <fmt/core.h>

#include <numeric>

#include "ops/tactic_check.h"

namespace smelt::ops {
namespace {

using ::testing::ElementsAre;

Trial over_features(const std::string& op, std::map<std::string, Attribute> attrs, const Tensor& x, DType result) {
  Trial t;
  t.node.op = op;
  t.node.domain = "ai.onnx.ml";
  t.node.attrs = std::move(attrs);
  t.add(x, false);
  t.result(result, x.shape());
  return t;
}

/// Whole numbers, and NaNs among floats.
Tensor some(DType type, const Shape& shape) {
  Tensor x = random_tensor(DType::f32, shape, 2, -5, 5);
  for (int64_t i = 0; i < x.size(); ++i)
    x.data<float>()[i] = is_float(type) && i % 11 == 0 ? std::numeric_limits<float>::quiet_NaN() : std::round(x.data<float>()[i]);
  return x.cast(type);
}

using Floats = std::vector<float>;

TEST(FeatureTactics, agree_over_types_and_shapes) {
  for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64})
    for (const Shape& shape : {Shape{3}, Shape{500, 3}, Shape{40, 30, 3}})
      for (const int threads : {1, 3}) {
        const Tensor x = some(type, shape);
        SCOPED_TRACE(std::string(name(type)) + to_string(shape));
        Trial scaled = over_features("Scaler", {{"offset", Floats{1, -2, 0.5f}}, {"scale", Floats{3}}}, x, DType::f32);
        EXPECT_THAT(check(scaled, 1e-6, threads), ElementsAre("cpu"));
        Trial ones = over_features("Binarizer", {{"threshold", 1.0f}}, x, type);
        EXPECT_THAT(check(ones, 0, threads), ElementsAre("cpu"));
        for (const char* norm : {"MAX", "L1", "L2"}) {
          Trial unit =
              over_features("Normalizer", {{"norm", std::string(norm)}}, random_tensor(type, shape, 3, -9, 9), DType::f32);
          EXPECT_THAT(check(unit, 1e-6, threads), ElementsAre("cpu"));
        }
        for (const float replaced : {2.0f, std::numeric_limits<float>::quiet_NaN()}) {
          std::map<std::string, Attribute> attrs{{"imputed_value_floats", Floats{7, 8, 9}}, {"replaced_value_float", replaced}};
          if (!is_float(type)) attrs = {{"imputed_value_int64s", std::vector<int64_t>{7}}, {"replaced_value_int64", int64_t{2}}};
          Trial filled = over_features("Imputer", attrs, x, type);
          EXPECT_THAT(check(filled, 0, threads), ElementsAre("cpu"));
        }
      }
}

TEST(FeatureTactics, impute_integers_of_more_bits_than_doubles_have) {
  constexpr int64_t large = int64_t{1} << 53;
  const Tensor x = Tensor::of<int64_t>({2, 2}, {large, large + 1, 1, large});
  const std::map<std::string, Attribute> attrs{{"imputed_value_int64s", std::vector<int64_t>{large + 3}},
                                               {"replaced_value_int64", large + 1}};
  Trial t = over_features("Imputer", attrs, x, DType::i64);
  EXPECT_THAT(check(t, 0), ElementsAre("cpu"));
}

TEST(FeatureTactics, divide_by_the_largest_as_a_loop_finds_it) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t features : {1, 7, 8, 9, 40})
    for (int64_t at = 0; at < features; ++at) {
      Tensor x = random_tensor(DType::f32, {3, features}, 5, -9, 9);
      x.data<float>()[features + at] = nan;
      Trial t = over_features("Normalizer", {{"norm", std::string("MAX")}}, x, DType::f32);
      EXPECT_THAT(check(t, 1e-6, 1), ElementsAre("cpu")) << features << " " << at;
    }
}

TEST(FeatureTactics, pick_and_join_columns) {
  for (const DType type : {DType::f32, DType::f64, DType::i32, DType::i64}) {
    Trial picked = over_features("ArrayFeatureExtractor", {}, some(type, {300, 5}), type);
    picked.add(Tensor::of<int64_t>({1, 3}, {4, 0, 4}), false);
    picked.bound.outputs[0].shape = {300, 3};
    EXPECT_THAT(check(picked, 0), ElementsAre("cpu")) << name(type);
    Trial joined =
        over_features("FeatureVectorizer", {{"inputdimensions", std::vector<int64_t>{3, 4}}}, some(type, {300, 5}), DType::f32);
    joined.add(random_tensor(DType::f32, {300, 2}, 5), false);
    joined.bound.outputs[0].shape = {300, 7};
    EXPECT_THAT(check(joined, 0), ElementsAre("cpu")) << name(type);
  }
}

TEST(LinearTactics, score_rows_of_every_length) {
  for (const int64_t features : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 160, 161, 1023, 1025, 2050})
    for (const int64_t rows : {1, 3, 6, 7, 8, 9, 65})
      for (const int64_t targets : {1, 2, 3, 9, 17, 33})
        for (const char* transform : {"NONE", "SOFTMAX", "LOGISTIC"}) {
          const Tensor w = random_tensor(DType::f32, {targets * features}, 3), o = random_tensor(DType::f32, {targets}, 4);
          const auto floats = [](const Tensor& t) { return Floats(t.data<float>(), t.data<float>() + t.size()); };
          Trial t = over_features("LinearRegressor",
                                  {{"coefficients", floats(w)},
                                   {"intercepts", floats(o)},
                                   {"targets", targets},
                                   {"post_transform", std::string(transform)}},
                                  random_tensor(DType::f32, {rows, features}, 2), DType::f32);
          t.bound.outputs[0].shape = {rows, targets};
          SCOPED_TRACE(fmt::format("{} x {} -> {} {}", rows, features, targets, transform));
          EXPECT_THAT(check(t, 2e-5, 1 + static_cast<int>(rows % 3)), ElementsAre("cpu"));
          t.node.op = "LinearClassifier";
          t.node.attrs.erase("targets");
          std::vector<int64_t> labels(static_cast<size_t>(std::max<int64_t>(2, targets)));
          std::iota(labels.begin(), labels.end(), int64_t{5});
          t.node.attrs["classlabels_ints"] = labels;
          t.bound.outputs[0] = {DType::i64, {rows}};
          EXPECT_THAT(check(t, 0, 1 + static_cast<int>(rows % 3)), ElementsAre("cpu"));
        }
}

/// A stump: feature 0 <= 1 leads to `low`, else to `high`.
Trial stump(float low, float high, int64_t rows) {
  using Ints = std::vector<int64_t>;
  Trial t;
  t.node.op = "TreeEnsembleRegressor";
  t.node.domain = "ai.onnx.ml";
  t.node.attrs = {{"nodes_treeids", Ints{0, 0, 0}},
                  {"nodes_nodeids", Ints{0, 1, 2}},
                  {"nodes_featureids", Ints{0, 0, 0}},
                  {"nodes_values", Floats{1, 0, 0}},
                  {"nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "LEAF"}},
                  {"nodes_truenodeids", Ints{1, 0, 0}},
                  {"nodes_falsenodeids", Ints{2, 0, 0}},
                  {"target_treeids", Ints{0, 0}},
                  {"target_nodeids", Ints{1, 2}},
                  {"target_ids", Ints{0, 0}},
                  {"target_weights", Floats{low, high}}};
  t.add(random_tensor(DType::f32, {rows, 2}, 7, -3, 4), false);
  t.result(DType::f32, {rows, 1});
  return t;
}

/// Kernels of one forest share it; a forest that differs in one number is another one.
TEST(ForestTactics, kernels_of_several_batches_share_the_forest_of_their_own_node) {
  std::vector<std::unique_ptr<Kernel>> alive;
  for (const float high : {7.0f, 8.0f, 7.0f}) {
    for (const int64_t rows : {1, 5, 40, 5}) {
      Trial t = stump(5, high, rows);
      EXPECT_THAT(check(t, 0), ElementsAre("cpu"));
      alive.push_back(offer(t.bound, Machine{}).candidates.at(0).prepare());
    }
  }
}

}  // namespace
}  // namespace smelt::ops
