#include "profile/fill.h"

#include <fmt/core.h>

#include <cmath>

#include "inspect/occupancy.h"

namespace smelt::profile {
namespace {

enum class Waits : uint8_t { few_blocks, last_wave, few_warps, neither };

/// Why a launch that is far from both roofs may be so.
Waits waits(const Fill& f) {
  if (f.blocks < f.multiprocessors) return Waits::few_blocks;
  const double waves = f.waves();
  if (waves < 4 && waves / std::ceil(waves) < 0.75) return Waits::last_wave;
  // An eighth of the warps hides no latency with a load or two each; a quarter may.
  if (f.occupancy < 0.25) return Waits::few_warps;
  return Waits::neither;
}

/// The part of its time that a launch would take if it filled the GPU.
double filled(const Fill& f) {
  switch (waits(f)) {
    case Waits::few_blocks: return f.busy();
    case Waits::last_wave: return f.waves() / std::ceil(f.waves());
    default: return 1;
  }
}

std::string reason(const Fill& f) {
  switch (waits(f)) {
    case Waits::few_blocks: return fmt::format("{} blocks on {} multiprocessors", f.blocks, f.multiprocessors);
    case Waits::last_wave:
      return fmt::format("{} blocks are {:.2f} waves of {}", f.blocks, f.waves(), f.multiprocessors * f.blocks_each);
    case Waits::few_warps: return fmt::format("{:.0f}% of the warps that fit, for {}", 100 * f.occupancy, f.limited_by);
    case Waits::neither: break;
  }
  return "";
}

/// The launch that most of a step's time goes to, as far as can be told: the one of the most threads.
const Fill* largest(const StepRow& row) {
  const auto at = std::ranges::max_element(row.fills, {}, [](const Fill& f) { return f.blocks * f.threads; });
  return at == row.fills.end() ? nullptr : &*at;
}

}  // namespace

std::optional<Fill> fill_of(const ops::PlannedLaunch& l, const run::PlannedRun& run) {
  const inspect::Multiprocessor* m = inspect::find_multiprocessor(run.arch);
  if (!l.cubin || !m) return std::nullopt;
  const device::cuda::KernelResources& r = l.cubin->kernel(l.entry);
  const auto of = [](const auto& v) { return int64_t{v[0]} * v[1] * v[2]; };
  const inspect::Launch launch{.threads = static_cast<int>(of(l.shape.block)),
                               .registers = r.registers,
                               .static_shared = r.static_shared_bytes,
                               .dynamic_shared = l.shape.shared_bytes};
  const inspect::Occupancy o = inspect::occupancy(*m, launch);
  const std::vector<std::string> changes = inspect::what_if(*m, launch);
  return Fill{l.source->name,      of(l.shape.grid), launch.threads, r.registers, launch.shared(),
              run.multiprocessors, o.blocks,         o.share(),      o.limiter(), changes.empty() ? "" : changes.front()};
}

void add_fills(std::vector<StepRow>& rows, const run::PlannedRun& run) {
  for (size_t i = 0; i < std::min(rows.size(), run.steps.size()); ++i) {
    for (const ops::PlannedLaunch& l : run.steps[i].launches)
      if (auto f = fill_of(l, run)) rows[i].fills.push_back(std::move(*f));
    const Fill* f = largest(rows[i]);
    if (!f || rows[i].limiter != Limiter::latency) continue;
    if (const std::string why = reason(*f); !why.empty()) rows[i].because += "; " + why;
  }
}

void advise_on_fills(const Profile& p, std::vector<Advice>& all) {
  struct Kind {
    Waits waits;
    const char *what, *why;
    Advice advice{};
  };
  Kind kinds[] = {{Waits::few_blocks, "give every multiprocessor a block: split K, smaller tiles, a larger batch",
                   "have fewer blocks than there are multiprocessors"},
                  {Waits::last_wave, "fill the last wave: another tile, or persistent blocks",
                   "leave most multiprocessors idle in their last wave"},
                  {Waits::few_warps, "have more warps, or more loads of each, under way", "have few warps on a multiprocessor"}};
  for (Kind& k : kinds) {
    for (const StepRow& r : p.steps) {
      const Fill* f = largest(r);
      if (!f || r.limiter != Limiter::latency || waits(*f) != k.waits) continue;
      // Of few warps nobody knows what more of them would win: what the roof leaves.
      k.advice.us += std::min(r.at_stake_us, k.waits == Waits::few_warps ? r.at_stake_us : r.own_us() * (1 - filled(*f)));
      k.advice.steps.push_back(r.step.name);
      if (k.waits == Waits::few_warps && !f->what_if.empty() && k.advice.what.empty())
        k.advice.what = fmt::format("{}: {}", k.what, f->what_if);
    }
    if (k.advice.steps.empty()) continue;
    if (k.advice.what.empty()) k.advice.what = k.what;
    k.advice.why = fmt::format("{} step{} {}", k.advice.steps.size(), k.advice.steps.size() == 1 ? "" : "s", k.why);
    k.advice.from = "roof";  // the tuner has tried other tiles and splits where it measured
    all.push_back(std::move(k.advice));
  }
}

}  // namespace smelt::profile
