#include "profile/gpu_serving.h"

#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/number.h"
#include "inspect/occupancy.h"
#include "profile/limiter.h"
#include "run/single_steps.h"

namespace smelt::profile {
namespace {

namespace cuda = device::cuda;

void add_waves(GpuWork& w, const cuda::Activity& a, const cuda::DeviceInfo& device) {
  const inspect::Multiprocessor* m = inspect::find_multiprocessor(device.arch);
  const auto of = [](const std::array<int, 3>& v) { return double{1} * v[0] * v[1] * v[2]; };
  if (!m || a.kind != cuda::Activity::Kind::kernel) return;
  const inspect::Occupancy o = inspect::occupancy(*m, {.threads = truncated<int>(of(a.block)),
                                                       .registers = a.registers,
                                                       .static_shared = a.static_shared_bytes,
                                                       .dynamic_shared = a.dynamic_shared_bytes});
  const double blocks = std::max(1, o.blocks);
  w.waves = of(a.grid) / (blocks * std::max(1, device.multiprocessors));
  const double registers = blocks * o.warps_per_block * static_cast<double>(o.registers_per_warp) / 65536;
  const double shared = blocks * static_cast<double>(o.shared_per_block) / static_cast<double>(m->shared);
  w.share = std::clamp(std::max({registers, shared, o.share(), blocks / m->blocks}), 0.01, 1.0);
}

/// One after the other, in the order in which they ask.
class Turns {
 public:
  void run(const std::function<void()>& request) {
    std::unique_lock lock(mutex_);
    const uint64_t mine = asked_++;
    next_.wait(lock, [&] { return served_ == mine; });
    lock.unlock();
    request();
    lock.lock();
    ++served_;
    next_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable next_;
  uint64_t asked_ = 0, served_ = 0;
};

double part(double us, double of) { return of > 0 ? std::min(1.0, us / of) : 0; }

}  // namespace

size_t TracedModel::all() const { return std::accumulate(pieces.begin(), pieces.end(), size_t{0}); }

std::vector<std::vector<TracedRun>> runs_of(std::span<const cuda::Activity> seen, std::span<const TracedModel> models) {
  std::vector<std::vector<TracedRun>> runs(models.size());
  for (size_t m = 0; m < models.size(); ++m) {
    const size_t all = models[m].all();
    for (const cuda::Activity& a : seen) {
      if (a.graph_node == 0 || !models[m].nodes.contains(a.graph_node)) continue;
      if (runs[m].empty() || runs[m].back().size() == all) runs[m].emplace_back();
      runs[m].back().push_back({static_cast<int64_t>(a.begin_ns), static_cast<int64_t>(a.end_ns)});
    }
    if (!runs[m].empty() && runs[m].back().size() != all)
      fail("a run is {} pieces of work on the GPU, of the last {} were seen", all, runs[m].back().size());
  }
  return runs;
}

std::vector<GpuWork> work_of(std::span<const TracedRun> runs, std::span<const cuda::Activity> first, const TracedModel& model,
                             const cuda::DeviceInfo& device, const std::vector<StepRow>& steps) {
  std::vector<GpuWork> work;
  std::vector<double> us, before;
  for (size_t step = 0; step < model.pieces.size(); ++step) {
    double in_step = 0;
    const size_t from = work.size();
    for (size_t k = 0; k < model.pieces[step]; ++k) {
      const size_t i = work.size();
      us.clear(), before.clear();
      for (const TracedRun& r : runs) {
        us.push_back(static_cast<double>(r[i].end_ns - r[i].begin_ns) * 1e-3);
        before.push_back(i > 0 ? std::max(0.0, static_cast<double>(r[i].begin_ns - r[i - 1].end_ns) * 1e-3) : 0);
      }
      GpuWork& w = work.emplace_back();
      w.name = first[i].name, w.step = step, w.us = median(us), w.before_us = median(before);
      add_waves(w, first[i], device);
      in_step += w.us;
    }
    if (step >= steps.size()) continue;
    const StepRow& row = steps[step];
    for (size_t i = from; i < work.size(); ++i) {
      GpuWork& w = work[i];
      w.compute = part(row.compute_us, in_step), w.memory = part(row.memory_us, in_step), w.l2 = w.memory;
      const auto counted = [&](double Counted::*of, double otherwise) {
        return row.counted && (*row.counted).*of >= 0 ? (*row.counted).*of : otherwise;  // not where it is NaN
      };
      if (w.is_copy()) continue;
      w.compute = counted(&Counted::compute, w.compute);
      w.memory = counted(&Counted::dram, w.memory);
      w.l2 = counted(&Counted::l2, w.l2);
    }
  }
  return work;
}

void put_on_one_clock(std::span<Served> served, std::span<const std::vector<TracedRun>> runs,
                      std::span<const TracedModel> models) {
  // A request begins before its work does, and ends after it.
  auto least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const auto first_of = [&](size_t m) { return runs[m].size() - served[m].last.size(); };  // of the runs whose requests are kept
  for (size_t m = 0; m < served.size(); ++m) {
    if (runs[m].size() < served[m].last.size() || runs[m].size() < served[m].response_us.size()) return;
    for (size_t r = 0; r < served[m].last.size(); ++r) {
      const TracedRun& run = runs[m][first_of(m) + r];
      least = std::max(least, served[m].last[r].begin_ns - run.front().begin_ns);
      most = std::min(most, served[m].last[r].end_ns - run.back().end_ns);
    }
  }
  if (least == std::numeric_limits<int64_t>::min()) return;
  const int64_t apart = least + (most - least) / 2;
  for (size_t m = 0; m < served.size(); ++m) {
    std::vector<double>& us = served[m].step_us;
    us.assign(models[m].pieces.size(), 0);
    for (size_t r = 0; r < served[m].last.size(); ++r) {
      ServedRun& request = served[m].last[r];
      const TracedRun& run = runs[m][first_of(m) + r];
      int64_t end = 0;
      size_t next = 0;
      for (size_t s = 0; s < models[m].pieces.size(); ++s) {
        int64_t begin = end;
        for (size_t k = 0; k < models[m].pieces[s]; ++k, ++next) {
          const int64_t at = run[next].begin_ns + apart - request.begin_ns;
          if (k == 0) begin = std::max(end, at);
          end = std::max({end, begin, run[next].end_ns + apart - request.begin_ns});
        }
        request.steps.push_back({begin, end});
        us[s] += static_cast<double>(end - begin) * 1e-3 / static_cast<double>(served[m].last.size());
      }
    }
  }
}

GpuServing::GpuServing(std::vector<Execution*> executions) : executions_(std::move(executions)) {
  for (Execution* e : executions_) {
    TracedModel model{{}, run::recorded_work(*e)};
    if (model.all() == 0)
      fail_unsupported("a model's run is not one CUDA graph{}{}", run::no_single_steps(*e).empty() ? "" : ": ",
                       run::no_single_steps(*e));
    device_ = run::device_of(*e);
    e->run();
    cuda::ActivityTrace trace(device_);
    e->run();
    std::vector<cuda::Activity> work = trace.stop();
    std::erase_if(work, [](const cuda::Activity& a) { return a.graph_node == 0; });
    for (const cuda::Activity& a : work) model.nodes.insert(a.graph_node);
    if (work.size() != model.all()) fail("{} pieces of work were recorded, {} were seen on the GPU", model.all(), work.size());
    models_.push_back(std::move(model)), first_.push_back(std::move(work));
  }
}

std::vector<Served> GpuServing::serve(double seconds, std::span<const double> rates, bool turns) {
  serve_for(std::min(0.3, 0.2 * seconds), rates, turns);  // until all are under way
  return serve_for(seconds, rates, turns);
}

std::vector<Served> GpuServing::serve_for(double seconds, std::span<const double> rates, bool turns) {
  std::vector<Served> served(executions_.size());
  std::vector<std::exception_ptr> failed(executions_.size());
  Turns one_at_a_time;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < executions_.size(); ++i)
      threads.emplace_back([&, i] {
        try {
          const std::function<void()> run = [&, i] { executions_[i]->run(); };
          const ServeOptions options{seconds, rates[i], turns ? [&] { one_at_a_time.run(run); } : run};
          served[i] = profile::serve(*executions_[i], options);
        } catch (...) {
          failed[i] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
  return served;
}

std::pair<std::vector<Served>, std::vector<std::vector<TracedRun>>> GpuServing::traced(double seconds,
                                                                                       std::span<const double> rates,
                                                                                       bool turns) {
  cuda::ActivityTrace trace(device_);
  std::vector<Served> served = serve_for(seconds, rates, turns);
  const std::vector<cuda::Activity> seen = trace.stop();
  std::vector<std::vector<TracedRun>> runs = runs_of(seen, models_);
  put_on_one_clock(served, runs, models_);
  return {std::move(served), std::move(runs)};
}

GpuAlone GpuServing::alone(size_t model, std::span<const TracedRun> runs, const Served& served,
                           const std::vector<StepRow>& steps) {
  GpuAlone a{work_of(runs, first_[model], models_[model], device_->info(), steps), 0};
  const double span = executions_[model]->run_timed(20);
  double work = 0, gaps = 0;
  for (const GpuWork& w : a.work) work += w.us, gaps += w.before_us;
  // A trace makes gaps longer: together they are what a run takes beside its work.
  const double left = std::max(0.0, span - work), scale = gaps > 0 ? std::min(1.0, left / gaps) : 0;
  for (GpuWork& w : a.work) w.before_us *= scale;
  a.beside_us = served.service_us.empty() ? 0 : std::max(0.0, median(served.service_us) - std::max(span, work));
  return a;
}

}  // namespace smelt::profile
