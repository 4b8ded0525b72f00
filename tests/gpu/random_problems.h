// Many random problems of one test: each by one candidate chosen at random, prepared by as many threads as there are cores, run one after
// the other and held against the reference.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <functional>
#include <string_view>
#include <thread>

#include "dice.h"
#include "gpu_trial.h"

namespace smelt::ops {

struct RandomProblem {
  Trial trial;
  double tolerance = 0;  // 0: to the bit
  std::string name = {};
  std::unique_ptr<Kernel> kernel = nullptr;
  Tensor want = {};
};

/// Chooses one of the candidates that `takes` accepts, for a GPU of few multiprocessors or many; none where there is none.
inline void choose_candidate(RandomProblem& p, Dice& dice, uint32_t seed, const std::function<bool(const Candidate&)>& takes) {
  p.trial.bound.node = &p.trial.node;
  Machine machine;
  const auto gpu = std::make_shared<Gpu>(*test_gpu());
  gpu->info.multiprocessors = static_cast<int>(dice.one_of({1, 4, 132}));  // large tiles for small problems
  machine.gpu = gpu;
  Offer o = offer(p.trial.bound, machine);
  std::erase_if(o.candidates, [&](const Candidate& candidate) { return !takes(candidate); });
  if (o.candidates.empty()) return;
  const Candidate& chosen = o.candidates[static_cast<size_t>(dice.below(static_cast<int64_t>(o.candidates.size())))];
  p.name = fmt::format("seed {}: {} {} {}", seed, o.problem, chosen.tactic, chosen.config);
  p.kernel = chosen.prepare();
  p.want = evaluate(p.trial.node, p.trial.inputs)[0];
}

/// How many of the problems had a candidate, each of which is right.
inline size_t expect_right(uint32_t problems, const std::function<RandomProblem(uint32_t seed)>& make) {
  std::vector<RandomProblem> all(problems);
  std::atomic<uint32_t> next = 0;
  std::vector<std::future<void>> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.push_back(std::async(std::launch::async, [&] {
      for (uint32_t at; (at = next++) < problems;) all[at] = make(at);
    }));
  for (std::future<void>& t : threads) t.get();
  size_t ran = 0, wrong = 0;
  for (RandomProblem& p : all) {
    if (!p.kernel) continue;
    ++ran;
    p.trial.bound.node = &p.trial.node;
    SCOPED_TRACE(p.name);
    const Tensor got = run_on_gpu(p.trial, *p.kernel)[0];
    const bool right = p.tolerance == 0 ? std::memcmp(got.raw(), p.want.raw(), static_cast<size_t>(got.nbytes())) == 0
                                        : error(got, p.want) <= p.tolerance;
    EXPECT_TRUE(right) << p.name << ": " << error(got, p.want);
    if (!right && ++wrong == 20) break;
  }
  return ran;
}

}  // namespace smelt::ops
