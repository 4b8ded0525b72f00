#include "cli/contend.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/busy_cores.h"
#include "cli/service.h"
#include "device/cuda/device.h"

namespace smelt::cli {
namespace {

using profile::Served;

/// One way to have the models run together.
struct Arrangement {
  std::string name, how;      // how: what to do for it
  std::vector<Place> places;  // by model; those that are not there: as the user asked
  bool one_process = false;
  double others_rate = 0;  // paces the others; 0: as the user asked
};

class Together {
 public:
  Together(const ModelArguments& m, const Contention& c) : m_(m), c_(c) {
    paths_.push_back(m.path);
    paths_.insert(paths_.end(), c.with.begin(), c.with.end());
  }
  /// Each model by itself, beside busy cores, and beside busy memory, and all of them together as they are: in turn, so that what
  /// else the machine does is beside all alike.
  void as_they_are(report::Contended& found) {
    std::vector<std::unique_ptr<Service>> services;
    std::vector<Measured> measured(paths_.size());
    for (size_t i = 0; i < paths_.size(); ++i) {
      services.push_back(std::make_unique<Service>(m_, std::vector{paths_[i]}, Place{}));
      measured[i].ready = std::move(services[i]->ready().at(0));
      bytes_per_s = measured[i].ready.bytes_per_s;
    }
    constexpr int rounds = 3;
    for (int round = 0; round < rounds; ++round) {
      note(fmt::format("each model alone, beside busy cores and memory, and together: {} of {}", round + 1, rounds));
      for (size_t i = 0; i < services.size(); ++i) measured[i].look(*services[i], c_.seconds / rounds, c_.rate);
      for (const auto& s : services) s->go(c_.seconds / rounds, c_.rate);
      for (size_t i = 0; i < services.size(); ++i) measured[i].together.push_back(services[i]->answer(limit_s()).at(0));
    }
    report::Arranged together{"as they are", "", {}};
    for (size_t i = 0; i < measured.size(); ++i) {
      together.served.push_back(profile::joined(std::move(measured[i].together)));
      found.alone.push_back(measured[i].alone());
      if (found.alone.back().served.response_us.empty()) fail("{} answered no request in {} s", paths_[i], c_.seconds);
      if (together.served.back().response_us.empty())
        fail("{} answered no request in {} s beside the others", paths_[i], c_.seconds);
    }
    found.arranged.push_back(std::move(together));
  }

  report::Arranged run(const Arrangement& a) {
    note(fmt::format("together: {}", a.name));
    std::vector<std::unique_ptr<Service>> services;
    if (a.one_process) {
      services.push_back(std::make_unique<Service>(m_, paths_, Place{}));
      services.back()->ready();
    } else {
      for (size_t i = 0; i < paths_.size(); ++i) {  // one after the other: what they measure while they are built is undisturbed
        services.push_back(std::make_unique<Service>(m_, std::vector{paths_[i]}, i < a.places.size() ? a.places[i] : Place{}));
        services.back()->ready();
      }
    }
    for (size_t i = 0; i < services.size(); ++i)
      services[i]->go(c_.seconds, i > 0 && a.others_rate > 0 ? a.others_rate : c_.rate);
    report::Arranged ran{a.name, a.how, {}};
    for (size_t i = 0; i < services.size(); ++i)
      for (Served& one : answer_of(*services[i], i > 0)) ran.served.push_back(std::move(one));
    if (ran.served[0].response_us.empty()) fail("{} answered no request in {} s beside the others", paths_[0], c_.seconds);
    return ran;
  }

  double bytes_per_s = 0;

 private:
  /// What was seen of one model, in several looks.
  struct Measured {
    Readied ready;
    std::vector<Served> apart, busy, reads, together;
    int64_t bytes_read = 0;

    void look(Service& s, double seconds, double rate) {
      const auto served = [&] {
        s.go(seconds, rate);
        return s.answer(seconds + slow_s).at(0);
      };
      apart.push_back(served());
      {
        const BusyCores others(BusyCores::Does::nothing);
        busy.push_back(served());
      }
      const BusyCores others(BusyCores::Does::reads);
      reads.push_back(served());
      bytes_read += others.bytes_read();
    }
    profile::Alone alone() {
      profile::Alone found{profile::joined(std::move(apart)), std::move(ready.steps), std::move(ready.limiters)};
      if (found.served.response_us.empty()) return found;
      const double alone_us = profile::mean(found.served.service_us);
      const Served beside_busy = profile::joined(std::move(busy)), beside_reads = profile::joined(std::move(reads));
      if (!beside_busy.service_us.empty()) found.beside_busy = profile::mean(beside_busy.service_us) / alone_us;
      if (beside_reads.service_us.empty()) return found;
      found.beside_reads = profile::mean(beside_reads.service_us) / alone_us;
      found.read_bytes_per_s = static_cast<double>(bytes_read) / beside_reads.seconds;
      return found;
    }
  };

  static constexpr double slow_s = 120;  // that a request may take
  double limit_s() const { return c_.seconds + slow_s; }

  /// What a service answers. One that may starve, as its arrangement takes its cores, has answered nothing if it takes long.
  std::vector<Served> answer_of(Service& s, bool may_starve) {
    if (!may_starve) return s.answer(limit_s());
    try {
      return s.answer(c_.seconds + 10);
    } catch (const Error&) {
      Served none;
      none.seconds = c_.seconds;
      return {none};
    }
  }

  const ModelArguments& m_;
  const Contention& c_;
  std::vector<std::string> paths_;
};

/// What may help the first of the models, beside pacing the others.
std::vector<Arrangement> arrangements(size_t others) {
  const auto of_others = [&](const Place& place, const Place& first = {}) {
    std::vector<Place> places{first};
    places.insert(places.end(), others, place);
    return places;
  };
  std::vector<Arrangement> list{
      {"threads of one process", "serve all models from one process", {}, true},
      {"the others yield", "start the others with nice 19", of_others({.nice = 19})},
      {"the others take what is left", "chrt --idle 0, or systemd-run -p CPUWeight=idle, for the others",
       of_others({.idle = true})},
      {"threads sleep at once", "--no-spin (Options::spin, spin=False) for all", of_others({.spins = false}, {.spins = false})}};
  const std::vector<int> all = processors();
  if (const int cores = threads::usable_cores(); cores > 1) {
    const int own = std::max(1, cores / 2), left = cores - own;
    list.push_back({"fewer threads", fmt::format("--threads {} for the first, {} for the others", own, left),
                    of_others({.threads = left}, {.threads = own})});
    list.push_back({"cores of their own",
                    fmt::format("taskset: {} of the cores for the first, with --threads {}; {} for the others", own, own, left),
                    of_others({.threads = left, .cores = {all.begin() + own, all.begin() + own + left}},
                              {.threads = own, .cores = {all.begin(), all.begin() + own}})});
  }
  return list;
}

void contend_on_cores(const ModelArguments& model, const Contention& c, report::Contended& found) {
  Together together(model, c);
  together.as_they_are(found);
  found.predicted = profile::predicted_slow_downs(found.alone, threads::usable_cores(), together.bytes_per_s, c.rate);
  if (!c.remedies) return;
  for (const Arrangement& a : arrangements(c.with.size())) found.arranged.push_back(together.run(a));
  pace_others(c, found, [&](const Paced& p) { found.arranged.push_back(together.run({p.name, p.how, {}, false, p.rate})); });
}

}  // namespace

void pace_others(const Contention& c, const report::Contended& found, const std::function<void(const Paced&)>& run) {
  if (c.rate > 0) return;
  double slowest = found.arranged.front().served[1].per_s();
  for (size_t i = 1; i < found.names.size(); ++i) slowest = std::min(slowest, found.arranged.front().served[i].per_s());
  for (const int part : {2, 4, 8}) {
    const double rate = std::max(0.1, slowest / part);
    run({part == 2 ? "the others paced" : fmt::format("the others paced at 1/{}", part),
         fmt::format("{:.3g} requests a second to each of the others", rate), rate});
    if (c.p99_us <= 0 || found.arranged.back().served.front().response().p99 <= c.p99_us) return;
  }
}

int contend(const ModelArguments& model, const Contention& c, size_t top) {
  report::Contended found{.p99_us = c.p99_us};
  found.names.push_back(std::filesystem::path(model.path).filename().string());
  for (const std::string& p : c.with) found.names.push_back(std::filesystem::path(p).filename().string());
  if (device::cuda::ordinal_of(model.options.device))
    contend_on_gpu(model, c, found);
  else
    contend_on_cores(model, c, found);

  if (model.as_json) {
    print_line(report::contention_json(found));
  } else {
    report::Table steps = report::contended_step_table(found);
    steps.sort_by("slower_us");
    steps.keep_top(top);
    print_tables({report::contention_table(found), steps, report::remedy_table(found)});
  }
  if (!c.trace.empty()) write_text(c.trace, report::contention_trace(found));
  if (c.report.empty()) return 0;
  report::Report r = report::bare_report(model.subject());
  r.contended = std::move(found);
  write_text(c.report, report::html(r));
  return 0;
}

}  // namespace smelt::cli
