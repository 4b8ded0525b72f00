// Which of cuDNN's engines may be taken, by the notes that they carry.
#include <gtest/gtest.h>

#include <set>

#include "device/cuda/cudnn_graph.h"

namespace smelt::device::cuda {
namespace {

TEST(DnnRules, of_their_own_take_tensor_cores_and_results_that_are_always_the_same) {
  EXPECT_TRUE(allows({}, {}));
  EXPECT_TRUE(allows({}, {{abi::dnn_uses_tensor_cores, abi::dnn_winograd}, {abi::dnn_compiles}}));
  EXPECT_FALSE(allows({}, {{abi::dnn_uses_tensor_cores, abi::dnn_not_deterministic}, {}}));
}

TEST(DnnRules, take_what_differs_from_run_to_run_where_it_is_asked_for) {
  EXPECT_TRUE(allows({.deterministic = false}, {{abi::dnn_not_deterministic}, {}}));
  const DnnNotes both{{abi::dnn_not_deterministic, abi::dnn_uses_tensor_cores}, {}};
  EXPECT_TRUE(allows({.deterministic = false}, both));
  EXPECT_FALSE(allows({.tensor_cores = false, .deterministic = false}, both));
}

TEST(DnnRules, for_exact_floats_take_no_tensor_cores) {
  EXPECT_FALSE(allows({.tensor_cores = false}, {{abi::dnn_uses_tensor_cores}, {}}));
  EXPECT_TRUE(allows({.tensor_cores = false}, {}));
}

TEST(DnnRules, never_take_what_rounds_more_or_wants_other_weights) {
  const DnnRules any{.tensor_cores = true, .deterministic = false};
  for (const auto n : {abi::dnn_rounds_inputs, abi::dnn_rounds_sums, abi::dnn_uses_fft}) EXPECT_FALSE(allows(any, {{n}, {}}));
  for (const auto b : {abi::dnn_wants_reordered_weights, abi::dnn_wants_reordered_bias}) EXPECT_FALSE(allows(any, {{}, {b}}));
}

TEST(DnnRules, are_told_apart_in_keys) {
  std::set<std::string> keys;
  for (const bool tensor_cores : {false, true})
    for (const bool deterministic : {false, true}) keys.insert(print({tensor_cores, deterministic}));
  EXPECT_EQ(keys.size(), 4u);
}

}  // namespace
}  // namespace smelt::device::cuda
