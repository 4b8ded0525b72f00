#include "run/kernels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <set>

#include "base/by_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "ops/core/cost.h"
#include "ops/core/machine.h"
#include "run/buffers.h"
#include "run/fallback.h"
#include "tune/gpu_trial.h"

namespace smelt::run {
namespace {

std::string type_and_shape(const ops::BoundTensor& t) { return fmt::format("{}{}", name(t.type), to_string(t.shape)); }

/// What stands for a problem where no kernel is chosen: "dynamic:NonZero:bool[300]".
std::string plain_problem(const Segment& s, const Step& step, std::string_view kind, std::string_view op) {
  std::vector<std::string> inputs;
  for (TensorIndex t : step.inputs) inputs.push_back(t == absent ? "" : type_and_shape(s.tensor(t)));
  return fmt::format("{}:{}:{}", kind, op, fmt::join(inputs, ","));
}

std::string full_op(const Node& node) { return node.domain.empty() ? node.op : fmt::format("{}.{}", node.domain, node.op); }

void add_sources(const Graph& g, const Node& node, StepInfo& info) {
  for (int32_t i : node.sources) {
    const SourceNode& source = g.sources()[static_cast<size_t>(i)];
    info.sources.push_back(source.name);
    info.scopes.push_back(source.scopes);
  }
}

/// Whether the step gets a kernel of the processor's, after the GPU's offer failed with `e`.
bool falls_back(Step& step, const ops::BoundNode& node, PlanImpl::Shared& shared, const Error& e) {
  if (shared.backend->is_host() || e.code() != ExitCode::unsupported) return false;
  if (!shared.options.allow_fallback)
    throw Error(e.what(), "Let such steps run on the processor, with copies between: --allow-fallback", ExitCode::unsupported);
  step.kernel = fallback_kernel(node, shared.options.threads, shared.backend, step.problem, step.tactic);
  step.on_host = true;
  return true;
}

struct Open {
  Step* step;
  ops::BoundNode node;
  ops::Offer offer;
  std::string bucket;
  std::optional<tune::PinnedChoice> near;  // what the bucket has
};

/// Takes candidates that cannot be prepared out of the offers, so that the next best run.
class Refusals {
 public:
  Refusals(std::vector<Open>& open, tune::Tuner& tuner) : open_(open), tuner_(tuner) {}

  /// Said once a reason: a library that lacks something lacks it for every problem. `for_good`: in later processes too.
  void refuse(const std::string& problem, const ops::Candidate& bad, const std::string& why, bool for_good) {
    const std::string line = fmt::format("{}: {} {} is left out: {}", problem, bad.tactic, bad.config, why);
    if (said_.insert(bad.tactic + why).second)
      warn("{}", line);
    else
      info("{}", line);
    if (for_good) tuner_.leave_out(problem, bad);
    const auto same = [&](const ops::Candidate& c) { return c.tactic == bad.tactic && c.config == bad.config; };
    for (Open& o : open_) {
      if (o.offer.problem == problem && std::erase_if(o.offer.candidates, same) > 0)
        o.offer.rejected.push_back({bad.config.empty() ? bad.tactic : fmt::format("{} {}", bad.tactic, bad.config), why});
    }
  }

 private:
  std::vector<Open>& open_;
  tune::Tuner& tuner_;
  std::set<std::string> said_;
};

/// Kernels that were made to be measured: the weights that they packed serve tuning, and the chosen ones, for as long as they are
/// held.
class HeldKernels {
 public:
  explicit HeldKernels(const ops::Machine& machine) : machine_(machine), most_bytes_(share_of_memory(machine)) {}
  /// Not beyond a part of the device's memory.
  void hold(std::unique_ptr<ops::Kernel> kernel) {
    const std::lock_guard lock(mutex_);
    if (machine_.gpu->weights->bytes() <= most_bytes_) kernels_.push_back(std::move(kernel));
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

/// Compiles what tuning will measure and was not prepared before, by all cores at once: the results stay in the store of kernels.
/// True where some candidate was refused, so that tuning will need another.
bool prepare_in_parallel(std::vector<Open>& open, tune::Tuner& tuner, Refusals& refusals, int threads, BucketChoices& buckets,
                         HeldKernels& held) {
  struct Task {
    std::string problem;
    ops::Candidate candidate;
    std::exception_ptr failed;
  };
  std::vector<Task> tasks;
  std::set<std::string> seen;
  for (const Open& o : open) {
    if (!seen.insert(o.offer.problem).second) continue;
    const std::vector<size_t> needed = tuner.needed(o.offer, o.near);
    if (needed.size() < 2) continue;  // not measured: prepared once it is chosen, with each node's own weights
    for (size_t i : needed) {
      const ops::Candidate& c = o.offer.candidates[i];
      if (buckets.is_new(o.bucket, c)) tasks.push_back({o.offer.problem, c, {}});
    }
  }
  by_threads(threads, tasks.size(), [&](size_t i) {
    const auto begin = std::chrono::steady_clock::now();
    try {
      held.hold(tasks[i].candidate.prepare());
      info("{}: {} {} was ready after {:.2f} s", tasks[i].problem, tasks[i].candidate.tactic, tasks[i].candidate.config,
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    } catch (...) {  // what is no Error is thrown on below, in the caller's thread
      tasks[i].failed = std::current_exception();
    }
  });
  bool refused = false;
  for (const Task& t : tasks) {
    if (!t.failed) continue;
    try {
      std::rethrow_exception(t.failed);
    } catch (const Error& e) {
      try {
        refusals.refuse(t.problem, t.candidate, e.what(), tune::would_fail_again(e));
        refused = true;
      } catch (const Error&) {
        return false;  // no candidate's fault: choose_and_prepare meets it again, and says the node
      }
    }
  }
  return refused;
}

/// The tuner's choice. On a GPU a candidate that cannot be timed makes room for the next.
void choose(Open& o, PlanImpl::Shared& shared, Refusals& refusals) {
  Step& step = *o.step;
  step.problem = o.offer.problem;
  for (;;) {
    try {
      step.choice = std::make_shared<const tune::Choice>(shared.tuner.choose(o.node, o.offer, o.near));
      break;
    } catch (const tune::Unfit& e) {
      refusals.refuse(step.problem, ops::Candidate(o.offer.candidates[e.candidate]), e.what(), e.would_again);
    }
  }
  const ops::Candidate& chosen = o.offer.candidates[step.choice->candidate];
  step.tactic = chosen.tactic;
  step.config = chosen.config;
}

/// Gives the steps their chosen kernels, by so many threads. The result: those whose candidate does not compile and is refused,
/// so that they have to choose again.
std::vector<Open*> prepare_chosen(const std::vector<Open*>& steps, PlanImpl::Shared& shared, Refusals& refusals, int threads) {
  std::vector<std::exception_ptr> failed(steps.size());
  by_threads(threads, steps.size(), [&](size_t i) {
    try {
      steps[i]->step->kernel = steps[i]->offer.candidates[steps[i]->step->choice->candidate].prepare();
    } catch (...) {
      failed[i] = std::current_exception();
    }
  });
  std::vector<Open*> again;
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
      if (bad != candidates.end() && (shared.backend->is_host() || candidates.size() == 1)) throw e.at(ops::label(*step.node));
      if (bad != candidates.end()) refusals.refuse(step.problem, ops::Candidate(*bad), e.what(), tune::would_fail_again(e));
    }
    again.push_back(steps[i]);
  }
  return again;
}

}  // namespace

void choose_kernels(Segment& s, PlanImpl::Shared& shared, BucketChoices& buckets, const KnownSteps& known) {
  StageClock clock(*shared.stages);
  tune::Tuner& tuner = shared.tuner;
  const auto& progress = shared.options.progress;
  std::vector<Open> open;
  std::set<std::string> problems;
  for (Step& step : s.steps) {
    step.on_host = step.kind == StepKind::dynamic && step.at_most.empty() && !shared.backend->is_host();
    if (step.kind != StepKind::kernel && step.at_most.empty()) continue;
    if (const Step* same = known.find(s, step)) {
      static_cast<ChosenKernel&>(step) = *same;
      continue;
    }
    try {
      ops::BoundNode node = bound_node(s, step, &shared.weights);
      try {
        ops::Offer offer = ops::offer(node, tuner.machine());
        problems.insert(offer.problem);
        std::string bucket = bucket_of(s, step);
        auto near = buckets.find(bucket);
        open.push_back({&step, std::move(node), std::move(offer), std::move(bucket), std::move(near)});
      } catch (const Error& e) {
        if (!falls_back(step, node, shared, e)) throw;
      }
    } catch (const Error& e) {
      throw e.at(ops::label(*step.node));
    }
  }
  clock.end("candidates");
  const auto begin = std::chrono::steady_clock::now();
  const int cores = shared.options.threads > 0 ? shared.options.threads : ops::usable_cores();
  const int at_once = shared.backend->is_host() ? 1 : cores;  // the processor's kernels pack with all threads themselves
  Refusals refusals(open, tuner);
  HeldKernels held(tuner.machine());
  while (!shared.backend->is_host() && prepare_in_parallel(open, tuner, refusals, cores, buckets, held)) {
  }
  clock.end("compiling");
  const auto total = static_cast<int>(problems.size());
  std::vector<Open*> left;
  for (Open& o : open) left.push_back(&o);
  while (!left.empty()) {
    for (Open* o : left) {
      try {
        choose(*o, shared, refusals);
      } catch (const Error& e) {
        throw e.at(ops::label(*o->step->node));
      }
      if (!problems.erase(o->step->problem) || !progress) continue;
      const int done = total - static_cast<int>(problems.size());
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      progress({"tuning", o->step->problem, done, total, seconds, seconds / done * (total - done)});
    }
    clock.end("tuning");
    left = prepare_chosen(left, shared, refusals, at_once);
    clock.end("kernels");
  }
  for (const Open& o : open)
    if (!o.step->choice->timings.empty()) buckets.keep(o.bucket, {o.step->tactic, o.step->config});
}

std::vector<StepInfo> describe_steps(const Graph& g, const Segment& s) {
  std::vector<StepInfo> infos;
  const std::vector<StepMemory> held = held_by_step(s);
  for (const Step& step : s.steps) {
    StepInfo info{.memory = held[infos.size()]};
    if (step.node) {
      info.name = step.node->name;
      info.op = full_op(*step.node);
      add_sources(g, *step.node, info);
    }
    switch (step.kernel ? StepKind::kernel : step.kind) {
      case StepKind::kernel:
        info.problem = step.problem;
        info.tactic = step.tactic;
        info.config = step.config;
        info.on_host = step.on_host;
        if (!step.choice) break;
        for (const tune::Timing& t : step.choice->timings) {
          if (t.tactic == step.tactic && t.config == step.config) info.measured_us = t.median;
        }
        for (const tune::NotChosen& o : step.choice->others) info.others.push_back({o.tactic, o.config, o.reason});
        break;
      case StepKind::concat:
        info.problem = plain_problem(s, step, "copy", "Concat");
        info.tactic = "copy";
        break;
      case StepKind::copy:
        info.name = g.value(s.tensor(step.outputs[0]).value).name;
        info.op = "Copy";
        info.problem = plain_problem(s, step, "copy", "Identity");
        info.tactic = "copy";
        break;
      case StepKind::dynamic:
        info.problem = plain_problem(s, step, "dynamic", info.op);
        info.tactic = "reference";
        info.on_host = step.on_host;
        break;
      case StepKind::view: break;
    }
    if (step.node) {
      const ops::Cost cost = ops::cost(bound_node(s, step, nullptr));
      info.bytes = cost.bytes;
      info.flops = cost.flops;
    } else {
      info.bytes = 2 * ops::storage_bytes(s.tensor(step.outputs[0]));
    }
    for (TensorIndex t : step.outputs)
      info.output_shapes.push_back(t == absent ? "" : (s.tensor(t).at_most ? "at most " : "") + type_and_shape(s.tensor(t)));
    infos.push_back(std::move(info));
  }
  return infos;
}

}  // namespace smelt::run
