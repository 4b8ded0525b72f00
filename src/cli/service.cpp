#include "cli/service.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace smelt::cli {
namespace {

using Json = nlohmann::ordered_json;
using profile::Served;
using profile::ServedRun;

constexpr double build_limit_s = 1800;

Json parsed(const std::string& line) {
  try {
    return Json::parse(line);
  } catch (const Json::exception& e) {
    fail("a model's process answered what is no answer: {}", e.what());
  }
}

Json to_json(const ServedRun& r) {
  Json steps = Json::array();
  for (const StepTime& t : r.steps) steps.insert(steps.end(), {t.begin_ns, t.end_ns});
  return {r.arrival_ns, r.begin_ns, r.end_ns, steps};
}

ServedRun run_of(const Json& j) {
  ServedRun r{j.at(0), j.at(1), j.at(2), {}};
  const Json& steps = j.at(3);
  for (size_t i = 0; i + 1 < steps.size(); i += 2) r.steps.push_back({steps[i], steps[i + 1]});
  return r;
}

}  // namespace

std::vector<std::string> command_of(const char* verb, const ModelArguments& m, const std::vector<std::string>& paths,
                                    const Place& place) {
  const Options& o = m.options;
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string(), verb, paths.front()};
  const auto add = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  for (size_t i = 1; i < paths.size(); ++i) add("--also", paths[i]);
  if (paths.front() == m.path) add("--shapes", m.shapes_text);
  add("--skip", fmt::format("{}", fmt::join(o.skip, ",")));
  if (!o.take_apart) words.push_back("--no-take-apart");
  add("--precision", o.precision);
  add("--keep-fp32", m.keep_text);
  add("--tactics", o.tactics);
  add("--device", o.device);
  if (o.allow_fallback) words.push_back("--allow-fallback");
  add("--tuning-level", std::to_string(o.tuning_level));
  if (o.tuning_time_limit > 0) add("--tuning-time-limit", fmt::format("{}", o.tuning_time_limit));
  add("--cache-dir", o.cache_dir);
  if (m.no_cache) words.push_back("--no-cache");
  if (!o.spin || !place.spins) words.push_back("--no-spin");
  add("--threads", std::to_string(place.threads > 0 ? place.threads : o.threads));
  if (!place.cores.empty()) add("--cores", fmt::format("{}", fmt::join(place.cores, ",")));
  if (place.nice > 0) add("--nice", std::to_string(place.nice));
  if (place.idle) words.push_back("--idle");
  return words;
}

std::vector<int> processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> all;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(static_cast<size_t>(c), &set)) all.push_back(c);
  return all;
}

std::string ready_line(const std::vector<Readied>& models) {
  Json all = Json::array();
  for (const Readied& m : models) {
    Json steps = Json::array();
    for (size_t i = 0; i < m.steps.size(); ++i)
      steps.push_back({{"name", m.steps[i].name},
                       {"op", m.steps[i].op},
                       {"bytes", m.steps[i].bytes},
                       {"us", m.alone_us[i]},
                       {"limiter", static_cast<int>(m.limiters[i])}});
    all.push_back({{"steps", steps}, {"bytes_per_s", m.bytes_per_s}});
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string answer_line(const std::vector<Served>& served) {
  Json all = Json::array();
  for (const Served& s : served) {
    Json last = Json::array();
    for (const ServedRun& r : s.last) last.push_back(to_json(r));
    all.push_back({{"response_us", s.response_us},
                   {"service_us", s.service_us},
                   {"step_us", s.step_us},
                   {"seconds", s.seconds},
                   {"cpu_us", s.cpu_us},
                   {"waited_us", s.waited_us},
                   {"last", last}});
  }
  return all.dump();
}

Service::Service(const ModelArguments& m, const std::vector<std::string>& paths, const Place& place)
    : child_(command_of("serve", m, paths, place)) {}

std::vector<Readied> Service::ready() {
  std::vector<Readied> models;
  for (const Json& j : parsed(child_.line(build_limit_s))) {
    Readied r;
    r.bytes_per_s = j.at("bytes_per_s");
    for (const Json& step : j.at("steps")) {
      StepInfo info;
      info.name = step.at("name"), info.op = step.at("op"), info.bytes = step.at("bytes");
      r.steps.push_back(std::move(info));
      r.alone_us.push_back(step.at("us"));
      r.limiters.push_back(static_cast<profile::Limiter>(step.at("limiter").get<int>()));
    }
    models.push_back(std::move(r));
  }
  return models;
}

void Service::go(double seconds, double rate) { child_.say(fmt::format("{} {}", seconds, rate)); }

std::vector<Served> Service::answer(double limit_s) {
  std::vector<Served> all;
  for (const Json& j : parsed(child_.line(limit_s))) {
    Served s{j.at("response_us"), j.at("service_us"), j.at("step_us"), j.at("seconds"), j.at("cpu_us"), j.at("waited_us"), {}};
    for (const Json& r : j.at("last")) s.last.push_back(run_of(r));
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace smelt::cli
