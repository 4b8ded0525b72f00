// smelt profile --watch: a view of a service that is printed anew every second.
#pragma once

#include <string>
#include <vector>

#include "cli/common.h"

namespace smelt::cli {

struct Watch {
  std::vector<std::string> with;  // models that are served beside the first
  double rate = 0;                // requests a second to each; 0: one after the other
  double seconds = 0;             // how long; 0: until it is interrupted
};

/// Serves the model, and those beside it, each in a process of its own, and shows what they do. Throws Error where one ends.
int watch_models(const ModelArguments& model, const Watch& w);
/// Shows what a running process takes of the cores, until it ends. Throws Error (usage) where there is none.
int watch_process(int pid, const Watch& w, bool as_json);

}  // namespace smelt::cli
