// Whether a plan's recordings let kernels begin before the one before them has ended, as a build chose and a plan's file carries it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace smelt::plan {

struct EarlyLaunch {
  /// What decided it.
  enum class By {
    nothing,      // no GPU that can, no kernel that would, nothing measured
    tactics,      // --tactics
    measurement,  // of this build
    cache,        // the tuning cache: what an earlier build of the same steps measured
    plan,         // the plan's file
  };
  bool on = false;
  By by = By::nothing;
  double late_us = 0, early_us = 0;  // medians of a run without and with it; 0: not measured
  std::string why_not;               // where nothing decided it on a machine that could
};

/// "--tactics", "measurement", "the tuning cache", "the plan", or "" where nothing was decided.
std::string_view text_of(EarlyLaunch::By by);

/// Of two medians: whether what it gains is more than builds of the same model differ by.
bool pays(double late_us, double early_us);

/// "smelt.plan.early_launch" of a plan's metadata: "on 1305.6 1292.6", whether it is on, and the two medians in microseconds. It is
/// removed; nothing where it is missing or damaged.
std::optional<EarlyLaunch> read_early_launch(std::map<std::string, std::string>& metadata);
/// Writes it where it was measured, here or by the build that wrote the plan.
void write_early_launch(const EarlyLaunch& e, std::map<std::string, std::string>& metadata);

}  // namespace smelt::plan
