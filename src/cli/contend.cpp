#include "cli/contend.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/child.h"
#include "base/error.h"
#include "base/threads.h"
#include "device/cuda/device.h"
#include "profile/contention.h"
#include "report/contention.h"

namespace smelt::cli {
namespace {

using Json = nlohmann::ordered_json;
using profile::Served;

constexpr double build_limit_s = 1800;

/// How a model's process is started.
struct Place {
  int threads = 0;         // 0: as the user asked
  std::vector<int> cores;  // empty: all
  int nice = 0;
};

/// One way to have the models run together.
struct Arrangement {
  std::string name, how;  // how: what to do for it
  std::vector<Place> places;
  bool one_process = false;
  double others_rate = 0;  // paces the others; 0: as the user asked
};

std::vector<int> processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> all;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(static_cast<size_t>(c), &set)) all.push_back(c);
  return all;
}

/// A process that serves one model, or several by threads.
class Service {
 public:
  Service(const ModelArguments& m, const std::vector<std::string>& paths, const Place& place) : child_(words(m, paths, place)) {}

  /// What it said when it was ready: the steps of each of its models.
  Json ready() { return parsed(child_.line(build_limit_s)); }
  void go(double seconds, double rate) { child_.say(fmt::format("{} {}", seconds, rate)); }
  std::vector<Served> answer(double seconds) {
    std::vector<Served> all;
    for (const Json& j : parsed(child_.line(seconds + 120)))
      all.push_back(
          {j.at("response_us"), j.at("service_us"), j.at("step_us"), j.at("seconds"), j.at("cpu_us"), j.at("waited_us")});
    return all;
  }

 private:
  static Json parsed(const std::string& line) {
    try {
      return Json::parse(line);
    } catch (const Json::exception& e) {
      fail("a model's process answered what is no answer: {}", e.what());
    }
  }
  static std::vector<std::string> words(const ModelArguments& m, const std::vector<std::string>& paths, const Place& place) {
    const Options& o = m.options;
    std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string(), "serve", paths.front()};
    const auto add = [&](const std::string& name, const std::string& value) {
      if (!value.empty()) words.insert(words.end(), {name, value});
    };
    for (size_t i = 1; i < paths.size(); ++i) add("--also", paths[i]);
    if (paths.front() == m.path) add("--shapes", m.shapes_text);
    add("--precision", o.precision);
    add("--tactics", o.tactics);
    add("--tuning-level", std::to_string(o.tuning_level));
    add("--cache-dir", o.cache_dir);
    if (m.no_cache) words.push_back("--no-cache");
    if (!o.spin) words.push_back("--no-spin");
    add("--threads", std::to_string(place.threads > 0 ? place.threads : o.threads));
    if (!place.cores.empty()) add("--cores", fmt::format("{}", fmt::join(place.cores, ",")));
    if (place.nice > 0) add("--nice", std::to_string(place.nice));
    return words;
  }

  Child child_;
};

class Together {
 public:
  Together(const ModelArguments& m, const Contention& c) : m_(m), c_(c) {
    paths_.push_back(m.path);
    paths_.insert(paths_.end(), c.with.begin(), c.with.end());
  }
  const std::vector<std::string>& paths() const { return paths_; }

  std::vector<profile::Alone> alone() {
    std::vector<profile::Alone> all;
    for (const std::string& path : paths_) {
      note(fmt::format("{} alone", path));
      Service s(m_, {path}, {});
      const Json ready = s.ready().at(0);
      profile::Alone a;
      for (const Json& step : ready.at("steps")) {
        StepInfo info;
        info.name = step.at("name"), info.op = step.at("op"), info.bytes = step.at("bytes");
        a.steps.push_back(std::move(info));
        a.limiters.push_back(static_cast<profile::Limiter>(step.at("limiter").get<int>()));
      }
      bytes_per_s = ready.at("bytes_per_s");
      s.go(c_.seconds, c_.rate);
      a.served = s.answer(c_.seconds).at(0);
      if (a.served.response_us.empty()) fail("{} answered no request in {} s", path, c_.seconds);
      all.push_back(std::move(a));
    }
    return all;
  }

  std::vector<Served> run(const Arrangement& a) {
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
    std::vector<Served> served;
    for (const auto& s : services)
      for (Served& one : s->answer(c_.seconds)) served.push_back(std::move(one));
    for (size_t i = 0; i < served.size(); ++i)
      if (served[i].response_us.empty()) fail("{} answered no request in {} s beside the others", paths_[i], c_.seconds);
    return served;
  }

  double bytes_per_s = 0;

 private:
  const ModelArguments& m_;
  const Contention& c_;
  std::vector<std::string> paths_;
};

std::vector<Arrangement> arrangements(const Contention& c, const std::vector<Served>& beside) {
  const std::vector<int> all = processors();
  const size_t others = c.with.size();
  const int cores = threads::usable_cores();
  std::vector<Arrangement> list{{"threads of one process", "serve all models from one process", {}, true}};
  Arrangement yields{"the others yield", "start the others with nice 19", {{}}};
  for (size_t i = 0; i < others; ++i) yields.places.push_back({.nice = 19});
  list.push_back(yields);
  if (cores > 1) {
    const int own = std::max(1, cores / 2), left = cores - own;
    Arrangement fewer{
        "fewer threads", fmt::format("--threads {} for the first, {} for the others", own, left), {{.threads = own}}};
    Arrangement apart{"cores of their own",
                      fmt::format("taskset: {} of the cores for the first, with --threads {}; {} for the others", own, own, left),
                      {{.threads = own, .cores = {all.begin(), all.begin() + own}}}};
    for (size_t i = 0; i < others; ++i) {
      fewer.places.push_back({.threads = left});
      apart.places.push_back({.threads = left, .cores = {all.begin() + own, all.begin() + own + left}});
    }
    list.push_back(fewer);
    list.push_back(apart);
  }
  if (c.rate <= 0) {
    double slowest = beside[1].per_s();
    for (size_t i = 1; i < beside.size(); ++i) slowest = std::min(slowest, beside[i].per_s());
    const double rate = std::max(0.1, slowest / 2);
    list.push_back({"the others paced", fmt::format("{:.3g} requests a second to each of the others", rate), {}, false, rate});
  }
  return list;
}

}  // namespace

int contend(const ModelArguments& model, const Contention& c, size_t top) {
  if (device::cuda::ordinal_of(model.options.device))
    throw Error("--with compares plans of the processor", "Leave --device out.", ExitCode::usage);
  Together together(model, c);
  std::vector<std::string> names;
  for (const std::string& p : together.paths()) names.push_back(std::filesystem::path(p).filename().string());
  const std::vector<profile::Alone> alone = together.alone();
  const std::vector<Served> beside = together.run({"as they are", "", {}});
  const auto predicted = profile::predicted_slow_downs(alone, threads::usable_cores(), together.bytes_per_s, c.rate);

  std::vector<report::Arranged> arranged{{"as they are", "", beside}};
  for (const Arrangement& a : arrangements(c, beside)) arranged.push_back({a.name, a.how, together.run(a)});

  std::vector<report::Table> tables{report::contention_table(names, alone, beside, predicted),
                                    report::contended_step_table(alone[0], beside[0]), report::remedy_table(names[0], arranged)};
  if (model.as_json) return print_line(report::table_json(tables)), 0;
  tables[1].sort_by("slower_us");
  tables[1].keep_top(top);
  print_tables(tables);
  return 0;
}

}  // namespace smelt::cli
