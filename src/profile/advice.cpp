#include "profile/advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

#include "profile/fill.h"
#include "profile/limiter.h"

namespace smelt::profile {
namespace {

/// A good kernel's share of the roof: what is promised, where a step reaches less.
constexpr double good = 0.8;

std::string rate(double flops_per_s) {
  return flops_per_s >= 1e12 ? fmt::format("{:.3g} TFLOP/s", flops_per_s / 1e12)
                             : fmt::format("{:.3g} GFLOP/s", flops_per_s / 1e9);
}
std::string time(double us) {
  if (us >= 1e6) return fmt::format("{:.3g} s", us / 1e6);
  return us >= 1000 ? fmt::format("{:.3g} ms", us / 1000) : fmt::format("{:.3g} µs", us);
}
std::string steps_of(size_t n) { return fmt::format("{} step{}", n, n == 1 ? "" : "s"); }

/// Steps that have something in common, and what each may win.
class Group {
 public:
  void add(const StepRow& row, double us) {
    if (us <= 0) return;
    won_.emplace_back(us, row.step.name.empty() ? row.step.op : row.step.name);
    us_ += us;
  }
  size_t size() const { return won_.size(); }
  double us() const { return us_; }
  void put(std::vector<Advice>& all, std::string what, std::string why, std::string from, std::string option = {}) const {
    if (won_.empty()) return;
    Advice a{std::move(what), std::move(why), us_, std::move(from), {}, std::move(option)};
    auto sorted = won_;
    std::ranges::stable_sort(sorted, std::greater(), [](const auto& w) { return w.first; });
    for (const auto& [us, name] : sorted) a.steps.push_back(name);
    all.push_back(std::move(a));
  }

 private:
  std::vector<std::pair<double, std::string>> won_;
  double us_ = 0;
};

bool by_reference(const StepRow& r) { return r.step.tactic == "reference"; }
bool runs_bodies(const StepRow& r) { return r.step.tactic == "plan"; }

void advise_on_references(const Profile& p, std::vector<Advice>& all) {
  Group g;
  for (const StepRow& r : p.steps)
    if (by_reference(r)) g.add(r, r.own_us() - r.floor_us() / good);
  for (const InnerRow& r : p.inside)
    if (by_reference(r.row)) g.add(r.row, r.us - r.calls * r.row.floor_us() / good);
  g.put(all, "replace or rewrite the operators that run in plain loops",
        fmt::format("{} run{} in the loops of the operators' references, which are written to be right, not fast",
                    steps_of(g.size()), g.size() == 1 ? "s" : ""),
        "model");
}

/// A narrower type does more operations a second, and has half the bytes.
void advise_on_precision(const Profile& p, std::vector<Advice>& all) {
  const double wide = p.roof.peak(DType::f32);
  for (const auto& [type, name] : {std::pair{DType::bf16, "bf16"}, {DType::f16, "fp16"}}) {
    const auto at = p.roof.flops_per_s.find(type);
    if (at == p.roof.flops_per_s.end() || at->second < 1.2 * wide) continue;
    Group g;
    for (const StepRow& r : p.steps) {
      if (computes_in(r.step) != DType::f32 || by_reference(r) || runs_bodies(r)) continue;  // bodies stay as they are
      if (r.limiter == Limiter::compute)  // it stays as far from its roof, or meets the memory's
        g.add(r, r.own_us() - std::max(r.own_us() * wide / at->second, r.memory_us / 2));
      else if (r.limiter == Limiter::memory)
        g.add(r, std::min(r.own_us(), r.memory_us) / 2);
      else if (r.limiter == Limiter::latency)  // what it waits for is not known: no more than its share of either roof
        g.add(r, r.floor_us() - std::max(r.compute_us * wide / at->second, r.memory_us / 2));
    }
    g.put(all, fmt::format("convert it to {}: --precision {}", name, name),
          fmt::format("{} compute or move f32; arithmetic reaches {} in f32 and {} in {}, and bytes are half", steps_of(g.size()),
                      rate(wide), rate(at->second), name),
          "roof", fmt::format("--precision {}", name));
    return;
  }
}

/// Products in tf32 keep f32's bytes; tensor cores take them at half the rate of 16 bits.
void advise_on_tf32(const Profile& p, std::vector<Advice>& all) {
  const double wide = p.roof.peak(DType::f32), narrow = p.roof.peak(DType::f16) / 2;
  if (narrow < 1.2 * wide) return;
  Group g;
  for (const StepRow& r : p.steps)
    if (r.step.flops > 0 && r.step.problem.find(":f32>f32:") != std::string::npos)  // a convolution's or a product's
      g.add(r, r.own_us() - std::max(r.own_us() * wide / narrow, std::min(r.own_us(), r.memory_us)));
  g.put(all, "let products round their operands to tf32: --precision tf32",
        fmt::format("{} multiply f32; tensor cores take tf32", steps_of(g.size())), "roof", "--precision tf32");
}

void advise_on_small_steps(const Profile& p, std::vector<Advice>& all) {
  Group launches;
  for (const StepRow& r : p.steps)
    if (r.limiter == Limiter::launch && !runs_bodies(r)) launches.add(r, r.own_us() - r.floor_us());
  launches.put(
      all, "give the tiny steps more to do at a time: a larger batch, or one step of several",
      fmt::format("{} do{} less work than starting {} takes ({})", steps_of(launches.size()), launches.size() == 1 ? "es" : "",
                  launches.size() == 1 ? "it" : "each of them", time(p.roof.launch_us)),
      "roof");
  Group moves;
  for (const StepRow& r : p.steps)
    if (r.limiter == Limiter::memory && only_moves(r.step)) moves.add(r, r.own_us());
  moves.put(all, "do without copies: let the steps before or behind them read and write the elements where they lie",
            fmt::format("{} only move{} elements", steps_of(moves.size()), moves.size() == 1 ? "s" : ""), "roof");
}

void advise_on_kernels(const Profile& p, const Surroundings& where, std::vector<Advice>& all) {
  Group compute, memory, latency, all_kernels;
  const auto bound = [&](const StepRow& r, double won) {
    if (r.limiter == Limiter::compute) compute.add(r, won);
    if (r.limiter == Limiter::memory && !only_moves(r.step)) memory.add(r, won);
    if (r.limiter == Limiter::latency) latency.add(r, won);
  };
  for (const InnerRow& r : p.inside)
    if (!by_reference(r.row) && !runs_bodies(r.row)) bound(r.row, r.us - r.calls * r.row.floor_us() / good);
  for (const StepRow& r : p.steps) {
    if (by_reference(r) || runs_bodies(r)) continue;
    const double won = r.own_us() - r.floor_us() / good;
    bound(r, won);
    if (r.limiter == Limiter::compute || (r.limiter == Limiter::memory && !only_moves(r.step)) || where.on_gpu)
      all_kernels.add(r, won);
  }
  // Of twelve models level 2 made none more than 4% faster than level 1 (bench/results/cpu-advice-2026-11-25.txt): once kernels are
  // measured, nothing more is to be had of measuring.
  if (where.tuning_level == 0)
    all_kernels.put(all, "let kernels be measured: --tuning-level 1",
                    fmt::format("{} reach less than {:.0f}% of their roof, and nobody measured what else runs them",
                                steps_of(all_kernels.size()), 100 * good),
                    "roof", "--tuning-level 1");
  // What lies beyond the roof is a bound and no promise: 3 to 31% of a run on that processor, where nobody knew how to win it.
  compute.put(
      all, "do less arithmetic: a smaller input, a narrower type or a smaller model",
      fmt::format("{} are limited by arithmetic, and reach less than {:.0f}% of its roof", steps_of(compute.size()), 100 * good),
      "roof");
  memory.put(
      all,
      where.on_gpu ? "have more bytes under way: wider loads, more of them before the first is used"
                   : "move fewer bytes: a narrower type, or rows that stay in the cache",
      fmt::format("{} are limited by memory, and reach less than {:.0f}% of its bandwidth", steps_of(memory.size()), 100 * good),
      "roof");
  latency.put(all,
              where.on_gpu ? "have more work under way at a time: split K, smaller tiles, a larger batch"
                           : "give it independent work: a larger batch, longer rows, or another operator",
              fmt::format("{} wait{} for what is under way, neither memory nor arithmetic being busy", steps_of(latency.size()),
                          latency.size() == 1 ? "s" : ""),
              "roof");
}

void advise_on_the_rest(const Profile& p, const Surroundings& where, std::vector<Advice>& all) {
  if (!where.on_gpu && where.threads < where.cores) {
    Group g;
    const double part = 1 - static_cast<double>(where.threads) / where.cores;
    for (const StepRow& r : p.steps)
      if (r.limiter == Limiter::compute) g.add(r, r.own_us() * part);
    g.put(all, fmt::format("use all cores: --threads {}", where.cores),
          fmt::format("it uses {} of {}, and {} are limited by arithmetic", where.threads, where.cores, steps_of(g.size())),
          "model", fmt::format("--threads {}", where.cores));
  }
  // Taking the times makes gaps longer: on the processor, no more of them is there than a run has beside its steps.
  const double beside = std::max(0.0, p.latency_us.median - p.others.cost_us - p.steps_us);
  if (const double gaps = where.on_gpu ? p.gaps_us : std::min(p.gaps_us, beside); gaps > 0)
    all.push_back({"have fewer, larger steps",
                   where.on_gpu ? fmt::format("between {} nothing runs for {} in all", steps_of(p.steps.size()), time(gaps))
                                : fmt::format("between {} the host has {} to do", steps_of(p.steps.size()), time(gaps)),
                   gaps,
                   where.on_gpu ? "roof" : "measured",
                   {}});
  if (const OtherWork& o = p.others; where.on_gpu && o.disturbed > 0 && o.cost_us > 0)
    all.push_back({"keep other work off this GPU, or give it less: smelt profile A --with B --device gpu measures what helps",
                   fmt::format("others kept it busy for {}% of the time while this did nothing; {} of {} runs took longer",
                               o.gpu.busy_percent, o.disturbed, o.runs),
                   o.cost_us,
                   "measured",
                   {}});
  else if (o.disturbed > 0 && o.cost_us > 0)
    all.push_back({"keep other work off these cores, or give it less of them: smelt profile A --with B measures what helps",
                   fmt::format("it took cores during {} of {} measurements: threads waited {} for one in all", o.disturbed,
                               o.runs, time(o.waited_us)),
                   o.cost_us,
                   o.cost_measured ? "measured" : "waiting",
                   {}});
}

}  // namespace

void advise_on_copies(Profile& p) {
  // Both kinds of runs are measured, which no sum of the copies' times comes near: the host takes part in them, and waits.
  const double saved = p.host_latency_us.median - p.device_latency_us;
  if (p.copies.empty() || p.device_latency_us <= 0 || saved <= 0) return;
  p.advice.push_back({std::string(keep_on_gpu),
                      fmt::format("{} copies between host and device: runs from and to the host's memory take {}, on the GPU {}",
                                  p.copies.size(), time(p.host_latency_us.median), time(p.device_latency_us)),
                      saved,
                      "measured",
                      {}});
  rank(p.advice, std::max(p.latency_us.median, p.host_latency_us.median));
}

void rank(std::vector<Advice>& advice, double run_us) {
  for (Advice& a : advice) a.us = std::min(a.us, run_us);  // an estimate by bytes may be beyond what there is to save
  std::erase_if(advice, [&](const Advice& a) { return a.us < 0.005 * run_us; });
  std::ranges::stable_sort(advice, std::greater(), [](const Advice& a) { return std::pair(a.from != "roof", a.us); });
}

std::vector<Advice> advise(const Profile& p, const Surroundings& where) {
  std::vector<Advice> all;
  advise_on_references(p, all);
  if (p.roof.bytes_per_s > 0) {
    advise_on_precision(p, all);
    if (where.on_gpu) advise_on_tf32(p, all);
    advise_on_small_steps(p, all);
    advise_on_kernels(p, where, all);
    advise_on_fills(p, all);
  }
  advise_on_the_rest(p, where, all);
  rank(all, p.latency_us.median);
  return all;
}

}  // namespace smelt::profile
