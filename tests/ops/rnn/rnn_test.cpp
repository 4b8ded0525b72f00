#include "ops/one_node.h"
#include "ops/pointwise/named_activation.h"

namespace smelt::ops::test {
namespace {

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

// One unit, one input: W = 1, R = 0.5 in every gate unless a test says otherwise.
Tensor gates(int64_t directions, int64_t n, float value) {
  return f32({directions, n, 1}, std::vector<float>(static_cast<size_t>(directions * n), value));
}

TEST(RNN, carries_its_state_forward) {
  const Tensor x = f32({2, 1, 1}, {1, 2});
  const auto y = run_all("RNN", {x, gates(1, 1, 1), gates(1, 1, 0.5f), f32({1, 2}, {0.25f, 0.25f})}, {}, 2);
  const double h1 = std::tanh(1.5), h2 = std::tanh(2.5 + 0.5 * h1);
  expect_near(y[0], {2, 1, 1, 1}, {h1, h2});
  expect_near(y[1], {1, 1, 1}, {h2});
}

TEST(RNN, reverse_starts_at_each_items_own_end) {
  const Tensor x = f32({3, 2, 1}, {1, 1, 2, 2, 9, 4}), lengths = i32({2}, {2, 3});
  const auto y = run_all("RNN", {x, gates(1, 1, 1), gates(1, 1, 1), Tensor(), lengths},
                         {{"direction", std::string("reverse")}, {"activations", std::vector<std::string>{"Affine"}}}, 2);
  // Affine with its defaults is the identity: sums from the end; nothing behind item 0's two steps.
  expect_near(y[0], {3, 1, 2, 1}, {3, 7, 2, 6, 0, 4});
  expect_near(y[1], {1, 2, 1}, {3, 7});
}

TEST(RNN, bidirectional_runs_both_ways_and_layout_1_puts_the_batch_first) {
  const Tensor x = f32({1, 2, 1}, {1, 2});
  const auto y = run_all("RNN", {x, gates(2, 1, 1), gates(2, 1, 1)},
                         {{"direction", std::string("bidirectional")},
                          {"layout", int64_t{1}},
                          {"activations", std::vector<std::string>{"Affine", "Affine"}}},
                         2);
  expect_near(y[0], {1, 2, 2, 1}, {1, 3, 3, 2});
  expect_near(y[1], {1, 2, 1}, {3, 3});
}

TEST(RNN, clips_what_enters_the_activation) {
  expect_near(run_all("RNN", {f32({1, 1, 1}, {9}), gates(1, 1, 1), gates(1, 1, 1)},
                      {{"clip", 2.0f}, {"activations", std::vector<std::string>{"Affine"}}}, 2)[0],
              {1, 1, 1, 1}, {2});
}

TEST(RNN, names_a_weight_of_the_wrong_shape) {
  expect_error("W has shape [1, 1, 1], expected [1, 1, 2]", [] {
    run("RNN", {f32({1, 1, 2}, {1, 1}), gates(1, 1, 1), gates(1, 1, 1)});
  });
  expect_error("direction is 'up'", [] {
    run("RNN", {f32({1, 1, 1}, {1}), gates(1, 1, 1), gates(1, 1, 1)}, {{"direction", std::string("up")}});
  });
}

TEST(GRU, mixes_the_old_state_with_the_new) {
  const Tensor x = f32({1, 1, 1}, {1}), h0 = f32({1, 1, 1}, {2});
  const double z = sigmoid(1 + 0.5 * 2), r = z;
  const double candidate = std::tanh(1 + 0.5 * (r * 2));
  expect_near(run("GRU", {x, gates(1, 3, 1), gates(1, 3, 0.5f), Tensor(), Tensor(), h0}), {1, 1, 1, 1},
              {(1 - z) * candidate + z * 2});
}

TEST(GRU, linear_before_reset_scales_the_recurrent_bias_too) {
  const Tensor x = f32({1, 1, 1}, {1}), h0 = f32({1, 1, 1}, {2}), bias = f32({1, 6}, {0, 0, 0, 0, 0, 3});
  const double z = sigmoid(2), candidate = std::tanh(1 + z * (0.5 * 2 + 3));
  expect_near(run("GRU", {x, gates(1, 3, 1), gates(1, 3, 0.5f), bias, Tensor(), h0}, {{"linear_before_reset", int64_t{1}}}),
              {1, 1, 1, 1}, {(1 - z) * candidate + z * 2});
}

TEST(LSTM, keeps_a_cell_beside_its_state) {
  const auto y = run_all("LSTM", {f32({2, 1, 1}, {1, 1}), gates(1, 4, 1), gates(1, 4, 0.5f)}, {}, 3);
  const double c1 = sigmoid(1) * std::tanh(1.0), h1 = sigmoid(1) * std::tanh(c1);
  const double a = 1 + 0.5 * h1, c2 = sigmoid(a) * c1 + sigmoid(a) * std::tanh(a), h2 = sigmoid(a) * std::tanh(c2);
  expect_near(y[0], {2, 1, 1, 1}, {h1, h2});
  expect_near(y[1], {1, 1, 1}, {h2});
  expect_near(y[2], {1, 1, 1}, {c2});
}

TEST(LSTM, peepholes_see_the_cell_and_the_output_gate_the_new_one) {
  const Tensor zero = gates(1, 4, 0);
  const auto y = run_all(
      "LSTM", {f32({1, 1, 1}, {0}), zero, zero, Tensor(), Tensor(), Tensor(), f32({1, 1, 1}, {2}), f32({1, 3}, {1, 2, 3})}, {},
      3);
  const double c = sigmoid(3 * 2) * 2;  // forget gate; the candidate is tanh(0)
  expect_near(y[2], {1, 1, 1}, {c});
  expect_near(y[1], {1, 1, 1}, {sigmoid(2 * c) * std::tanh(c)});
}

TEST(LSTM, coupled_gates_forget_what_they_do_not_take_in) {
  const auto y =
      run_all("LSTM", {f32({1, 1, 1}, {1}), gates(1, 4, 1), gates(1, 4, 0), Tensor(), Tensor(), Tensor(), f32({1, 1, 1}, {2})},
              {{"input_forget", int64_t{1}}}, 3);
  expect_near(y[2], {1, 1, 1}, {(1 - sigmoid(1)) * 2 + sigmoid(1) * std::tanh(1.0)});
}

TEST(Activation, takes_parameters_in_order_only_where_a_function_has_them) {
  Node n = make_node(
      "RNN", 1, {{"activations", std::vector<std::string>{"tanh", "LeakyRelu"}}, {"activation_alpha", std::vector<float>{0.5f}}});
  const auto f = recurrent_activations(n, {"Tanh"}, 2);
  EXPECT_DOUBLE_EQ(f[0](1), std::tanh(1.0));
  EXPECT_DOUBLE_EQ(f[1](-2), -1);
}

}  // namespace
}  // namespace smelt::ops::test
