#include "plan/early_launch.h"

#include <fmt/core.h>

#include <sstream>

namespace smelt::plan {
namespace {

constexpr const char* key = "smelt.plan.early_launch";

}  // namespace

std::string_view text_of(EarlyLaunch::By by) {
  switch (by) {
    case EarlyLaunch::By::tactics: return "--tactics";
    case EarlyLaunch::By::measurement: return "measurement";
    case EarlyLaunch::By::cache: return "the tuning cache";
    case EarlyLaunch::By::plan: return "the plan";
    case EarlyLaunch::By::nothing: break;
  }
  return "";
}

bool pays(double late_us, double early_us) {
  constexpr double worth = 0.995;
  return early_us > 0 && early_us < worth * late_us;
}

std::optional<EarlyLaunch> read_early_launch(std::map<std::string, std::string>& metadata) {
  const auto entry = metadata.extract(key);
  if (!entry) return std::nullopt;
  std::istringstream in(entry.mapped());
  std::string state;
  EarlyLaunch e{.by = EarlyLaunch::By::plan};
  in >> state >> e.late_us >> e.early_us;
  if (in.fail() || (state != "on" && state != "off")) return std::nullopt;
  e.on = state == "on";
  return e;
}

void write_early_launch(const EarlyLaunch& e, std::map<std::string, std::string>& metadata) {
  if (e.late_us > 0) metadata[key] = fmt::format("{} {:.2f} {:.2f}", e.on ? "on" : "off", e.late_us, e.early_us);
}

}  // namespace smelt::plan
