// What limits a step, by its work and the machine's roof; what to do about it; what other work took.
#include "profile/limiter.h"

#include <gtest/gtest.h>

#include "profile/advice.h"
#include "profile/bench.h"
#include "profile/fill.h"
#include "profile/others.h"

namespace smelt::profile {
namespace {

/// 20 GB/s, 200 GFLOP/s in f32, 800 in bf16, 2 µs to start a step.
Roof roof() {
  Roof r;
  r.bytes_per_s = 20e9;
  r.launch_us = 2;
  r.flops_per_s = {{DType::f32, 200e9}, {DType::bf16, 800e9}};
  return r;
}

StepRow step(const std::string& op, int64_t bytes, int64_t flops, double us, double least_us = 0) {
  StepRow row;
  row.step.name = op + "_0", row.step.op = op, row.step.bytes = bytes, row.step.flops = flops;
  row.step.problem = "p:f32>f32:1", row.step.tactic = "own";
  row.us.median = us, row.us.min = least_us > 0 ? least_us : us;
  judge(row, roof());
  return row;
}

TEST(Limiter, of_a_large_product_is_compute) {
  const StepRow row = step("MatMul", 12 << 20, 2ll << 30, 14000);
  EXPECT_EQ(row.limiter, Limiter::compute);
  EXPECT_NEAR(row.compute_us, 10737, 1);
  EXPECT_NEAR(row.roof_share, 0.767, 0.001);
  EXPECT_NEAR(row.at_stake_us, 14000 - 10737, 1);
  EXPECT_NEAR(row.intensity(), 170.7, 0.1);
}

TEST(Limiter, of_a_large_sum_of_tensors_is_memory) {
  const StepRow row = step("Add", 96 << 20, 8 << 20, 7000);
  EXPECT_EQ(row.limiter, Limiter::memory);
  EXPECT_NE(row.because.find("72% of the memory's roof"), std::string::npos) << row.because;
}

TEST(Limiter, of_a_copy_that_uses_parts_of_lines_is_memory_though_the_roof_is_far) {
  EXPECT_EQ(step("Transpose", 128 << 20, 0, 60000).limiter, Limiter::memory);
  EXPECT_EQ(step("LSTM", 1 << 20, 0, 60000).limiter, Limiter::latency) << "not one that only moves elements";
}

TEST(Limiter, of_a_chain_is_latency) { EXPECT_EQ(step("LSTM", 1 << 20, 10 << 20, 9000).limiter, Limiter::latency); }

TEST(Limiter, of_a_step_smaller_than_its_start_is_launch_unless_it_takes_many_starts) {
  EXPECT_EQ(step("Add", 64, 4, 0.4).limiter, Limiter::launch);
  EXPECT_EQ(step("Add", 64, 4, 9).limiter, Limiter::launch);
  EXPECT_EQ(step("CumSum", 64, 4, 300).limiter, Limiter::latency);
}

TEST(Limiter, is_decided_by_the_run_that_other_work_left_alone) {
  EXPECT_EQ(step("MatMul", 12 << 20, 2ll << 30, 60000, 13000).limiter, Limiter::compute);
  EXPECT_EQ(step("MatMul", 12 << 20, 2ll << 30, 60000).limiter, Limiter::latency);
  EXPECT_EQ(step("Add", 64, 4, 40, 1).limiter, Limiter::launch);
}

TEST(Limiter, is_decided_without_the_time_that_threads_waited_where_every_run_was_disturbed) {
  StepRow row = step("MatMul", 12 << 20, 2ll << 30, 120000);
  EXPECT_EQ(row.limiter, Limiter::latency);
  row.alone_us = 120000 * own_part({.waited_ns = 208'000'000}, 120000, 2);
  EXPECT_NEAR(row.alone_us, 16000, 1);
  judge(row, roof());
  EXPECT_EQ(row.limiter, Limiter::compute);
}

TEST(ComputesIn, is_the_type_that_a_problem_names_whatever_its_form) {
  const auto of = [](const char* problem, std::vector<std::string> outputs = {}) {
    StepInfo s;
    s.problem = problem, s.output_shapes = std::move(outputs);
    return computes_in(s);
  };
  EXPECT_EQ(of("conv:f16>f16:1x64x56x56,256x64x1x1:s1p0:plain:(in0:f32) { %1 = cast(in0):f16; return %1; }"), DType::f16);
  EXPECT_EQ(of("gemm:i8>i32:8x8x8:rrr"), DType::i8);
  EXPECT_EQ(of("Add:f16[8,384,768],f16[8,384,768]>f16[8,384,768]"), DType::f16);
  EXPECT_EQ(of("Softmax:axis=-1:bf16[4,16]>bf16[4,16]"), DType::bf16);
  EXPECT_EQ(of("Where:bool[8,384],f16[],f16[8,384]>f16[8,384]"), DType::f16);
  EXPECT_EQ(of("Gather:axis=0:f16[32000,512],i64[4,1024]>f16[4,1024,512]"), DType::f16);
  EXPECT_EQ(of("ai.smelt.Attention:scale=0.17", {"bf16[4, 16, 1024, 32]"}), DType::bf16);
  EXPECT_EQ(of("Shape:i64[4]"), DType::f32) << "nothing says a float";
}

TEST(Limiter, is_unknown_without_a_roof) {
  StepRow row;
  row.step.bytes = 1 << 20, row.us.median = row.us.min = 10;
  judge(row, {});
  EXPECT_EQ(row.limiter, Limiter::unknown);
  EXPECT_EQ(row.because, "");
  EXPECT_EQ(row.at_stake_us, 0);
}

Profile profile_of(std::vector<StepRow> steps) {
  Profile p;
  p.roof = roof();
  for (StepRow& s : steps) {
    p.latency_us.median += s.us.median;
    p.steps.push_back(std::move(s));
  }
  return p;
}

const Advice* advice_with(const std::vector<Advice>& all, const std::string& text) {
  for (const Advice& a : all)
    if (a.what.find(text) != std::string::npos) return &a;
  return nullptr;
}

TEST(Advice, names_the_narrower_type_with_what_its_rate_saves) {
  const Profile p = profile_of({step("MatMul", 12 << 20, 2ll << 30, 12000), step("Add", 96 << 20, 8 << 20, 6000)});
  const auto all = advise(p, {.threads = 2, .cores = 2});
  const Advice* bf16 = advice_with(all, "--precision bf16");
  ASSERT_TRUE(bf16);
  // A quarter of the product's time stays; of the sum's, half of what its bytes must take.
  EXPECT_NEAR(bf16->us, 12000 * 0.75 + 5033 / 2.0, 2);
  EXPECT_EQ(bf16->steps, (std::vector<std::string>{"MatMul_0", "Add_0"}));
  EXPECT_EQ(&all.front(), bf16) << "the most to win comes first";
}

TEST(Advice, has_none_for_a_type_that_is_no_faster) {
  Profile p = profile_of({step("MatMul", 12 << 20, 2ll << 30, 12000)});
  p.roof.flops_per_s[DType::bf16] = 210e9;
  EXPECT_FALSE(advice_with(advise(p, {.threads = 2, .cores = 2}), "--precision"));
}

TEST(Advice, counts_tiny_steps_copies_references_and_idle_cores) {
  StepRow loops = step("Foo", 1 << 20, 1 << 20, 5000);
  loops.step.tactic = "reference";
  const Profile p = profile_of({step("Add", 64, 4, 3), step("Mul", 64, 4, 4), step("Transpose", 64 << 20, 0, 4000),
                                step("MatMul", 12 << 20, 2ll << 30, 12000), loops});
  std::vector<Advice> all = advise(p, {.threads = 1, .cores = 2});
  EXPECT_NEAR(advice_with(all, "--threads 2")->us, 6000, 1);
  EXPECT_NEAR(advice_with(all, "without copies")->us, 4000, 1);
  EXPECT_NEAR(advice_with(all, "plain loops")->us, 5000 - 52 / 0.8, 1);
  EXPECT_FALSE(advice_with(all, "tiny steps")) << "less than half a percent of a run";
  const auto key = [](const Advice& a) { return std::pair(a.from != "roof", a.us); };
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(key(all[i - 1]), key(all[i])) << "what is promised, then what bounds";
  EXPECT_TRUE(advice_with(advise(profile_of({step("Add", 64, 4, 3), step("Mul", 64, 4, 4)}), {}), "tiny steps"));
}

TEST(Advice, on_a_gpu_is_tf32_too_where_products_are_in_f32) {
  StepRow product = step("MatMul", 12 << 20, 2ll << 30, 12000);
  StepRow sum = step("Add", 96 << 20, 8 << 20, 6000);
  product.step.problem = "gemm:f32>f32:1024x1024x1024:rrr", sum.step.problem = "Add:f32[8],f32[8]>f32[8]";
  Profile p = profile_of({product, sum});
  p.roof.flops_per_s[DType::f16] = 800e9;
  const auto all = advise(p, {.on_gpu = true, .tuning_level = 1});
  ASSERT_TRUE(advice_with(all, "--precision tf32"));
  EXPECT_NEAR(advice_with(all, "--precision tf32")->us, 6000, 1) << "the product at half the rate of 16 bits; the sum stays";
  EXPECT_EQ(advice_with(all, "--precision tf32")->option, "--precision tf32");
  EXPECT_FALSE(advice_with(advise(p, {.on_gpu = false, .tuning_level = 1}), "tf32"));
}

TEST(Advice, of_copies_is_told_from_runs_that_are_neighbours) {
  CopiedRuns t;  // the machine becomes slower by 1 us a run; copies take 10, in one round 60; other work takes 40 of most runs
  for (int round = 0; round < 9; ++round) {
    const double copies = round == 4 ? 60 : 10;
    for (int i = 0; i < 5; ++i) t.host_us.push_back(1000 + 10 * round + i + copies + (i % 2 ? 0 : 40));
    for (int i = 5; i < 10; ++i) t.there_us.push_back(1000 + 10 * round + i);
  }
  EXPECT_NEAR(t.saved_us(), 6, 1e-9) << "the fastest runs of a round are four apart";
}

TEST(Advice, of_copies_is_what_runs_without_them_take_less) {
  Profile p = profile_of({step("MatMul", 12 << 20, 2ll << 30, 12000)});
  p.host_latency_us.median = 40000, p.device_latency_us = 12500;
  p.advice = {{"a bound", "", 11000, "roof", {}}, {"a promise", "", 100, "model", {}}};
  advise_on_copies(p);
  EXPECT_EQ(p.advice.size(), 2u) << "nothing is copied";
  p.copies.push_back({.name = "x"});
  advise_on_copies(p);
  ASSERT_EQ(p.advice.size(), 2u) << "the promise is less than half a percent of a run";
  EXPECT_EQ(p.advice[0].us, 27500) << "more than a run on the GPU takes";
  EXPECT_EQ(p.advice[1].what, "a bound") << "behind what is promised";
}

TEST(Advice, is_to_measure_kernels_only_where_estimates_chose_them) {
  const Profile p = profile_of({step("MatMul", 12 << 20, 2ll << 30, 20000), step("Add", 96 << 20, 8 << 20, 9000)});
  EXPECT_TRUE(advice_with(advise(p, {.tuning_level = 0}), "--tuning-level 1"));
  const auto tuned = advise(p, {.tuning_level = 1});
  EXPECT_FALSE(advice_with(tuned, "--tuning-level"));
  EXPECT_NEAR(advice_with(tuned, "do less arithmetic")->us, 20000 - 10737 / 0.8, 1);
  EXPECT_EQ(advice_with(tuned, "do less arithmetic")->from, "roof");
  EXPECT_TRUE(advice_with(tuned, "move fewer bytes"));
}

TEST(Advice, of_steps_leaves_out_what_other_work_took_of_them) {
  Profile p = profile_of({step("LSTM", 1 << 20, 10 << 20, 9000)});
  EXPECT_NEAR(advice_with(advise(p, {}), "independent work")->us, 9000 - 66, 1);
  p.steps[0].alone_us = 3000;
  EXPECT_NEAR(advice_with(advise(p, {}), "independent work")->us, 3000 - 66, 1);
  judge(p.steps[0], roof());
  EXPECT_NEAR(p.steps[0].at_stake_us, 3000 - 52, 1);
}

TEST(Advice, saves_no_more_than_a_run_takes) {
  Profile p = profile_of({step("MatMul", 12 << 20, 2ll << 30, 12000)});
  p.steps_us = 12000, p.latency_us.median = 12500, p.gaps_us = 3000;
  EXPECT_NEAR(advice_with(advise(p, {}), "fewer, larger steps")->us, 500, 1e-6) << "taking the times made the gaps longer";
  p.others.cost_us = 400;
  EXPECT_NEAR(advice_with(advise(p, {}), "fewer, larger steps")->us, 100, 1e-6);
  std::vector<Advice> all{{.what = "fuse", .us = 20000}};
  rank(all, p.latency_us.median);
  EXPECT_EQ(all[0].us, 12500);
}

WatchedRun run(double us, int64_t waited_ns) { return {us, 1, {.waited_ns = waited_ns}, waited_ns > 0}; }

TEST(OtherWork, costs_what_runs_take_more_than_those_that_were_left_alone) {
  const OtherWork o = other_work({run(100, 0), run(102, 0), run(101, 0), run(190, 80000), run(200, 90000), run(180, 70000)}, 2);
  EXPECT_EQ(o.runs, 6);
  EXPECT_EQ(o.disturbed, 3);
  EXPECT_NEAR(o.waited_us, 240, 1e-9);
  EXPECT_TRUE(o.cost_measured);
  EXPECT_NEAR(o.cost_us, (102 + 180) / 2.0 - 101, 1e-9);
}

TEST(OtherWork, that_left_no_run_alone_costs_what_threads_waited) {
  const OtherWork o = other_work({run(190, 80000), run(200, 90000)}, 2);
  EXPECT_FALSE(o.cost_measured);
  EXPECT_NEAR(o.cost_us, (80 + 90) / 2.0 / 2, 1e-9);
}

TEST(OtherWork, costs_no_more_than_the_median_run_where_a_few_waited_long) {
  const OtherWork o =
      other_work({run(100, 10000), run(102, 12000), run(101, 11000), run(36000, 71'000'000), run(30000, 59'000'000)}, 2);
  EXPECT_FALSE(o.cost_measured);
  EXPECT_GT(o.cost_us, 0);
  EXPECT_LT(o.cost_us, 102);
}

TEST(OtherWork, that_there_is_none_of_costs_nothing) {
  const OtherWork o = other_work({run(100, 0), run(300, 0)}, 2);
  EXPECT_EQ(o.disturbed, 0);
  EXPECT_EQ(o.cost_us, 0);
}

/// A launch of a kernel of 64 registers a thread.
ops::PlannedLaunch launch(unsigned blocks, unsigned threads, int64_t shared = 0, int registers = 64) {
  auto cubin = std::make_shared<device::cuda::Cubin>();
  cubin->kernels.push_back({.entry = "k", .registers = registers});
  return {std::make_shared<device::cuda::Source>(device::cuda::Source{"k:1", "", {}}),
          cubin,
          "k",
          {.grid = {blocks, 1, 1}, .block = {threads, 1, 1}, .shared_bytes = shared}};
}

run::PlannedRun launched(std::vector<ops::PlannedLaunch> launches) {
  run::PlannedRun r{.arch = "sm_90a", .multiprocessors = 132};
  r.steps.push_back({{}, "", std::move(launches)});
  return r;
}

std::vector<StepRow> waiting(std::vector<ops::PlannedLaunch> launches) {
  std::vector<StepRow> rows{step("MatMul", 1 << 20, 10 << 20, 900)};
  EXPECT_EQ(rows[0].limiter, Limiter::latency);
  add_fills(rows, launched(std::move(launches)));
  return rows;
}

TEST(Fill, of_fewer_blocks_than_multiprocessors_is_said_and_priced) {
  const Profile p = profile_of(waiting({launch(33, 128)}));
  EXPECT_NE(p.steps[0].because.find("33 blocks on 132 multiprocessors"), std::string::npos) << p.steps[0].because;
  const auto all = advise(p, {.on_gpu = true});
  const Advice* split = advice_with(all, "split K, smaller tiles");
  ASSERT_TRUE(split);
  const Advice* every = advice_with(all, "every multiprocessor");
  ASSERT_TRUE(every);
  EXPECT_NEAR(every->us, 900 * 0.75, 1e-6);
}

TEST(Fill, of_a_last_wave_that_is_mostly_empty_is_said) {
  // 128 threads of 64 registers: 8 blocks each, 1056 a wave.
  const Profile p = profile_of(waiting({launch(1056 + 100, 128)}));
  EXPECT_EQ(p.steps[0].fills[0].blocks_each, 8);
  EXPECT_NE(p.steps[0].because.find("1156 blocks are 1.09 waves of 1056"), std::string::npos) << p.steps[0].because;
  EXPECT_NEAR(advice_with(advise(p, {.on_gpu = true}), "last wave")->us, 900 * (1 - 1156.0 / 2112), 1e-3);
}

TEST(Fill, of_few_warps_says_what_would_let_more_in) {
  const Profile p = profile_of(waiting({launch(13200, 128, 70 << 10)}));
  EXPECT_NE(p.steps[0].because.find("19% of the warps that fit, for shared memory"), std::string::npos) << p.steps[0].because;
  EXPECT_TRUE(advice_with(advise(p, {.on_gpu = true}), "4 blocks instead of 3"));
}

TEST(Fill, that_is_no_reason_to_wait_is_not_given_as_one) {
  const auto rows = waiting({launch(13200, 256)});
  EXPECT_EQ(rows[0].because.find(';'), std::string::npos) << rows[0].because;
  EXPECT_EQ(rows[0].fills.size(), 1u);
  EXPECT_EQ(waiting({{nullptr, nullptr, "cuDNN", {}, 0}})[0].fills.size(), 0u) << "of a library's kernel nothing is known";
}

}  // namespace
}  // namespace smelt::profile
