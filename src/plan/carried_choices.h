// What a plan was chosen with, carried in its file, so that a fresh machine of the same kind has the same steps, and a processor
// starts without measuring. In the plan's metadata: "smelt.plan.device", what it was chosen on (tune::device_text);
// "smelt.plan.tactics", a line with node, problem and tactic; "smelt.plan.apart", the nodes that run as their parts, a line each
// ("\\n" in a name is an end of line); of the processor's plans "smelt.plan.plain", the names of the nodes whose images stay plain,
// likewise, and "smelt.plan.profiles", the ranges that it was prepared for, a line "min opt max name" an input, an empty line
// between profiles; "smelt.plan.timings", what decided (tune/other_threads.h), of use with another number of threads.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plan/early_launch.h"
#include "smelt/session.h"
#include "tune/tuner.h"

namespace smelt::plan {

struct CarriedChoices {
  std::string device;  // empty: none are carried
  tune::PinnedChoices choices;
  std::optional<std::set<std::string>> plain;
  std::optional<std::set<std::string>> apart;  // Planner::choices
  std::vector<ShapeProfile> profiles;
  std::optional<EarlyLaunch> early;  // of a GPU's plan
  std::string timings;               // tune::to_text of what decided, of a processor's plan
};

/// Takes them out of a model's metadata, but for "smelt.plan.tactics", which a GPU's kernels need too. What is damaged is left out.
CarriedChoices read_choices(std::map<std::string, std::string>& metadata);
/// Writes them into metadata.
void write_choices(const CarriedChoices& carried, std::map<std::string, std::string>& metadata);

/// Lines of "node, problem, tactic and configuration" between tabs. A node's name may hold anything, also tabs and ends of lines.
tune::PinnedChoices choices_in(const std::string& tactics);

}  // namespace smelt::plan
