#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

TEST(LabelEncoder, maps_strings_to_numbers_and_back) {
  const Tensor x = Tensor::of_strings({3}, {"b", "a", "?"});
  EXPECT_EQ(
      run("ai.onnx.ml:LabelEncoder", {x}, {{"keys_strings", std::vector<std::string>{"a", "b"}}, {"values_int64s", Ints{5, 6}}})
          .to_ints(),
      (Ints{6, 5, -1}));
  EXPECT_THAT(run("ai.onnx.ml:LabelEncoder", {i64({2}, {5, 9})},
                  {{"keys_int64s", Ints{5}}, {"values_strings", std::vector<std::string>{"five"}}})
                  .strings(),
              testing::ElementsAre("five", "_Unused"));
}

TEST(LabelEncoder, the_last_of_equal_keys_counts_and_nan_is_a_key) {
  const Attributes attrs{{"keys_floats", std::vector<float>{1, 1, NAN}}, {"values_int64s", Ints{5, 6, 7}}};
  EXPECT_EQ(run("ai.onnx.ml:LabelEncoder", {f32({2}, {1, NAN})}, attrs).to_ints(), (Ints{6, 7}));
}

TEST(LabelEncoder, tells_apart_integers_by_all_their_bits) {
  constexpr int64_t large = int64_t{1} << 53;  // from here on doubles have every other integer
  const Attributes attrs{{"keys_int64s", Ints{large, large + 1, INT64_MAX}}, {"values_int64s", Ints{1, large + 1, 3}}};
  EXPECT_EQ(run("ai.onnx.ml:LabelEncoder", {i64({5}, {large, large + 1, large + 2, INT64_MAX - 1, INT64_MAX})}, attrs).to_ints(),
            (Ints{1, large + 1, -1, -1, 3}));
}

TEST(Binarizer, is_one_above_the_threshold_only) {
  expect_near(run("ai.onnx.ml:Binarizer", {f32({3}, {0.5f, 1, 1.5f})}, {{"threshold", 1.0f}}), {3}, {0, 0, 1});
}

TEST(ArrayFeatureExtractor, picks_columns) {
  expect_near(run("ai.onnx.ml:ArrayFeatureExtractor", {ramp({2, 3}), i64({2}, {2, 0})}), {2, 2}, {2, 0, 5, 3});
  expect_error("index 3", [] { run("ai.onnx.ml:ArrayFeatureExtractor", {ramp({2, 3}), i64({1}, {3})}); });
}

TEST(Scaler, offsets_then_scales_each_feature) {
  expect_near(
      run("ai.onnx.ml:Scaler", {f32({1, 2}, {3, 3})}, {{"offset", std::vector<float>{1, 2}}, {"scale", std::vector<float>{10}}}),
      {1, 2}, {20, 10});
}

TEST(Normalizer, divides_rows_by_their_norm) {
  expect_near(run("ai.onnx.ml:Normalizer", {f32({2, 2}, {3, 4, 0, 0})}, {{"norm", std::string("L2")}}), {2, 2}, {0.6, 0.8, 0, 0});
}

TEST(OneHotEncoder, gives_zeros_for_an_unknown_category) {
  expect_near(run("ai.onnx.ml:OneHotEncoder", {i64({2}, {7, 9})}, {{"cats_int64s", Ints{5, 7}}}), {2, 2}, {0, 1, 0, 0});
}

TEST(Imputer, replaces_nan) {
  expect_near(run("ai.onnx.ml:Imputer", {f32({1, 2}, {NAN, 1})},
                  {{"imputed_value_floats", std::vector<float>{8, 9}}, {"replaced_value_float", NAN}}),
              {1, 2}, {8, 1});
}

TEST(Imputer, a_number_beyond_what_a_double_tells_apart_is_the_largest) {
  EXPECT_EQ(run("ai.onnx.ml:Imputer", {i64({1, 2}, {-1, 1})},
                {{"imputed_value_int64s", Ints{INT64_MAX}}, {"replaced_value_int64", int64_t{-1}}})
                .to_ints(),
            (Ints{INT64_MAX, 1}));
}

TEST(Imputer, tells_apart_integers_by_all_their_bits) {
  constexpr int64_t large = int64_t{1} << 53;
  EXPECT_EQ(run("ai.onnx.ml:Imputer", {i64({1, 3}, {large, large + 1, 1})},
                {{"imputed_value_int64s", Ints{large + 3}}, {"replaced_value_int64", large + 1}})
                .to_ints(),
            (Ints{large, large + 3, 1}));
}

TEST(LinearRegressor, multiplies_and_adds) {
  expect_near(run("ai.onnx.ml:LinearRegressor", {f32({1, 2}, {1, 2})},
                  {{"coefficients", std::vector<float>{10, 100}}, {"intercepts", std::vector<float>{1}}}),
              {1, 1}, {211});
}

// One node: feature 0 <= 1 goes to leaf 0 (target 0, weight 5), else to leaf 1 (target 1, weight 7).
Attributes stump() {
  return {{"n_targets", int64_t{2}},      {"tree_roots", Ints{0}},           {"nodes_modes", u8({1}, {0})},
          {"nodes_featureids", Ints{0}},  {"nodes_splits", f32({1}, {1})},   {"nodes_trueleafs", Ints{1}},
          {"nodes_truenodeids", Ints{0}}, {"nodes_falseleafs", Ints{1}},     {"nodes_falsenodeids", Ints{1}},
          {"leaf_targetids", Ints{0, 1}}, {"leaf_weights", f32({2}, {5, 7})}};
}

TEST(TreeEnsemble, follows_branches_to_a_leaf) {
  expect_near(run("ai.onnx.ml:TreeEnsemble", {f32({3, 1}, {1, 2, NAN})}, stump()), {3, 2}, {5, 0, 0, 7, 0, 7});
  Attributes missing = stump();
  missing["nodes_missing_value_tracks_true"] = Ints{1};
  expect_near(run("ai.onnx.ml:TreeEnsemble", {f32({1, 1}, {NAN})}, missing), {1, 2}, {5, 0});
}

TEST(TreeEnsemble, rejects_a_branch_to_nowhere_and_a_cycle) {
  Attributes bad = stump();
  bad["nodes_truenodeids"] = Ints{7};
  expect_error("branches to 7", [&] { run("ai.onnx.ml:TreeEnsemble", {f32({1, 1}, {1})}, bad); });
  Attributes cycle = stump();
  cycle["nodes_trueleafs"] = Ints{0};
  expect_error("cycle", [&] { run("ai.onnx.ml:TreeEnsemble", {f32({1, 1}, {1})}, cycle); });
}

TEST(Momentum, follows_the_gradient_with_memory) {
  const auto y =
      run_all("ai.onnx.preview.training:Momentum", {f32({}, {0.1f}), i64({}, {1}), f32({1}, {1}), f32({1}, {2}), f32({1}, {4})},
              {{"alpha", 0.5f}, {"beta", 1.0f}, {"norm_coefficient", 0.0f}, {"mode", std::string("standard")}}, 2);
  expect_near(y[0], {1}, {1 - 0.1 * 4});
  expect_near(y[1], {1}, {4});
}

TEST(Momentum, refuses_a_rate_of_no_elements) {
  const std::string op = "ai.onnx.preview.training:Momentum";
  const Tensor x = f32({1}, {1});
  expect_error("input 0 has shape [0], expected one element", [&] { run_all(op, {f32({0}, {}), i64({}, {0}), x, x, x}, {}, 2); });
  expect_error("input 1 has shape [0], expected one element", [&] { run_all(op, {f32({}, {1}), i64({0}, {}), x, x, x}, {}, 2); });
}

TEST(FusedConv, adds_z_before_the_activation) {
  const Tensor x = f32({1, 1, 1}, {1}), w = f32({1, 1, 1}, {-3});
  expect_near(run("com.microsoft:FusedConv", {x, w, Tensor(), f32({1, 1, 1}, {2})}, {{"activation", std::string("Relu")}}),
              {1, 1, 1}, {0});
}

TEST(Gelu, of_onnx_runtime_in_its_forms) {
  const Tensor x = f32({1, 1}, {1}), half = f32({1, 1}, {0.5f}), bias = f32({1}, {0.5f});
  const double gelu = 0.5 * (1 + std::erf(std::sqrt(0.5)));
  expect_near(run("com.microsoft:Gelu", {x}), {1, 1}, {gelu});
  expect_near(run("com.microsoft:BiasGelu", {half, bias}), {1, 1}, {gelu});
  expect_near(run("com.microsoft:FastGelu", {half, bias}), {1, 1}, {0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * 1.044715))});
  expect_near(run("com.microsoft:QuickGelu", {x}, {{"alpha", 2.0f}}), {1, 1}, {1 / (1 + std::exp(-2.0))});
}

}  // namespace
}  // namespace smelt::ops::test
