// What a trial's candidates read that a model has in no cache when it comes to their step.
#include "tune/trial.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "device/cpu/caches.h"
#include "ops/core/machine.h"
#include "support/chain.h"
#include "tune/problem_text.h"

namespace smelt::tune {
namespace {

int64_t bytes(const Trial::Runner& r) {
  return std::accumulate(r.cold.begin(), r.cold.end(), int64_t{0},
                         [](int64_t sum, auto part) { return sum + static_cast<int64_t>(part.size()); });
}

/// Of every candidate that can be prepared, by its names.
std::map<std::string, int64_t> cold_bytes(const ops::BoundNode& node, const ops::Machine& machine) {
  Trial trial(node, machine);
  std::map<std::string, int64_t> found;
  for (const ops::Candidate& c : ops::offer(node, machine).candidates)
    found[c.tactic + " " + c.config] = bytes(trial.runner(c.tactic, c.config));
  return found;
}

TEST(Trial, a_candidate_has_its_weights_as_it_reads_them_cold) {
  for (const auto& [text, weights] : {std::pair<const char*, int64_t>{"conv:f32:1x512x5x5,256x512x1x1:s1p0", 512 * 256 * 4},
                                      {"conv:f32:1x512x5x5,256x512x1x1:s1p0:nchw", 512 * 256 * 4},
                                      {"conv:f32:1x64x9x9,96x64x3x3:s1p1:nhwc:bias+relu", 64 * 96 * 9 * 4},
                                      {"conv:u8:1x256x7x7,256x256x1x1:s1p0", 256 * 256},
                                      {"gemm:f32:1x512x768:rrr:bias+relu", 512 * 768 * 4},
                                      {"gemm:f32:25x512x768:rcr", 512 * 768 * 4},
                                      {"gemm:u8:25x512x768", 512 * 768}}) {
    const ProblemText problem = parse_problem(text);
    for (const auto& [name, cold] : cold_bytes(problem.node.bound, ops::this_machine(2))) {
      EXPECT_GE(cold, weights) << text << " " << name;
      // Winograd's transformed weights are 5.4 times those of a window of 3 x 3 at most; beside them lie biases and scales.
      EXPECT_LE(cold, 6 * weights + (16 << 10)) << text << " " << name;
    }
  }
}

TEST(Trial, candidates_that_share_a_form_have_it_cold_alike) {
  const ProblemText problem = parse_problem("gemm:f32:25x512x768");
  const ops::Machine machine = ops::this_machine(1);
  Trial trial(problem.node.bound, machine);
  const ops::Offer offer = ops::offer(problem.node.bound, machine);
  for (const ops::Candidate& c : offer.candidates)
    EXPECT_EQ(bytes(trial.runner(c.tactic, c.config)), bytes(trial.runner(c.tactic, c.config))) << c.tactic << " " << c.config;
}

/// The same of op(x, y) = z, on one thread.
std::map<std::string, int64_t> cold_bytes(const std::string& op, ops::BoundTensor x, ops::BoundTensor y, ops::BoundTensor z) {
  Node node;
  node.op = op;
  node.inputs = {ValueId{0}, ValueId{1}};
  node.outputs = {ValueId{2}};
  ops::BoundNode bound;
  bound.node = &node;
  bound.inputs = {std::move(x), std::move(y)};
  bound.outputs = {std::move(z)};
  return cold_bytes(bound, ops::this_machine(1));
}

TEST(Trial, nothing_is_cold_of_less_than_a_page) {
  for (const auto& [columns, cold] : {std::pair<int64_t, int64_t>{1000, 0}, {2000, 8000}})
    for (const auto& [name, bytes] :
         cold_bytes("Add", tensor(DType::f32, {3, columns}), constant(random_constant(DType::f32, {columns}, 1)),
                    tensor(DType::f32, {3, columns})))
      EXPECT_EQ(bytes, cold) << name;
}

TEST(Trial, a_table_of_which_a_run_reads_some_rows_stays_where_it_is) {
  for (const auto& [name, cold] : cold_bytes("Gather", constant(random_constant(DType::f32, {1000, 64}, 1)),
                                             tensor(DType::i64, {3}), tensor(DType::f32, {3, 64})))
    EXPECT_EQ(cold, 0) << name;
}

#ifdef __x86_64__
TEST(Trial, a_sample_begins_with_its_weights_out_of_the_caches) {
  const Chain weights(1024);  // 64 KiB
  uint32_t seen = 0;
  const auto read = [&] { seen += weights.walk(); };
  const std::vector<Trial::Runner> runners = {{read, {weights.memory()}}, {read, {}}};
  const auto fastest = [&](bool cold, size_t which) {
    return summarize("", "", measure(runners, cold, {.repetitions = 40}, machine_stopwatch()).samples[which].us).min;
  };
  EXPECT_GT(fastest(true, 0), 2 * fastest(true, 1)) << "walks ended at " << seen;
  EXPECT_GT(fastest(true, 0), 2 * fastest(false, 0));
}
#endif

}  // namespace
}  // namespace smelt::tune
