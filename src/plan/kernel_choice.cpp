#include "plan/kernel_choice.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>

#include "base/by_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "ops/core/machine.h"
#include "ops/cuda/gpu.h"
#include "plan/prepare_candidates.h"
#include "plan/tuning_progress.h"
#include "tune/gpu_trial.h"

namespace smelt::plan {
namespace {

/// by_threads() whose threads count what they allocate where the calling one does.
template <class F> void by_counted_threads(int threads, size_t count, F&& f) {
  by_threads(threads, count, [&f, account = memory_account()](size_t i) {
    const MemoryScope scope(account);
    f(i);
  });
}

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

/// A step whose kernel is still to be chosen.
struct PendingStep {
  Step* step;
  ops::BoundNode node;
  ops::Offer offer;
  std::string bucket;
  std::optional<tune::PinnedChoice> similar;  // what the bucket has
  StepForm form;
};

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

/// The step runs with that candidate.
void take(PendingStep& p, const ops::Offer& offer, tune::Choice choice) {
  const ops::Candidate& chosen = offer.candidates[choice.candidate];
  Step& step = *p.step;
  step.kernel = chosen.prepare();
  step.problem = offer.problem;
  step.tactic = chosen.tactic;
  step.config = chosen.config;
  step.choice = std::make_shared<const tune::Choice>(std::move(choice));
}

/// Whether a kernel that is ready at once is to run: code for this one shape would take longer to make than ten runs win by it; with
/// AVX-512, where a library's code is up to a third faster, than five (bench/results/cpu-tiles-2026-11-26.txt).
bool is_short(const ops::Candidate& c) {
  static const double most_us = __builtin_cpu_supports("avx512f") ? 500 : 1500;
  return c.tactic != "reference" && c.estimate_us <= most_us;
}

/// Gives the step a kernel that is ready at once where that is short. False where it is not.
bool take_ready(PendingStep& p, tune::Tuner& tuner) {
  const ops::Offer offer = ops::offer(p.node, tuner.machine(), {.at_once = true});
  if (std::ranges::none_of(offer.candidates, [&](const auto& c) { return is_short(c) && tuner.allows(c.tactic); })) return false;
  auto choice = tuner.choose(p.node, offer, {}, false);
  if (offer.candidates[choice.candidate].tactic == "reference") return false;
  take(p, offer, std::move(choice));
  return true;
}

/// Gives the step the candidate that was chosen for similar extents. False where it is not offered, or `only_short` and it is not.
bool take_like(PendingStep& p, tune::Tuner& tuner, const ops::ChosenTactic& like, bool only_short) {
  const ops::Offer offer = ops::offer(p.node, tuner.machine(), {&like});
  auto choice = tuner.take(offer, like);
  if (!choice || (only_short && !is_short(offer.candidates[choice->candidate]))) return false;
  take(p, offer, *std::move(choice));
  return true;
}

/// What the plan names for the step's problem.
std::optional<ops::ChosenTactic> named_choice(const PendingStep& p, tune::Tuner& tuner) {
  if (!tuner.has_pinned()) return std::nullopt;
  static const ops::ChosenTactic none;  // for the problem's name alone
  return tuner.pinned_for(ops::offer(p.node, tuner.machine(), {&none}).problem);
}

/// Gives the step a kernel that is ready at once, as for similar extents where that was chosen so. False where there is none, or
/// where the choice for similar extents is better founded.
bool take_at_once(PendingStep& p, tune::Tuner& tuner, const std::optional<SimilarChoice>& nearest) {
  if (nearest && (nearest->same_extents || nearest->by == ChosenBy::measurement)) return false;
  const bool was_ready = nearest && nearest->by == ChosenBy::readiness;
  if (was_ready && take_like(p, tuner, nearest->chosen, true)) return true;
  return (!nearest || was_ready || ops::generates_code(nearest->chosen.tactic)) && take_ready(p, tuner);
}

/// Gives the step a kernel without a search: what the plan names for its problem, or, where `similar` is given, one that is ready at
/// once or the choice for similar extents. False where there is none that runs it.
bool take_known(PendingStep& p, tune::Tuner& tuner, SimilarChoices* similar) {
  try {
    std::optional<ops::ChosenTactic> like = named_choice(p, tuner);
    if (!like && similar) {
      const auto nearest = similar->nearest(p.form);
      if (take_at_once(p, tuner, nearest)) {
        similar->keep(std::move(p.form), {p.step->tactic, p.step->config}, ChosenBy::readiness);
        return true;
      }
      if (nearest && (nearest->same_extents || nearest->by != ChosenBy::readiness)) like = nearest->chosen;
    }
    return like && take_like(p, tuner, *like, false);
  } catch (const Error&) {  // the search says why
    return false;
  }
}

/// take_known for all of them, by so many threads; those that are left have to choose. What a plan names is kept for other extents.
void take_known(std::vector<PendingStep>& pending, tune::Tuner& tuner, SimilarChoices& similar, int threads, bool may_measure) {
  std::vector<char> taken(pending.size());
  std::vector<std::exception_ptr> failed(pending.size());
  by_counted_threads(threads, pending.size(), [&](size_t i) {
    try {
      taken[i] = take_known(pending[i], tuner, may_measure ? nullptr : &similar) ? 1 : 0;
    } catch (...) {
      failed[i] = std::current_exception();
    }
  });
  std::vector<PendingStep> left;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (failed[i]) std::rethrow_exception(failed[i]);
    const Step& step = *pending[i].step;
    if (!taken[i])
      left.push_back(std::move(pending[i]));
    else if (step.choice->pinned)
      similar.keep(std::move(pending[i].form), {step.tactic, step.config}, ChosenBy::measurement);
  }
  pending = std::move(left);
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

/// Prepares the finalists of the tuner's choices, by so many threads. A problem's are those that all of its steps can have; of a
/// problem with less than two, or beyond what `held` says of memory, there are none.
void add_finalists(std::vector<PendingStep>& pending, int threads, const HeldKernels& held) {
  std::vector<std::pair<PendingStep*, size_t>> wanted;  // and which of its finalists
  for (PendingStep& p : pending) {
    const tune::Choice* choice = p.step->choice.get();
    if (!choice || p.step->on_host) continue;
    for (size_t i = 0; i < choice->finalists.size(); ++i) {
      Finalist& f = p.step->finalists.emplace_back();
      f.problem = p.step->problem, f.candidate = choice->finalists[i];
      f.tactic = p.offer.candidates[f.candidate].tactic, f.config = p.offer.candidates[f.candidate].config;
      if (f.candidate == choice->candidate)
        f.kernel = p.step->kernel;
      else
        wanted.emplace_back(&p, i);
    }
  }
  by_counted_threads(threads, wanted.size(), [&](size_t i) {
    const auto& [p, at] = wanted[i];
    if (!held.has_room()) return;
    Finalist& f = p->step->finalists[at];
    try {
      f.kernel = p->offer.candidates[f.candidate].prepare();
    } catch (const Error& e) {
      info("{}: {} {} is no finalist: {}", f.problem, f.tactic, f.config, e.what());
    }
  });
  std::map<std::string, std::set<size_t>> lacking;
  for (const PendingStep& p : pending)
    for (const Finalist& f : p.step->finalists)
      if (!f.kernel) lacking[f.problem].insert(f.candidate);
  for (PendingStep& p : pending) {
    std::erase_if(p.step->finalists, [&](const Finalist& f) {
      const auto at = lacking.find(f.problem);
      return at != lacking.end() && at->second.contains(f.candidate);
    });
    if (p.step->finalists.size() < 2) p.step->finalists.clear();
  }
}

}  // namespace

void take_finalist(Step& step, size_t finalist, std::span<const std::string> said) {
  const Finalist& taken = step.finalists.at(finalist);
  auto choice = std::make_shared<tune::Choice>(*step.choice);
  std::erase_if(choice->others, [&](const tune::NotChosen& n) {
    return std::ranges::any_of(step.finalists, [&](const Finalist& f) { return f.tactic == n.tactic && f.config == n.config; });
  });
  for (size_t i = 0; i < step.finalists.size(); ++i) {
    const Finalist& f = step.finalists[i];
    if (i == finalist) continue;
    const auto t = std::ranges::find_if(choice->timings,
                                        [&](const tune::Timing& t) { return t.tactic == f.tactic && t.config == f.config; });
    choice->others.push_back(
        {f.tactic, f.config, i < said.size() ? said[i] : "the model chose another", "", t == choice->timings.end() ? 0 : t->min});
  }
  choice->candidate = taken.candidate;
  step.tactic = taken.tactic, step.config = taken.config, step.kernel = taken.kernel;
  step.choice = std::move(choice);
}

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
    add_finalists(pending, cores, held);
    clock.end("kernels");
  }
  for (PendingStep& p : pending) {
    if (!p.step->finalists.empty()) continue;  // the model chooses
    const bool measured = !p.step->choice->timings.empty() || p.step->choice->pinned;
    if (measured) buckets.keep(p.bucket, {p.step->tactic, p.step->config});
    similar.keep(std::move(p.form), {p.step->tactic, p.step->config}, measured ? ChosenBy::measurement : ChosenBy::estimates);
  }
}

}  // namespace smelt::plan
