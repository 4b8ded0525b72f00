// What `smelt profile A --with B` and `--watch` run for each process: models that are made ready, and then served for a while
// whenever a line of standard input says so. It ends with its standard input.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "base/threads.h"
#include "cli/common.h"
#include "cli/service.h"
#include "profile/contention.h"

namespace smelt::cli {
namespace {

void stay_on(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cores) CPU_SET(static_cast<size_t>(c), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("--cores: {}", std::strerror(errno));
}

/// By a short look while nothing else runs.
Readied describe(const report::Prepared& p, const report::Subject& s) {
  const profile::Profile profile =
      profile::profile(*p.plan, *p.execution, {.iterations = 5, .warmup = 1, .max_seconds = 2}, report::known_roof(s.options));
  Readied r;
  r.bytes_per_s = profile.roof.bytes_per_s;
  for (const profile::StepRow& row : profile.steps) {
    r.steps.push_back(row.step);
    r.alone_us.push_back(row.us.median);
    r.limiters.push_back(row.limiter);
  }
  return r;
}

/// Each of the process's threads: those that it started already inherit nothing.
void yield_to_others(int nice, bool idle) {
  for (const auto& t : std::filesystem::directory_iterator("/proc/self/task")) {
    const int thread = std::stoi(t.path().filename().string());
    const sched_param none{};
    if (idle && ::sched_setscheduler(thread, SCHED_IDLE, &none) != 0) fail("--idle: {}", std::strerror(errno));
    if (nice > 0) ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice);
  }
}

}  // namespace

Action add_serve(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::vector<std::string> also;
    std::vector<int> cores;
    int nice = 0;
    bool idle = false;
  };
  auto a = std::make_shared<Arguments>();
  add_model_options(app, *a);
  app.add_option("--also", a->also, "More models, served by threads of this process");
  app.add_option("--cores", a->cores, "Run on these processors only")->delimiter(',');
  app.add_option("--nice", a->nice, "Yield to others: 1 to 19");
  app.add_flag("--idle", a->idle, "Run only on cores that nobody else wants");
  app.group("");  // for smelt itself
  return [a] {
    stay_on(a->cores);
    std::vector<report::Prepared> models;
    std::vector<Readied> ready;
    for (size_t i = 0; i <= a->also.size(); ++i) {
      report::Subject s = a->subject();
      if (i > 0) s.path = a->also[i - 1], s.shapes.clear(), s.options.profiles.clear();
      models.push_back(report::prepare(s, true));
      ready.push_back(describe(models.back(), s));
    }
    if (a->nice > 0 || a->idle) yield_to_others(a->nice, a->idle);
    std::cout << ready_line(ready) << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      profile::ServeOptions o;
      std::istringstream(line) >> o.seconds >> o.rate;
      std::vector<profile::Served> served(models.size());
      {
        std::vector<std::jthread> threads;
        for (size_t i = 1; i < models.size(); ++i)
          threads.emplace_back([&, i] { served[i] = profile::serve(*models[i].execution, o); });
        served[0] = profile::serve(*models[0].execution, o);
      }
      std::cout << answer_line(served) << std::endl;
    }
    return 0;
  };
}

}  // namespace smelt::cli
