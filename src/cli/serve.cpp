// What `smelt profile A --with B` runs for each process: models that are made ready, and then served for a while whenever a line of
// standard input says so. It ends with its standard input.
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/process.h"
#include "base/threads.h"
#include "cli/common.h"
#include "profile/contention.h"

namespace smelt::cli {
namespace {

using Json = nlohmann::ordered_json;

void stay_on(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cores) CPU_SET(static_cast<size_t>(c), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("--cores: {}", std::strerror(errno));
}

Json to_json(const profile::Served& s) {
  return {{"response_us", s.response_us}, {"service_us", s.service_us}, {"step_us", s.step_us},
          {"seconds", s.seconds},         {"cpu_us", s.cpu_us},         {"waited_us", s.waited_us}};
}

Json describe(const report::Prepared& p, const report::Subject& s) {
  // Limiters by a short look while nothing else runs.
  const profile::Profile profile =
      profile::profile(*p.plan, *p.execution, {.iterations = 5, .warmup = 1, .max_seconds = 2}, report::known_roof(s.options));
  Json steps = Json::array();
  for (const profile::StepRow& r : profile.steps)
    steps.push_back(
        {{"name", r.step.name}, {"op", r.step.op}, {"bytes", r.step.bytes}, {"limiter", static_cast<int>(r.limiter)}});
  return {{"steps", steps}, {"bytes_per_s", profile.roof.bytes_per_s}};
}

}  // namespace

Action add_serve(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::vector<std::string> also;
    std::vector<int> cores;
    int nice = 0;
  };
  auto a = std::make_shared<Arguments>();
  add_model_options(app, *a);
  app.add_option("--also", a->also, "More models, served by threads of this process");
  app.add_option("--cores", a->cores, "Run on these processors only")->delimiter(',');
  app.add_option("--nice", a->nice, "Yield to others: 1 to 19");
  app.group("");  // for smelt itself
  return [a] {
    stay_on(a->cores);
    std::vector<report::Prepared> models;
    Json ready = Json::array();
    for (size_t i = 0; i <= a->also.size(); ++i) {
      report::Subject s = a->subject();
      if (i > 0) s.path = a->also[i - 1], s.shapes.clear(), s.options.profiles.clear();
      models.push_back(report::prepare(s, true));
      ready.push_back(describe(models.back(), s));
    }
    // Threads that they started inherit nothing afterwards: each is told.
    if (a->nice > 0)
      for (const auto& t : std::filesystem::directory_iterator("/proc/self/task"))
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(std::stoi(t.path().filename().string())), a->nice);
    std::cout << ready.dump() << std::endl;
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
      Json answer = Json::array();
      for (const profile::Served& s : served) answer.push_back(to_json(s));
      std::cout << answer.dump() << std::endl;
    }
    return 0;
  };
}

}  // namespace smelt::cli
