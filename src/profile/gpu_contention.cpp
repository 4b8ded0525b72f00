#include "profile/gpu_contention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace smelt::profile {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr int requests_played = 40;  // of the model that answers fewest, beside those before it settles
constexpr int settling = 10;         // requests
// Fitted to twelve pairs of models on an H100, all of which they bring within a fifth (bench/results/gpu-contention-2026-11-26.txt):
constexpr double beside = 1.2;    // what a kernel takes longer beside one that has a few multiprocessors, over their part of all
constexpr double start_us = 1.2;  // what one begins later while another is there
constexpr double tail = 0.15;     // of a wave's time, over which its blocks end one after the other
constexpr double tail_parts = 4;  // in which they do
constexpr double most_events = 3e6;  // played at most

/// A model's run as it is played: waits before its next piece, or has a piece on the GPU.
struct Player {
  const GpuAlone* model = nullptr;
  double rate_us = 0;  // between two requests; 0: one after the other
  size_t piece = 0;
  bool on_gpu = false;
  double waits_us = 0;     // before the piece comes, while it is not on the GPU
  double left = 0;         // of the piece that is, 1 at its beginning
  double came = 0;         // when it came
  double arrival = 0;      // of the request
  double response_us = 0;  // of those counted
  int served = 0;

  const GpuWork& work() const { return model->work[piece]; }
  double alone_us() const {
    double us = model->beside_us;
    for (const GpuWork& w : model->work) us += w.before_us + w.us;
    return us;
  }
};

/// Whether waves of a kernel wait behind the one that runs.
bool more_waves(const Player& p) { return p.left * std::ceil(p.work().waves - 1e-9) > 1 + 1e-9; }

double waves_of(const Player& p) { return std::max(1.0, std::ceil(p.work().waves - 1e-9)); }

/// In how many parts of its last wave's tail a piece still is; all of them before that.
double parts_left(const Player& p) { return std::min(tail_parts, std::ceil(p.left * waves_of(p) / tail * tail_parts - 1e-6)); }

/// How much of a wave it has under way now, alone: all of it while others wait, then the rest, until its blocks end.
double wave_of(const Player& p) {
  if (more_waves(p)) return 1;
  const double waves = p.work().waves, rest = waves - std::floor(waves + 1e-9);
  return (rest > 1e-9 ? rest : 1) * parts_left(p) / tail_parts;
}

/// How fast each piece on the GPU goes, as a part of its speed alone.
std::vector<double> speeds(const std::vector<Player>& players) {
  std::vector<double> speed(players.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < players.size(); ++i)
    if (players[i].on_gpu) order.push_back(i);
  std::ranges::sort(order, {}, [&](size_t i) { return players[i].came; });
  double free = 1;
  std::vector<double> has(players.size());  // of the multiprocessors' time
  for (const size_t i : order) {
    if (players[i].work().is_copy()) {
      speed[i] = 1;
      continue;
    }
    // While waves wait, what a block leaves goes to the kernel's next one.
    const double wave = wave_of(players[i]), want = wave * players[i].work().share, gets = std::min(want, free);
    free -= more_waves(players[i]) ? free : gets;
    speed[i] = gets / want;
    has[i] = wave * speed[i];
  }
  for (const size_t i : order) {
    double others = 0;
    for (const size_t k : order) others += k == i ? 0 : has[k];
    speed[i] /= 1 + beside * others / (1 + (beside - 1) * others);  // half as fast beside one that has as much as there is
  }
  for (const auto takes : {&GpuWork::compute, &GpuWork::memory, &GpuWork::l2}) {
    double load = 0;
    for (const size_t i : order) load += players[i].work().*takes * speed[i];
    if (load <= 1) continue;
    // What takes little of it waits little for it.
    for (const size_t i : order) speed[i] /= 1 + (load - 1) * std::min(1.0, players[i].work().*takes * 2);
  }
  return speed;
}

/// Microseconds until this piece begins its last wave, or a part of that wave's tail, or ends, at this speed.
double until_change(const Player& p, double speed) {
  if (speed <= 0) return never;
  const double left = p.left * waves_of(p);  // in waves
  const double next = left > 1 + 1e-9 ? 1 : left > tail + 1e-6 ? tail : std::max(0.0, parts_left(p) - 1) * tail / tail_parts;
  return (left - next) / waves_of(p) * p.work().us / speed;
}

/// `shared`: others' work is on the GPU.
void next_piece(Player& p, double now, bool shared) {
  p.on_gpu = false;
  ++p.piece;
  if (p.piece < p.model->work.size()) {
    p.waits_us = p.work().before_us + (shared ? start_us : 0);
    return;
  }
  const double end = now + p.model->beside_us;
  if (++p.served > settling) p.response_us += end - p.arrival;
  p.arrival = p.rate_us > 0 ? p.arrival + p.rate_us : end;
  p.piece = 0;
  p.waits_us = std::max(end, p.arrival) - now + p.work().before_us;
}

double overlap(const Interval& a, const Interval& b) {
  return static_cast<double>(std::max<int64_t>(0, std::min(a.end_ns, b.end_ns) - std::max(a.begin_ns, b.begin_ns))) * 1e-3;
}

/// All pieces of the other models, by their beginnings.
struct Other {
  Interval at;
  const GpuWork* work;
};
std::vector<Other> others_of(size_t model, std::span<const GpuAlone> alone, std::span<const std::vector<TracedRun>> together) {
  std::vector<Other> all;
  for (size_t m = 0; m < together.size(); ++m) {
    if (m == model) continue;
    for (const TracedRun& run : together[m])
      for (size_t i = 0; i < std::min(run.size(), alone[m].work.size()); ++i) all.push_back({run[i], &alone[m].work[i]});
  }
  std::ranges::sort(all, {}, [](const Other& o) { return o.at.begin_ns; });
  return all;
}

}  // namespace

std::vector<double> predicted_gpu_slow_downs(std::span<const GpuAlone> models, double rate) {
  std::vector<Player> players;
  for (const GpuAlone& m : models) {
    if (m.work.empty()) return std::vector<double>(models.size(), 1);
    Player& p = players.emplace_back();
    p.model = &m, p.rate_us = rate > 0 ? 1e6 / rate : 0, p.waits_us = p.work().before_us;
  }
  double now = 0;
  const auto done = [&] {
    return std::ranges::all_of(players, [](const Player& p) { return p.served >= settling + requests_played; });
  };
  for (double events = 0; events < most_events && !done(); ++events) {
    const std::vector<double> speed = speeds(players);
    double step = never;
    for (size_t i = 0; i < players.size(); ++i)
      step = std::min(step, players[i].on_gpu ? until_change(players[i], speed[i]) : players[i].waits_us);
    if (step == never) break;
    now += step;
    for (size_t i = 0; i < players.size(); ++i) {
      Player& p = players[i];
      if (!p.on_gpu) {
        p.waits_us -= step;
        if (p.waits_us <= 1e-9) p.on_gpu = true, p.left = 1, p.came = now;
        continue;
      }
      p.left -= p.work().us > 0 ? step * speed[i] / p.work().us : 1;
      if (p.left > 1e-9) continue;
      next_piece(p, now, std::ranges::any_of(players, [&](const Player& o) { return &o != &p && o.on_gpu; }));
    }
  }
  std::vector<double> slow;
  for (const Player& p : players) {
    const int counted = p.served - settling;
    slow.push_back(counted > 0 && p.alone_us() > 0 ? std::max(1.0, p.response_us / counted / p.alone_us()) : 1);
  }
  return slow;
}

GpuLoss gpu_loss(size_t model, std::span<const GpuAlone> alone, std::span<const std::vector<TracedRun>> together, size_t steps) {
  GpuLoss loss;
  loss.steps.resize(steps);
  const std::vector<GpuWork>& work = alone[model].work;
  const std::vector<Other> others = others_of(model, alone, together);
  int64_t longest = 0;
  for (const Other& o : others) longest = std::max(longest, o.at.end_ns - o.at.begin_ns);
  const auto runs = static_cast<double>(together[model].size());
  if (runs == 0) return loss;
  for (const TracedRun& run : together[model]) {
    for (size_t i = 0; i < std::min(run.size(), work.size()); ++i) {
      const GpuWork& w = work[i];
      StepSlowDown& s = loss.steps.at(w.step);
      const double us = static_cast<double>(run[i].end_ns - run[i].begin_ns) * 1e-3;
      const double before = i > 0 ? static_cast<double>(run[i].begin_ns - run[i - 1].end_ns) * 1e-3 : w.before_us;
      const double waited = std::max(0.0, before - w.before_us) / runs, longer = std::max(0.0, us - w.us) / runs;
      s.alone_us += w.us / runs;
      s.queueing_us += waited;
      s.together_us += w.us / runs + longer + waited;
      if (w.is_copy()) {
        s.copies_us += longer;
        continue;
      }
      std::array<double, 3> shared{};  // multiprocessors, memory, L2
      auto o = std::ranges::lower_bound(others, run[i].begin_ns - longest, {}, [](const Other& x) { return x.at.begin_ns; });
      for (; o != others.end() && o->at.begin_ns < run[i].end_ns; ++o) {
        const double both = overlap(run[i], o->at);
        shared[0] += both * std::min(1.0, w.waves) * std::min(1.0, o->work->waves);
        shared[1] += both * w.memory * o->work->memory;
        shared[2] += both * w.l2 * o->work->l2;
      }
      const double all = shared[0] + shared[1] + shared[2];
      s.cores_us += all > 0 ? longer * shared[0] / all : longer;
      s.memory_us += all > 0 ? longer * shared[1] / all : 0;
      s.l2_us += all > 0 ? longer * shared[2] / all : 0;
    }
  }
  for (const StepSlowDown& s : loss.steps) {
    SlowDown& w = loss.whole;
    w.alone_us += s.alone_us, w.together_us += s.together_us, w.cores_us += s.cores_us, w.memory_us += s.memory_us;
    w.l2_us += s.l2_us, w.copies_us += s.copies_us, w.queueing_us += s.queueing_us;
  }
  return loss;
}

SlowDown gpu_slow_down(const Served& alone, const Served& together, const GpuLoss& loss) {
  SlowDown d = loss.whole;
  if (alone.response_us.empty() || together.response_us.empty()) return d;
  const double traced = d.cores_us + d.memory_us + d.l2_us + d.copies_us + d.queueing_us;
  // Medians: a host's thread that loses its core makes a request of half a millisecond one of five.
  const double served = median(together.service_us), served_alone = median(alone.service_us);
  d.alone_us = median(alone.response_us), d.together_us = median(together.response_us);
  const double longer = std::max(0.0, served - served_alone);
  const double waited = std::max(0.0, (d.together_us - served) - (d.alone_us - served_alone));
  const double scale = traced > 0 ? longer / traced : 0;
  for (double* part : {&d.cores_us, &d.memory_us, &d.l2_us, &d.copies_us, &d.queueing_us}) *part *= scale;
  d.queueing_us += waited + (traced > 0 ? 0 : longer);
  return d;
}

}  // namespace smelt::profile
