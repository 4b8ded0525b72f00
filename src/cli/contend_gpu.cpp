// smelt profile A --with B --device gpu: the models on streams of one process.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "cli/busy.h"
#include "cli/contend.h"
#include "cli/service.h"
#include "device/cuda/stream_place.h"
#include "profile/counted_kernels.h"
#include "profile/gpu_serving.h"
#include "run/single_steps.h"

namespace smelt::cli {
namespace {

using device::cuda::Multiprocessors;
using device::cuda::StreamPlace;
using profile::Served;
using Priority = StreamPlace::Priority;

constexpr double traced_s = 0.25;  // of requests under CUPTI's eyes

struct GpuPlace {
  Priority priority = Priority::usual;
  std::shared_ptr<const Multiprocessors> on;
};

struct GpuArrangement {
  std::string name, how;
  std::vector<GpuPlace> places;  // by model; none: plain streams
  bool turns = false;
  double others_rate = 0;
};

class OnGpu {
 public:
  OnGpu(const ModelArguments& m, const Contention& c, report::Contended& found) : m_(m), c_(c), found_(found) {
    paths_.push_back(m.path);
    paths_.insert(paths_.end(), c.with.begin(), c.with.end());
    for (size_t i = 0; i < paths_.size(); ++i) {
      report::Subject s = m.subject();
      if (i > 0) s.path = paths_[i], s.shapes.clear(), s.options.profiles.clear(), s.input_files.clear();
      stage("building " + paths_[i]);
      models_.push_back(report::prepare(s, true));
      roof_ = report::known_roof(s.options);
    }
  }

  /// Each alone: fills in alone, predicted.
  void alone() {
    for (size_t i = 0; i < models_.size(); ++i) {
      stage(found_.names[i] + " alone");
      // Counting comes first: it runs kernels by themselves.
      std::vector<profile::CountedBy> counters;
      if (c_.counters) counters.push_back(profile::by_cupti());
      const profile::Profile p = profile::profile(*models_[i].plan, *models_[i].execution,
                                                  {.iterations = 10, .warmup = 2, .max_seconds = 3, .counters = counters}, roof_);
      found_.limits_from = p.limits_from;
      profile::Alone a;
      for (const profile::StepRow& row : p.steps) a.steps.push_back(row.step), a.limiters.push_back(row.limiter);
      const auto execution = report::bound_execution(models_[i]);
      profile::GpuServing serving({execution.get()});
      const double rate = c_.rate;
      a.served = serving.serve(c_.seconds, {&rate, 1}).at(0);
      if (a.served.response_us.empty()) fail("{} answered no request in {} s", found_.names[i], c_.seconds);
      const auto [seen, runs] = serving.traced(traced_s, {&rate, 1});
      a.served.step_us = seen.at(0).step_us;
      work_.push_back(serving.alone(0, runs.at(0), a.served, p.steps));
      found_.alone.push_back(std::move(a));
    }
    found_.gpu_alone = work_;
    found_.predicted = profile::predicted_gpu_slow_downs(work_, c_.rate);
  }

  /// `losses`: what each lost is looked at too.
  void run(const GpuArrangement& a, bool losses = false) {
    stage(a.name);
    std::vector<std::unique_ptr<Execution>> executions;
    for (size_t i = 0; i < models_.size(); ++i) {
      std::optional<StreamPlace> place;
      if (i < a.places.size()) place.emplace(a.places[i].priority, a.places[i].on);
      executions.push_back(report::bound_execution(models_[i]));
    }
    std::vector<Execution*> served_by;
    for (const auto& e : executions) served_by.push_back(e.get());
    profile::GpuServing serving(served_by);
    std::vector<double> rates(models_.size(), c_.rate);
    if (a.others_rate > 0) std::fill(rates.begin() + 1, rates.end(), a.others_rate);
    report::Arranged ran{a.name, a.how, serving.serve(c_.seconds, rates, a.turns)};
    for (size_t i = 0; i < ran.served.size(); ++i)
      if (ran.served[i].response_us.empty())
        fail("{} answered no request in {} s beside the others", found_.names[i], c_.seconds);
    const auto [seen, runs] = serving.traced(traced_s, rates, a.turns);
    for (size_t i = 0; i < seen.size(); ++i) ran.served[i].last = seen[i].last, ran.served[i].step_us = seen[i].step_us;
    if (losses)
      for (size_t i = 0; i < models_.size(); ++i)
        found_.losses.push_back(profile::gpu_loss(i, work_, runs, found_.alone[i].steps.size()));
    found_.arranged.push_back(std::move(ran));
  }

  /// A process for each model. Where MPS runs, it shares the GPU among them; else they take turns on it.
  void run_processes() {
    const bool shared = std::getenv("CUDA_MPS_PIPE_DIRECTORY") || std::filesystem::exists("/tmp/nvidia-mps");
    report::Arranged ran{shared ? "processes, through MPS" : "processes", "serve each model from a process of its own", {}};
    stage(ran.name);
    std::vector<std::unique_ptr<Service>> services;
    for (const std::string& path : paths_) {
      services.push_back(std::make_unique<Service>(m_, std::vector{path}, Place{}));
      services.back()->ready();
    }
    for (const auto& s : services) s->go(c_.seconds, c_.rate);
    for (const auto& s : services) ran.served.push_back(std::move(s->answer(c_.seconds + 120).at(0)));
    found_.arranged.push_back(std::move(ran));
  }

  /// Those that the driver and the device allow.
  std::vector<GpuArrangement> arrangements() const {
    std::vector<GpuArrangement> list{{"requests in turn", "run one request at a time: a lock around Session::run", {}, true}};
    const size_t others = models_.size() - 1;
    const auto of_others = [&](GpuPlace first, const GpuPlace& other) {
      std::vector<GpuPlace> places{std::move(first)};
      places.insert(places.end(), others, other);
      return places;
    };
    if (const std::string why = device::cuda::stream_places_missing(); !why.empty()) {
      note(why);
      return list;
    }
    list.push_back({"the first before the others",
                    "capture and run the first on a stream of the highest priority, the others on one of the lowest "
                    "(cuStreamCreateWithPriority)",
                    of_others({Priority::first, nullptr}, {Priority::last, nullptr})});
    const auto device = run::device_of(*models_[0].execution);
    const int all = device->info().multiprocessors;
    for (const int part : {2, 4}) {
      const int first = part == 2 ? all / 2 : all - all / 4;
      try {
        const auto [mine, theirs] = Multiprocessors::split(device, first / 8 * 8);
        list.push_back({fmt::format("{} multiprocessors for the first", mine->count()),
                        fmt::format("green contexts (cuGreenCtxCreate): {} multiprocessors for the first, {} for the others",
                                    mine->count(), theirs->count()),
                        of_others({Priority::usual, mine}, {Priority::usual, theirs})});
      } catch (const Error& e) {
        note(e.what());
        break;
      }
    }
    return list;
  }

 private:
  const ModelArguments& m_;
  const Contention& c_;
  report::Contended& found_;
  std::vector<std::string> paths_;
  std::vector<report::Prepared> models_;
  std::vector<profile::GpuAlone> work_;
  profile::Roof roof_;
};

}  // namespace

void contend_on_gpu(const ModelArguments& model, const Contention& c, report::Contended& found) {
  OnGpu together(model, c, found);
  found.gpu = true;
  together.alone();
  together.run({"as they are", "", {}}, true);
  if (!c.remedies) return;
  for (const GpuArrangement& a : together.arrangements()) {
    try {
      together.run(a);
    } catch (const Error& e) {
      const std::string what = e.what();
      note(fmt::format("{}: {}{}", a.name, what,
                       what.find("cuDNN") == what.npos ? "" : "\nPlans without cuDNN can: --tactics=-cudnn"));
    }
  }
  try {
    together.run_processes();
  } catch (const Error& e) {
    note(fmt::format("processes: {}", e.what()));
  }
  pace_others(c, found, [&](const Paced& p) { together.run({p.name, p.how, {}, false, p.rate}); });
}

}  // namespace smelt::cli
