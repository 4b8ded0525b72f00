#include "profile/profile.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "profile/advice.h"
#include "profile/bench.h"
#include "profile/counted_kernels.h"
#include "profile/counted_steps.h"
#include "profile/fill.h"
#include "profile/gpu_others.h"
#include "profile/limiter.h"
#include "profile/others.h"
#include "run/single_steps.h"

namespace smelt::profile {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point t) { return std::chrono::duration<double, std::micro>(Clock::now() - t).count(); }

int64_t status_kib(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key)) return std::strtoll(line.c_str() + key.size() + 1, nullptr, 10);
  return 0;
}

/// The index of the number that is nearest to the median.
size_t middle_of(const std::vector<double>& v) {
  const double middle = median(v);
  const auto closest = std::ranges::min_element(v, {}, [&](double x) { return std::abs(x - middle); });
  return static_cast<size_t>(closest - v.begin());
}

/// The median over the half of the runs (three at least) of which the largest part was their own, each without what was not.
double median_alone(const std::vector<double>& values, const std::vector<double>& own) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return own[i]; });
  order.resize(std::min(order.size(), std::max<size_t>(3, order.size() / 2)));
  std::vector<double> kept;
  for (const size_t i : order) kept.push_back(values[i] * own[i]);
  return median(kept);
}

double us_of(int64_t begin_ns, int64_t end_ns) { return static_cast<double>(end_ns - begin_ns) / 1e3; }

/// The least that two readings of the clock lie apart: what taking its time adds to a step.
double clock_cost_us() {
  constexpr int readings = 1000;
  double least = INFINITY;
  Clock::time_point before = Clock::now();
  for (int i = 0; i < readings; ++i) {
    const Clock::time_point now = Clock::now();
    least = std::min(least, std::chrono::duration<double, std::micro>(now - before).count());
    before = now;
  }
  return least;
}

std::vector<std::string> common_scope(const StepInfo& step) {
  if (step.scopes.empty()) return {};
  std::vector<std::string> common = step.scopes.front();
  for (const auto& scope : step.scopes) {
    size_t n = 0;
    while (n < common.size() && n < scope.size() && common[n] == scope[n]) ++n;
    common.resize(n);
  }
  return common;
}

std::vector<ScopeRow> scopes_of(const std::vector<StepRow>& steps, double total_us) {
  std::vector<ScopeRow> rows;
  std::map<std::string, size_t> at;
  const auto row = [&](const std::string& path, int depth) -> ScopeRow& {
    const auto [i, fresh] = at.emplace(path, rows.size());
    if (fresh) rows.push_back({.path = path, .depth = depth});
    return rows[i->second];
  };
  row("", 0);
  for (const StepRow& s : steps) {
    std::vector<std::string> paths{""};
    for (const std::string& p : common_scope(s.step))
      if (!p.empty() && p != paths.back()) paths.push_back(p);
    for (size_t d = 0; d < paths.size(); ++d) {
      ScopeRow& r = row(paths[d], static_cast<int>(d));
      r.total_us += s.us.median;
      r.roof_share += s.roof_share * s.us.median;  // a sum of floors until the end
      r.calls += 1;
      r.bytes += s.step.bytes;
      r.flops += s.step.flops;
      if (d + 1 == paths.size()) r.self_us += s.us.median;
    }
  }
  for (ScopeRow& r : rows) {
    r.share = total_us > 0 ? r.total_us / total_us : 0;
    r.roof_share = r.total_us > 0 ? r.roof_share / r.total_us : 0;
  }
  return rows;
}

std::vector<MemoryRow> memory_of(const Plan& plan, const std::vector<StepRow>& steps) {
  std::vector<MemoryRow> rows;
  const Graph& g = plan.graph();
  for (size_t i = 0; i < g.value_count(); ++i) {
    const Value& v = g.value(static_cast<ValueId>(i));
    if (v.is_constant() && !g.readers(static_cast<ValueId>(i)).empty())
      rows.push_back(
          {v.name, "weight", fmt::format("{}{}", smelt::name(v.type), to_string(v.constant.shape())), v.constant.nbytes()});
  }
  for (const StepRow& s : steps) {
    int64_t bytes = 0;
    std::string shapes;
    for (const std::string& text : s.step.output_shapes) {
      shapes += (shapes.empty() ? "" : ", ") + text;
      const size_t bracket = text.find('[');
      int64_t n = 1;
      for (const char* p = bracket == std::string::npos ? "" : text.c_str() + bracket + 1; *p && *p != ']';) {
        char* end = nullptr;
        n *= std::strtoll(p, &end, 10);
        p = end == p ? p + 1 : *end == ',' ? end + 2 : end;
      }
      if (const auto type = parse_dtype(std::string_view(text).substr(0, bracket))) bytes += smelt::bytes(*type, n);
    }
    rows.push_back({s.step.name, "activation", shapes, bytes});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const MemoryRow& a, const MemoryRow& b) { return a.bytes > b.bytes; });
  return rows;
}

void count_on_gpu(Profile& p, Execution& execution, const ProfileOptions& options) {
  if (p.roof.bytes_per_s > 0) p.limits_from = "model and occupancy";
  p.not_counted = "nobody was asked to count";
  if (options.counters.empty()) return;
  const CountedSteps counted = count_kernels(execution, p.steps, p.roof.launch_us, options.counters);
  p.not_counted = counted.missing;
  if (!counted.by.empty()) p.limits_from = fmt::format("counters ({})", counted.by), p.not_counted.clear();
}

}  // namespace

double Roof::peak(DType t) const {
  if (const auto at = flops_per_s.find(t); at != flops_per_s.end()) return at->second;
  const auto f32 = flops_per_s.find(DType::f32);
  return f32 == flops_per_s.end() ? 0 : f32->second;
}

double Roof::floor_us(double bytes, double flops, DType t) const {
  const double memory = bytes_per_s > 0 ? bytes / bytes_per_s * 1e6 : 0;
  return std::max(memory, peak(t) > 0 ? flops / peak(t) * 1e6 : 0);
}

std::string_view name(Limiter l) {
  constexpr std::string_view names[] = {"compute", "memory", "latency", "launch", ""};
  return names[static_cast<size_t>(l)];
}

int64_t peak_resident_bytes() { return status_kib("VmHWM:") * 1024; }
int64_t resident_bytes() { return status_kib("VmRSS:") * 1024; }

Profile profile(const Plan& plan, Execution& execution, const ProfileOptions& options, const Roof& roof) {
  if (options.iterations < 1 || options.warmup < 0)
    fail_usage("{} iterations and {} of warm-up, expected at least 1 and 0", options.iterations, options.warmup);
  Profile p;
  p.roof = roof;
  GpuUse gpu_use;
  if (!execution.on_gpu())
    p.clock_us = clock_cost_us();
  else if (const auto device = run::device_of(execution))
    gpu_use = watch_idle_gpu(device->info().uuid);
  std::vector<StepTime> times;
  for (int i = 0; i < options.warmup; ++i) execution.run();
  execution.run_profiled(times);

  // Plain and profiled runs in turn, so that the cost of taking the times is not hidden.
  std::vector<double> latencies, gaps, profiled, own;
  std::vector<std::vector<StepTime>> runs;
  OthersMeter others;
  const int threads = plan.options().threads > 0 ? plan.options().threads : threads::usable_cores();
  const auto begin = Clock::now();
  for (int i = 0; i < options.iterations && (i < 3 || us_since(begin) < options.max_seconds * 1e6); ++i) {
    if (options.progress)
      options.progress(std::max(static_cast<double>(i) / options.iterations, us_since(begin) * 1e-6 / options.max_seconds));
    const int together = runs_per_sample(execution);
    others.begin();
    latencies.push_back(execution.run_timed(together));
    others.end(latencies.back(), together);
    others.begin();
    const auto t = Clock::now();
    execution.run_profiled(times);
    own.push_back(own_part(others.taken(), us_since(t), threads));
    // By the run's own times: making room for them and asking for them is not part of the run, and takes longer than a short one.
    const int64_t run_begin = execution.on_gpu() && !times.empty() ? times.front().begin_ns : 0;
    const double whole = times.empty() ? 0 : us_of(run_begin, times.back().end_ns);
    double inside = 0;
    for (const StepTime& s : times) inside += us_of(s.begin_ns, s.end_ns);
    gaps.push_back(std::max(0.0, whole - inside - p.clock_us));
    profiled.push_back(whole);
    runs.push_back(times);
  }
  p.latency_us = summarize(latencies);
  p.gaps_us = execution.on_gpu() ? median(gaps) : median_alone(gaps, own);
  p.timeline = runs[middle_of(profiled)];

  const auto quietest = static_cast<size_t>(std::ranges::max_element(own) - own.begin());
  const std::vector<StepInfo>& steps = execution.steps();
  std::vector<double> samples(runs.size());
  for (size_t s = 0; s < steps.size(); ++s) {
    for (size_t r = 0; r < runs.size(); ++r) {
      const StepTime t = s < runs[r].size() ? runs[r][s] : StepTime{};
      samples[r] = std::max(0.0, us_of(t.begin_ns, t.end_ns) - p.clock_us);
    }
    p.steps.push_back({.step = steps[s], .us = summarize(samples)});
    if (!execution.on_gpu()) p.steps.back().alone_us = samples[quietest] * own[quietest];
    p.steps_us += p.steps.back().us.median;
  }
  for (StepRow& row : p.steps) {
    row.share = p.steps_us > 0 ? row.us.median / p.steps_us : 0;
    judge(row, roof);
  }
  if (execution.on_gpu()) {
    add_fills(p.steps, run::planned_run(execution));
    count_on_gpu(p, execution, options);
  } else if (roof.bytes_per_s > 0) {
    p.not_counted = count_steps(execution, p.steps, roof);
    p.limits_from = p.not_counted.empty() ? "model and counters" : "model";
  }
  p.others = execution.on_gpu() ? other_gpu_work(std::move(gpu_use), latencies, p.steps_us + p.gaps_us) : others.summary(threads);
  p.inside = inner_rows(execution, p.steps, roof, std::min(3, options.iterations));
  if (roof.bytes_per_s > 0) judge_by_inside(p.steps, p.inside);
  p.scopes = scopes_of(p.steps, p.steps_us);
  p.memory = memory_of(plan, p.steps);
  p.footprint = execution.memory();
  for (const StepRow& row : p.steps)
    if (p.held(row) > p.peak_bytes) p.peak_bytes = p.held(row), p.peak_step = row.step.name.empty() ? row.step.op : row.step.name;
  p.peak_host_bytes = peak_resident_bytes();
  p.model = plan.graph().model.path;
  p.advice = advise(p, {.on_gpu = execution.on_gpu(),
                        .threads = threads,
                        .cores = threads::usable_cores(),
                        .tuning_level = plan.build_info().tuning_level});
  return p;
}

void profile_copies(Profile& p, Execution& there, Execution& host, const ProfileOptions& options) {
  if (!there.on_gpu()) return;
  const CopiedRuns whole = time_copied_runs(host, there, options.max_seconds / 4);
  std::vector<double> sums;
  HostRun run;
  host.run_profiled(run.steps, &run.copies);
  std::vector<HostRun> runs;
  const auto begin = Clock::now();
  for (int i = 0; i < options.iterations && (i < 3 || us_since(begin) < options.max_seconds * 1e6); ++i) {
    host.run_profiled(run.steps, &run.copies);
    double sum = 0;
    for (const CopyTime& c : run.copies) sum += us_of(c.begin_ns, c.end_ns);
    sums.push_back(sum);
    runs.push_back(run);
  }
  p.host_latency_us = summarize(whole.host_us);
  p.device_latency_us = p.host_latency_us.median - whole.saved_us();
  p.host_run = runs[middle_of(sums)];
  std::vector<double> samples;
  for (size_t c = 0; c < p.host_run.copies.size(); ++c) {
    samples.clear();
    for (const HostRun& r : runs)
      if (c < r.copies.size()) samples.push_back(us_of(r.copies[c].begin_ns, r.copies[c].end_ns));
    const CopyTime& copy = p.host_run.copies[c];
    p.copies.push_back({copy.name, copy.way, copy.bytes, summarize(samples)});
  }
}

}  // namespace smelt::profile
