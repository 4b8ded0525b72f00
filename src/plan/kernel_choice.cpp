#include "plan/kernel_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <span>

#include "base/by_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "base/stop.h"
#include "ops/core/machine.h"
#include "ops/cuda/gpu.h"
#include "plan/finalists.h"
#include "plan/known_choices.h"
#include "plan/pending_step.h"
#include "plan/prepare_candidates.h"
#include "plan/tuning_progress.h"
#include "tune/gpu_trial.h"

namespace smelt::plan {
namespace {

/// Whether the step gets a kernel of the processor's, the one with the lowest estimate, after the GPU's offer failed with `e`.
bool falls_back(Step& step, const ops::BoundNode& node, const Context& context, const Error& e) {
  if (context.target.is_host || e.code() != ExitCode::unsupported) return false;
  if (!context.options.allow_fallback)
    throw Error(e.what(), "Let such steps run on the processor, with copies between: --allow-fallback", ExitCode::unsupported);
  const ops::Offer offer = ops::offer(node, ops::this_machine(context.options.threads));
  const auto best = std::ranges::min_element(offer.candidates, {}, &ops::Candidate::estimate_us);
  step.problem = offer.problem;
  step.tactic = best->tactic;
  step.kernel = context.target.through_host_memory(node, best->prepare());
  step.on_host = true;
  return true;
}

/// Takes candidates that cannot be prepared out of the offers, so that the next best are chosen.
class Refusals {
 public:
  Refusals(std::vector<PendingStep>& pending, tune::Tuner& tuner) : pending_(pending), tuner_(tuner) {}

  /// Warns once for each reason: a library that lacks something lacks it for every problem. `for_good`: in later processes too.
  void refuse(const std::string& problem, const ops::Candidate& bad, const std::string& why, bool for_good) {
    const std::string line = fmt::format("{}: {} {} is left out: {}", problem, bad.tactic, bad.config, why);
    if (said_.insert(bad.tactic + why).second)
      warn("{}", line);
    else
      info("{}", line);
    if (for_good) tuner_.leave_out(problem, bad);
    const auto same = [&](const ops::Candidate& c) { return c.tactic == bad.tactic && c.config == bad.config; };
    for (PendingStep& p : pending_) {
      if (p.offer.problem == problem && std::erase_if(p.offer.candidates, same) > 0)
        p.offer.refuse(bad.config.empty() ? bad.tactic : fmt::format("{} {}", bad.tactic, bad.config), Reason::failed, "{}", why);
    }
  }

 private:
  std::vector<PendingStep>& pending_;
  tune::Tuner& tuner_;
  std::set<std::string> said_;
};

/// Kernels that were made to be measured: the weights that they packed serve tuning, and the chosen ones, for as long as they are
/// held.
class HeldKernels {
 public:
  explicit HeldKernels(const ops::Machine& machine) : machine_(machine), most_bytes_(share_of_memory(machine)) {}
  bool has_room() const { return machine_.gpu->weights->bytes() <= most_bytes_; }
  /// Not beyond a part of the device's memory.
  void hold(std::unique_ptr<ops::Kernel> kernel) {
    const std::lock_guard lock(mutex_);
    if (has_room()) kernels_.push_back(std::move(kernel));
  }

 private:
  static int64_t share_of_memory(const ops::Machine& machine) {
    constexpr int64_t part = 8;
    if (!machine.gpu || !machine.gpu->device) return 0;
    const int64_t limit = machine.gpu->device->limit();
    return (limit > 0 ? limit : machine.gpu->info.memory_bytes) / part;
  }
  const ops::Machine& machine_;
  int64_t most_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ops::Kernel>> kernels_;
};

/// A problem's steps choose one kernel: the first of them stands for all.
std::vector<PendingStep*> one_a_problem(std::vector<PendingStep*> steps) {
  std::set<std::string> seen;
  std::erase_if(steps, [&](const PendingStep* p) { return !seen.insert(p->offer.problem).second; });
  return steps;
}

/// Compiles what tuning will measure next and was not prepared before, by all cores at once: the results stay in the store of kernels.
/// True where some candidate was refused, so that tuning will need another.
bool prepare_in_parallel(std::span<PendingStep* const> problems, tune::Tuner& tuner, Refusals& refusals, int threads,
                         BucketChoices& buckets, HeldKernels& held, bool may_measure) {
  std::vector<std::string> of;
  std::vector<ops::Candidate> candidates;
  for (const PendingStep* p : problems) {
    const std::vector<size_t> needed = tuner.needed(p->offer, p->similar, may_measure);
    if (needed.size() < 2) continue;  // not measured: prepared once it is chosen, with each node's own weights
    for (size_t i : needed) {
      const ops::Candidate& c = p->offer.candidates[i];
      if (buckets.is_new(p->bucket, c)) of.push_back(p->offer.problem), candidates.push_back(c);
    }
  }
  std::vector<std::exception_ptr> failed(candidates.size());
  const std::vector<size_t> order = preparation_order(candidates);
  by_threads(threads, candidates.size(), [&](size_t turn) {
    const size_t i = order[turn];
    const auto begin = std::chrono::steady_clock::now();
    try {
      held.hold(candidates[i].prepare());
      info("{}: {} {} was ready after {:.2f} s", of[i], candidates[i].tactic, candidates[i].config,
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    } catch (...) {  // what is no Error is thrown on below, in the caller's thread
      failed[i] = std::current_exception();
    }
  });
  bool refused = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!failed[i]) continue;
    try {
      std::rethrow_exception(failed[i]);
    } catch (const Error& e) {
      try {
        refusals.refuse(of[i], candidates[i], e.what(), tune::would_fail_again(e));
        refused = true;
      } catch (const Error&) {
        return false;  // no candidate's fault: choose_and_prepare meets it again, and says the node
      }
    }
  }
  return refused;
}

/// f(), which measures. On a GPU a candidate that cannot be timed makes room for the next.
template <class F> auto measured(const PendingStep& p, Refusals& refusals, F&& f) {
  for (;;) {
    try {
      return f();
    } catch (const tune::Unfit& e) {
      const ops::Candidate bad = p.offer.candidates[e.candidate];
      refusals.refuse(std::string(p.offer.problem), bad, e.what(), e.would_again);
    }
  }
}

/// The tuner's choice.
void choose(PendingStep& p, Context& context, Refusals& refusals, bool may_measure) {
  Step& step = *p.step;
  step.problem = p.offer.problem;
  step.choice = std::make_shared<const tune::Choice>(
      measured(p, refusals, [&] { return context.tuner.choose(p.node, p.offer, p.similar, may_measure); }));
  const ops::Candidate& chosen = p.offer.candidates[step.choice->candidate];
  step.tactic = chosen.tactic;
  step.config = chosen.config;
}

/// Gives the steps their chosen kernels, by so many threads. The result: those whose candidate does not compile and is refused,
/// so that they have to choose again.
std::vector<PendingStep*> prepare_chosen(const std::vector<PendingStep*>& steps, Refusals& refusals, int threads) {
  std::vector<std::exception_ptr> failed(steps.size());
  by_counted_threads(threads, steps.size(), [&](size_t i) {
    try {
      steps[i]->step->kernel = steps[i]->offer.candidates[steps[i]->step->choice->candidate].prepare();
    } catch (...) {
      failed[i] = std::current_exception();
    }
  });
  std::vector<PendingStep*> again;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!failed[i]) continue;
    const Step& step = *steps[i]->step;
    const auto is_chosen = [&](const ops::Candidate& c) { return c.tactic == step.tactic && c.config == step.config; };
    const std::vector<ops::Candidate>& candidates = steps[i]->offer.candidates;
    try {
      std::rethrow_exception(failed[i]);
    } catch (const Error& e) {
      const auto bad = std::ranges::find_if(candidates, is_chosen);
      // Gone where another step of the same problem had it refused.
      if (bad != candidates.end() && candidates.size() == 1) throw e.at(ops::label(*step.node));
      if (bad != candidates.end()) refusals.refuse(step.problem, ops::Candidate(*bad), e.what(), tune::would_fail_again(e));
    }
    again.push_back(steps[i]);
  }
  return again;
}

/// Throws Error for a result that a GPU has no room for, before kernels are offered, which may make lists as long as one.
void check_room(const ops::BoundNode& node, const Context& context) {
  const int64_t room = room_on_gpu(context);
  for (const ops::BoundTensor& t : node.outputs) {
    if (t.type == DType::undefined || t.type == DType::string) continue;
    const int64_t size = bytes(t.type, elements(t.shape));
    if (size <= room) continue;
    const std::string_view whose = room == context.options.memory_limit ? "the limit is" : "the GPU's memory has";
    fail("no memory for a result {}{}: {} bytes asked for, {} {} bytes", name(t.type), to_string(t.shape), size, whose, room);
  }
}

/// All that can run each step, by so many threads. Steps that fall back to the processor leave the list.
void find_candidates(const Segment& s, std::vector<PendingStep>& pending, Context& context, const BucketChoices& buckets,
                     int threads) {
  std::vector<std::exception_ptr> failed(pending.size());
  by_counted_threads(threads, pending.size(), [&](size_t i) {
    PendingStep& p = pending[i];
    try {
      check_room(p.node, context);
      p.offer = ops::offer(p.node, context.tuner.machine());
      p.bucket = bucket_of(s, *p.step);
      p.similar = buckets.find(p.bucket);
    } catch (...) {
      failed[i] = std::current_exception();
    }
  });
  size_t at = 0;
  std::erase_if(pending, [&](PendingStep& p) {
    const std::exception_ptr& failure = failed[at++];
    if (!failure) return false;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& e) {
      try {
        if (!falls_back(*p.step, p.node, context, e)) throw e;
        return true;
      } catch (const Error& said) {
        throw said.at(ops::label(*p.step->node));
      }
    }
  });
}

}  // namespace

void keep_choice(const Segment& s, const Step& step, BucketChoices& buckets, SimilarChoices& similar) {
  buckets.keep(bucket_of(s, step), {step.tactic, step.config});
  similar.keep(form_of(s, step), {step.tactic, step.config}, ChosenBy::measurement);
}

void choose_kernels(Segment& s, Context& context, BucketChoices& buckets, SimilarChoices& similar,
                    const ReusableKernels& reusable, Measure measure) {
  const bool may_measure = measure != Measure::no;
  StageClock clock(*context.stages);
  tune::Tuner& tuner = context.tuner;
  const int cores = context.options.threads > 0 ? context.options.threads : ops::usable_cores();
  std::vector<PendingStep> pending;
  pending.reserve(s.steps.size());
  for (Step& step : s.steps) {
    check_stop();
    step.on_host = step.kind == StepKind::dynamic && step.at_most.empty() && !context.target.is_host;
    if (step.kind != StepKind::kernel && step.at_most.empty()) continue;
    if (const Step* same = reusable.find(s, step)) {
      static_cast<ChosenKernel&>(step) = *same;
      continue;
    }
    pending.push_back({&step, bound_node(s, step, &context.weights), {}, {}, {}, form_of(s, step)});
  }
  // On a GPU a plan's kernels are compiled by all cores below, those of one source once.
  if (!may_measure || (context.target.is_host && tuner.has_pinned())) take_known(pending, tuner, similar, cores, may_measure);
  std::set<std::string> problems;
  find_candidates(s, pending, context, buckets, cores);
  for (const PendingStep& p : pending) problems.insert(p.offer.problem);
  clock.end("candidates");
  const auto total = static_cast<int>(problems.size());
  TuningProgress progress(context.options.progress, total, context.options.tuning_time_limit);
  const auto is_done = [&](const std::string& problem) {
    if (problems.erase(problem) > 0) progress.done(problem, total - static_cast<int>(problems.size()));
  };
  Refusals refusals(pending, tuner);
  std::vector<PendingStep*> left;
  for (PendingStep& p : pending) left.push_back(&p);
  if (context.options.tuning_time_limit > 0) {
    // What takes longest is measured first, as the time may not be enough for all.
    const auto estimate = [](const PendingStep* p) {
      const auto best = std::ranges::min_element(p->offer.candidates, {}, &ops::Candidate::estimate_us);
      return best == p->offer.candidates.end() ? 0 : best->estimate_us;
    };
    std::ranges::stable_sort(left, std::greater(), estimate);
  }
  HeldKernels held(tuner.machine());
  if (!context.target.is_host) {
    for (std::vector<PendingStep*> raced = one_a_problem(left); !raced.empty();) {
      const auto begin = std::chrono::steady_clock::now();
      while (prepare_in_parallel(raced, tuner, refusals, cores, buckets, held, may_measure)) {
      }
      tuner.spend(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      clock.end("compiling");
      std::erase_if(raced, [&](PendingStep* p) {
        try {
          if (measured(*p, refusals, [&] { return tuner.measure_stage(p->node, p->offer, p->similar, may_measure); }))
            return false;
        } catch (const Error& e) {
          throw e.at(ops::label(*p->step->node));
        }
        is_done(p->offer.problem);
        return true;
      });
      clock.end("tuning");
    }
  }
  clock.end("compiling");
  while (!left.empty()) {
    for (PendingStep* p : left) {
      try {
        choose(*p, context, refusals, may_measure);
      } catch (const Error& e) {
        throw e.at(ops::label(*p->step->node));
      }
      is_done(p->step->problem);
    }
    clock.end("tuning");
    left = prepare_chosen(left, refusals, cores);
    clock.end("kernels");
  }
  if (measure == Measure::finalists && !context.target.is_host) {
    add_finalists(pending, cores, [&] { return held.has_room(); });
    clock.end("kernels");
  }
  for (PendingStep& p : pending) {
    if (!p.step->finalists.empty()) continue;  // the model chooses
    const bool measured = !p.step->choice->timings.empty() || p.step->choice->pinned || p.step->choice->with_threads > 0;
    if (measured) buckets.keep(p.bucket, {p.step->tactic, p.step->config});
    similar.keep(std::move(p.form), {p.step->tactic, p.step->config}, measured ? ChosenBy::measurement : ChosenBy::estimates);
  }
}

}  // namespace smelt::plan
