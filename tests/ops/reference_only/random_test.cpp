#include <numeric>

#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

double mean(const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()); }
double deviation(const std::vector<double>& v) {
  const double m = mean(v);
  double sum = 0;
  for (double x : v) sum += (x - m) * (x - m);
  return std::sqrt(sum / static_cast<double>(v.size()));
}

TEST(Random, a_seed_gives_the_same_numbers_and_none_gives_others) {
  const Attributes seeded{{"shape", Ints{8}}, {"seed", 3.0f}}, fresh{{"shape", Ints{8}}};
  EXPECT_EQ(run("RandomUniform", {}, seeded).to_doubles(), run("RandomUniform", {}, seeded).to_doubles());
  EXPECT_NE(run("RandomUniform", {}, fresh).to_doubles(), run("RandomUniform", {}, fresh).to_doubles());
  EXPECT_FALSE(find("RandomUniform", "")->deterministic);
}

TEST(Random, normal_and_uniform_have_their_moments) {
  const std::vector<double> n =
      run("RandomNormal", {}, {{"shape", Ints{20000}}, {"mean", 3.0f}, {"scale", 2.0f}, {"seed", 1.0f}}).to_doubles();
  EXPECT_NEAR(mean(n), 3, 0.06);
  EXPECT_NEAR(deviation(n), 2, 0.05);
  const std::vector<double> u =
      run("RandomUniformLike", {Tensor::zeros(DType::f32, {20000})}, {{"low", -1.0f}, {"high", 1.0f}, {"seed", 1.0f}})
          .to_doubles();
  EXPECT_NEAR(mean(u), 0, 0.02);
  EXPECT_NEAR(deviation(u), std::sqrt(1 / 3.0), 0.01);
}

TEST(Bernoulli, draws_ones_as_often_as_its_input_says) {
  Tensor p = Tensor::empty(DType::f32, {10000});
  for (float& v : p.span<float>()) v = 0.25f;
  EXPECT_NEAR(mean(run("Bernoulli", {p}, {{"seed", 5.0f}}).to_doubles()), 0.25, 0.02);
}

TEST(Multinomial, draws_each_class_by_its_log_probability) {
  const Tensor y =
      run("Multinomial", {f32({1, 3}, {0, -1000, std::log(3.0f)})}, {{"sample_size", int64_t{10000}}, {"seed", 5.0f}});
  EXPECT_EQ(y.type(), DType::i32);
  EXPECT_NEAR(mean(y.to_doubles()), 1.5, 0.03);  // classes 0 and 2 with 1/4 and 3/4
}

TEST(Dropout, passes_through_in_inference_and_scales_what_it_keeps_in_training) {
  const Tensor x = ramp({1000}, 1, 0);
  const auto inference = run_all("Dropout", {x, f32({}, {0.5f})}, {}, 2);
  EXPECT_EQ(mean(inference[0].to_doubles()), 1);
  EXPECT_EQ(mean(inference[1].to_doubles()), 1);
  Tensor on = Tensor::empty(DType::boolean, {});
  *on.data<bool>() = true;
  const auto training = run_all("Dropout", {x, f32({}, {0.75f}), on}, {{"seed", int64_t{4}}}, 2);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(training[0].data<float>()[i], training[1].data<bool>()[i] ? 4.0f : 0.0f);
  EXPECT_NEAR(mean(training[1].to_doubles()), 0.25, 0.05);
}

}  // namespace
}  // namespace smelt::ops::test
