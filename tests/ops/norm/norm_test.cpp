#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

TEST(BatchNormalization, uses_the_given_statistics) {
  const Tensor x = f32({1, 2, 2}, {1, 2, 3, 4});
  expect_near(
      run("BatchNormalization", {x, f32({2}, {1, 2}), f32({2}, {0, 1}), f32({2}, {1, 3}), f32({2}, {4, 1})}, {{"epsilon", 0.0f}}),
      {1, 2, 2}, {0, 0.5, 1, 3});
}

TEST(BatchNormalization, training_uses_the_batch_and_updates_the_running_statistics) {
  const Tensor x = f32({2, 1, 1}, {1, 3});
  const auto y = run_all("BatchNormalization", {x, f32({1}, {1}), f32({1}, {0}), f32({1}, {10}), f32({1}, {5})},
                         {{"epsilon", 0.0f}, {"momentum", 0.5f}, {"training_mode", int64_t{1}}}, 3);
  expect_near(y[0], {2, 1, 1}, {-1, 1});
  expect_near(y[1], {1}, {6});
  expect_near(y[2], {1}, {3});
}

TEST(InstanceNormalization, normalises_each_plane) {
  expect_near(
      run("InstanceNormalization", {f32({1, 2, 2}, {1, 3, 10, 30}), f32({2}, {1, 2}), f32({2}, {0, 5})}, {{"epsilon", 0.0f}}),
      {1, 2, 2}, {-1, 1, 3, 7});
}

TEST(GroupNormalization, normalises_groups_of_channels_and_scales_each_channel) {
  expect_near(run("GroupNormalization", {f32({1, 4, 1}, {1, 3, 10, 30}), f32({4}, {1, 2, 3, 4}), f32({4}, {0, 0, 0, 1})},
                  {{"num_groups", int64_t{2}}, {"epsilon", 0.0f}}),
              {1, 4, 1}, {-1, 2, -3, 5});
  expect_error("num_groups 3", [] {
    run("GroupNormalization", {Tensor::zeros(DType::f32, {1, 4, 1}), f32({4}, {1, 1, 1, 1}), f32({4}, {1, 1, 1, 1})},
        {{"num_groups", int64_t{3}}});
  });
}

TEST(LayerNormalization, gives_mean_and_inverse_deviation_too) {
  const auto y =
      run_all("LayerNormalization", {f32({2, 2}, {1, 3, 4, 8}), f32({2}, {1, 10}), f32({2}, {0, 1})}, {{"epsilon", 0.0f}}, 3);
  expect_near(y[0], {2, 2}, {-1, 11, -1, 11});
  expect_near(y[1], {2, 1}, {2, 6});
  expect_near(y[2], {2, 1}, {1, 0.5});
}

TEST(LayerNormalization, keeps_statistics_in_float_for_half_inputs) {
  const auto y =
      run_all("LayerNormalization", {f32({1, 2}, {1, 3}).cast(DType::bf16), f32({2}, {1, 1}).cast(DType::bf16)}, {}, 3);
  EXPECT_EQ(y[0].type(), DType::bf16);
  EXPECT_EQ(y[1].type(), DType::f32);
}

TEST(LayerNormalization, the_mean_and_the_deviation_of_no_elements_are_written) {
  const auto y = run_all("LayerNormalization", {f32({2, 3, 0}, {}), f32({0}, {})}, {}, 3);
  EXPECT_EQ(y[0].shape(), (Shape{2, 3, 0}));
  for (const Tensor& t : {y[1], y[2]}) {
    EXPECT_EQ(t.shape(), (Shape{2, 3, 1}));
    for (const double v : t.to_doubles()) EXPECT_TRUE(std::isnan(v)) << v;
  }
}

TEST(RMSNormalization, divides_by_the_root_mean_square) {
  expect_near(run("RMSNormalization", {f32({1, 2}, {3, 4}), f32({2}, {1, 2})}, {{"epsilon", 0.0f}}), {1, 2},
              {3 / std::sqrt(12.5), 8 / std::sqrt(12.5)});
}

TEST(SkipLayerNormalization, adds_before_it_normalises_and_returns_the_sum) {
  const auto y = run_all("com.microsoft:SkipLayerNormalization",
                         {f32({1, 1, 2}, {0, 1}), f32({1, 1, 2}, {1, 1}), f32({2}, {1, 1}), f32({2}, {0, 5}), f32({2}, {0, 1})},
                         {{"epsilon", 0.0f}}, 4);
  expect_near(y[0], {1, 1, 2}, {-1, 6});
  expect_near(y[3], {1, 1, 2}, {1, 3});
}

TEST(SkipSimplifiedLayerNormalization, has_its_bias_at_input_three) {
  const auto y = run_all("com.microsoft:SkipSimplifiedLayerNormalization",
                         {f32({1, 2}, {1, 1}), f32({1, 2}, {1, 2}), f32({2}, {1, 1}), f32({2}, {1, 1})}, {{"epsilon", 0.0f}}, 4);
  expect_near(y[0], {1, 2}, {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)});
  expect_near(y[3], {1, 2}, {3, 4});
}

TEST(LRN, sums_squares_of_neighbouring_channels) {
  expect_near(run("LRN", {f32({1, 3, 1}, {1, 2, 3})}, {{"size", int64_t{3}}, {"alpha", 3.0f}, {"beta", 1.0f}, {"bias", 1.0f}}),
              {1, 3, 1}, {1.0 / 6, 2.0 / 15, 3.0 / 14});
}

TEST(LpNormalization, leaves_a_zero_line_zero) {
  expect_near(run("LpNormalization", {f32({2, 2}, {3, 4, 0, 0})}), {2, 2}, {0.6, 0.8, 0, 0});
  expect_near(run("LpNormalization", {f32({2, 2}, {1, 4, 3, 4})}, {{"p", int64_t{1}}, {"axis", int64_t{0}}}), {2, 2},
              {0.25, 0.5, 0.75, 0.5});
}

TEST(MeanVarianceNormalization, normalises_over_its_axes) {
  expect_near(run("MeanVarianceNormalization", {f32({1, 2, 1, 2}, {1, 3, 10, 30})}), {1, 2, 1, 2}, {-1, 1, -1, 1});
}

TEST(Softmax, is_stable_far_from_zero) {
  expect_near(run("Softmax", {f32({1, 2}, {10000, 10000})}), {1, 2}, {0.5, 0.5});
  expect_near(run("Softmax", {f32({1, 2}, {1e30f, 1e30f})}), {1, 2}, {0.5, 0.5});
}

TEST(Softmax, follows_its_axis) {
  const double a = 1 / (1 + std::exp(2.0));
  expect_near(run("Softmax", {f32({2, 2}, {0, 0, 2, 2})}, {{"axis", int64_t{0}}}), {2, 2}, {a, a, 1 - a, 1 - a});
}

TEST(Softmax, before_opset_13_normalises_all_axes_from_the_given_one) {
  expect_near(run("Softmax", {Tensor::zeros(DType::f32, {1, 2, 2})}, {}, 11), {1, 2, 2}, {0.25, 0.25, 0.25, 0.25});
  expect_near(run("Softmax", {Tensor::zeros(DType::f32, {1, 2, 2})}, {}, 13), {1, 2, 2}, {0.5, 0.5, 0.5, 0.5});
}

TEST(LogSoftmax, is_the_log_of_softmax) {
  expect_near(run("LogSoftmax", {f32({1, 2}, {0, 0})}), {1, 2}, {std::log(0.5), std::log(0.5)});
}

TEST(NegativeLogLikelihoodLoss, averages_by_weight_and_skips_the_ignored_label) {
  const Tensor x = f32({3, 2}, {-1, -2, -3, -4, -5, -6}), labels = i64({3}, {0, 1, 9}), weights = f32({2}, {1, 3});
  expect_near(run("NegativeLogLikelihoodLoss", {x, labels, weights}, {{"ignore_index", int64_t{9}}}), {}, {(1 + 12) / 4.0});
  expect_near(run("NegativeLogLikelihoodLoss", {x, labels}, {{"ignore_index", int64_t{9}}, {"reduction", std::string("none")}}),
              {3}, {1, 4, 0});
  expect_error("label 9 is outside", [&] { run("NegativeLogLikelihoodLoss", {x, labels}); });
}

TEST(SoftmaxCrossEntropyLoss, returns_the_log_probabilities) {
  const auto y = run_all("SoftmaxCrossEntropyLoss", {f32({1, 2}, {0, 0}), i64({1}, {1})}, {}, 2);
  expect_near(y[0], {}, {std::log(2.0)});
  expect_near(y[1], {1, 2}, {-std::log(2.0), -std::log(2.0)});
}

}  // namespace
}  // namespace smelt::ops::test
