#include "ops/one_node.h"

namespace smelt::ops::test {
namespace {

// One head of size 1: scores are q * k with scale 1.
const Tensor one_query = f32({1, 1, 1, 1}, {1});

TEST(Attention, weighs_values_by_the_softmax_of_the_scores) {
  const Tensor k = f32({1, 1, 2, 1}, {0, std::log(3.0f)}), v = f32({1, 1, 2, 2}, {4, 0, 8, 4});
  expect_near(run("Attention", {one_query, k, v}), {1, 1, 1, 2}, {7, 3});
}

TEST(Attention, a_causal_mask_hides_later_keys) {
  const Tensor q = f32({1, 1, 2, 1}, {1, 1}), k = f32({1, 1, 2, 1}, {0, 0}), v = f32({1, 1, 2, 1}, {2, 4});
  expect_near(run("Attention", {q, k, v}, {{"is_causal", int64_t{1}}}), {1, 1, 2, 1}, {2, 3});
}

TEST(Attention, a_row_without_any_key_is_zero_not_nan) {
  Tensor mask = Tensor::empty(DType::boolean, {1, 2});
  mask.data<bool>()[0] = mask.data<bool>()[1] = false;
  expect_near(run("Attention", {one_query, f32({1, 1, 2, 1}, {0, 0}), f32({1, 1, 2, 1}, {2, 4}), mask}), {1, 1, 1, 1}, {0});
}

TEST(Attention, a_float_mask_is_added) {
  const Tensor mask = f32({1, 2}, {0, std::log(3.0f)});
  expect_near(run("Attention", {one_query, f32({1, 1, 2, 1}, {0, 0}), f32({1, 1, 2, 1}, {4, 8}), mask}), {1, 1, 1, 1}, {7});
}

TEST(Attention, groups_of_query_heads_share_a_key_head) {
  const Tensor q = f32({1, 4, 1, 1}, {1, 1, 1, 1}), k = f32({1, 2, 1, 1}, {0, 0}), v = f32({1, 2, 1, 1}, {5, 7});
  expect_near(run("Attention", {q, k, v}), {1, 4, 1, 1}, {5, 5, 7, 7});
  expect_error("3 query heads and 2 key heads", [&] { run("Attention", {f32({1, 3, 1, 1}, {1, 1, 1}), k, v}); });
}

TEST(Attention, joins_the_cache_and_returns_it) {
  const auto y = run_all(
      "Attention",
      {one_query, f32({1, 1, 1, 1}, {0}), f32({1, 1, 1, 1}, {4}), Tensor(), f32({1, 1, 1, 1}, {0}), f32({1, 1, 1, 1}, {8})}, {},
      3);
  expect_near(y[0], {1, 1, 1, 1}, {6});
  expect_near(y[1], {1, 1, 2, 1}, {0, 0});
  expect_near(y[2], {1, 1, 2, 1}, {8, 4});
}

TEST(Attention, rank_three_keeps_heads_beside_each_other) {
  const Tensor q = f32({1, 1, 2}, {1, 1}), k = f32({1, 2, 2}, {0, 0, 0, std::log(3.0f)}), v = f32({1, 2, 2}, {2, 4, 4, 8});
  expect_near(run("Attention", {q, k, v}, {{"q_num_heads", int64_t{2}}, {"kv_num_heads", int64_t{2}}}), {1, 1, 2}, {3, 7});
}

TEST(Attention, refuses_tensors_that_do_not_fit_each_other) {
  const auto zeros = [](const Shape& s) { return s.empty() ? Tensor() : Tensor::zeros(DType::f32, s); };
  struct Case {
    Shape q, k, v, past_k, past_v;
  };
  const Case fits{{2, 4, 3, 8}, {2, 2, 5, 8}, {2, 2, 5, 6}, {2, 2, 7, 8}, {2, 2, 7, 6}};
  const auto run_case = [&](const Case& c) {
    return run_all("Attention", {zeros(c.q), zeros(c.k), zeros(c.v), Tensor(), zeros(c.past_k), zeros(c.past_v)}, {}, 3);
  };
  EXPECT_EQ(run_case(fits)[2].shape(), (Shape{2, 2, 12, 6}));
  for (Shape Case::*tensor : {&Case::q, &Case::k, &Case::v, &Case::past_k, &Case::past_v})
    for (size_t axis = 0; axis < 4; ++axis)
      for (const int64_t extent : {0, 1, 1000}) {
        Case c = fits;
        (c.*tensor)[axis] = extent;
        if (tensor == &Case::q && axis == 2) continue;                    // any number of queries
        if (tensor == &Case::q && axis == 1 && extent == 1000) continue;  // a multiple of the keys' heads
        EXPECT_NE(error_of([&] { run_case(c); }), "") << axis << " " << extent;
      }
  Case shorter = fits;
  shorter.past_v.clear();
  expect_error("past_key and past_value come together", [&] { run_case(shorter); });
}

TEST(Attention, refuses_a_stage_of_the_scores_that_there_is_not) {
  const auto scores = [](int64_t stage) {
    const Tensor one = f32({1, 1, 1, 1}, {1});
    return run_all("Attention", {one, one, one}, {{"qk_matmul_output_mode", stage}}, 4)[3].to_doubles();
  };
  EXPECT_EQ(scores(3), std::vector<double>{1});
  for (const int64_t stage : {int64_t{-1}, int64_t{4}, INT64_MAX}) expect_error("expected 0 to 3", [&] { scores(stage); });
}

TEST(Attention, has_a_length_for_each_item_of_the_batch) {
  const Tensor x = Tensor::zeros(DType::f32, {2, 1, 3, 4});
  const auto with = [&](const std::vector<int64_t>& lengths) {
    return run("Attention", {x, x, x, Tensor(), Tensor(), Tensor(), i64({static_cast<int64_t>(lengths.size())}, lengths)});
  };
  EXPECT_EQ(with({3, 1}).shape(), x.shape());
  EXPECT_EQ(with({INT64_MIN, INT64_MAX}).shape(), x.shape());
  expect_error("nonpad_kv_seqlen has shape [1], expected [2]", [&] { with({3}); });
}

TEST(Attention, a_window_bounds_how_far_a_query_sees) {
  const Tensor q = f32({1, 1, 3, 1}, {1, 1, 1}), k = f32({1, 1, 3, 1}, {0, 0, 0}), v = f32({1, 1, 3, 1}, {3, 6, 9});
  expect_near(run("Attention", {q, k, v}, {{"left_window_size", int64_t{1}}, {"right_window_size", int64_t{0}}}), {1, 1, 3, 1},
              {3, 4.5, 7.5});
}

TEST(Attention, softcap_bounds_the_scores_before_the_mask) {
  const auto y = run_all("Attention", {f32({1, 1, 1, 1}, {100}), f32({1, 1, 1, 1}, {1}), f32({1, 1, 1, 1}, {1})},
                         {{"softcap", 2.0f}, {"qk_matmul_output_mode", int64_t{1}}}, 4);
  expect_near(y[3], {1, 1, 1, 1}, {2});
}

TEST(RotaryEmbedding, rotates_halves_by_the_positions_angle) {
  const Tensor x = f32({1, 1, 2, 2}, {1, 0, 1, 0}), cos = f32({3, 1}, {1, 0, -1}), sin = f32({3, 1}, {0, 1, 0});
  expect_near(run("RotaryEmbedding", {x, cos, sin, i64({1, 2}, {1, 2})}), {1, 1, 2, 2}, {0, 1, -1, 0});
}

/// Known before a kernel is chosen, which does not look again.
TEST(RotaryEmbedding, refuses_caches_and_positions_of_other_extents) {
  const Node n = make_node("RotaryEmbedding", 4);
  const auto said = [&](const Shape& sine, const Shape& positions) {
    const std::vector<TensorDesc> in{
        {DType::f32, {1, 1, 3, 4}, true}, {DType::f32, {8, 2}, true}, {DType::f32, sine, true}, {DType::i64, positions, true}};
    std::vector<TensorDesc> out(1);
    return error_of([&] { infer(n, in, out); });
  };
  EXPECT_EQ(said({8, 2}, {1, 3}), "");
  EXPECT_THAT(said({4, 2}, {1, 3}), testing::HasSubstr("the sine cache has shape [4, 2], the cosine cache [8, 2]"));
  EXPECT_THAT(said({8, 2}, {1, 2}), testing::HasSubstr("2 positions, expected 3"));
}

TEST(RotaryEmbedding, interleaved_pairs_neighbours_and_leaves_the_rest_alone) {
  const Tensor x = f32({1, 1, 6}, {1, 2, 3, 4, 5, 6}), cos = f32({1, 1, 2}, {0, 0}), sin = f32({1, 1, 2}, {1, 1});
  expect_near(run("RotaryEmbedding", {x, cos, sin},
                  {{"interleaved", int64_t{1}}, {"rotary_embedding_dim", int64_t{4}}, {"num_heads", int64_t{1}}}),
              {1, 1, 6}, {-2, 1, -4, 3, 5, 6});
}

TEST(RotaryEmbedding, of_onnx_runtime_has_positions_second_and_may_start_at_an_offset) {
  const Tensor x = f32({1, 2, 2}, {1, 0, 1, 0}), cos = f32({3, 1}, {1, 0, -1}), sin = f32({3, 1}, {0, 1, 0});
  expect_near(run("com.microsoft:RotaryEmbedding", {x, i64({1}, {1}), cos, sin}), {1, 2, 2}, {0, 1, -1, 0});
  expect_error("position 3", [&] { run("com.microsoft:RotaryEmbedding", {x, i64({1}, {2}), cos, sin}); });
}

}  // namespace
}  // namespace smelt::ops::test
