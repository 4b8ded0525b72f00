// A model under study: from a path and options to plans, inputs and a filled Report. The command and the Python module share it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/report.h"
#include "smelt/session.h"

namespace smelt::report {

struct Subject {
  std::string path;
  Options options;
  std::map<std::string, Shape> shapes;   // of symbolic inputs
  std::vector<std::string> input_files;  // as profile::load_inputs takes them
  std::map<std::string, Tensor> feeds;   // given in memory; go before the files
  uint64_t seed = 0;                     // of the random inputs
};

struct Prepared {
  std::shared_ptr<const Plan> plan;
  std::vector<Tensor> inputs;  // what the execution's bindings view
  std::unique_ptr<Execution> execution;
  double build_s = 0;  // import, rewriting, tuning and binding

  /// What the side holds in host memory: packed or mapped weights and one execution's arena.
  int64_t plan_bytes() const { return execution->memory().weights + execution->memory().arena; }
};

/// Inputs of `plan` in its order: feeds, then files, then random ones.
std::vector<Tensor> inputs_for(const Plan& plan, const Subject& s);
/// Builds the plan, makes the inputs and binds them. `same_inputs`: those of that side, by name.
Prepared prepare(const Subject& s, bool optimize, const Prepared* same_inputs = nullptr);
/// The tensors that are another plan's inputs, by name in this plan's order; a usage error where the names are not the same.
std::vector<Tensor> in_order_of(const Plan& other, const Prepared& reference);

/// Where the time of a prepared side goes: its steps with its inputs where kernels use them, and on a GPU the copies of a run
/// from and to the host's memory.
profile::Profile profile_of(Prepared& p, const profile::ProfileOptions& options, const profile::Roof& roof);

/// What the last run gave under this name. Throws Error (usage) when the plan has no such output.
Tensor output_of(const Prepared& p, const std::string& name);
/// Errors per output of what the two last computed; `reference` is what the other is held against.
std::vector<profile::Difference> differences_of(const Prepared& reference, const Prepared& other);

/// What rewriting does to the model, found without running it; weights need not be there.
Explained explain(const Subject& s);

/// Unfused against optimised, or `against` (a model or plan) against the subject: interleaved timing.
struct Comparison {
  Prepared before, after;
  profile::BenchResult bench;
};
Comparison compare_speed(const Subject& s, const std::string& against, const profile::BenchOptions& options);

/// Facts, both profiles, drawings, ledger and errors of a comparison.
Report full_report(const Subject& s, Comparison& c);
/// Facts and title only.
Report bare_report(const Subject& s);
/// Draws what is given; a missing `dot` becomes Report::drawing_note.
void add_drawings(Report& r, const Plan* before, const Plan* after);

/// The machine's ceilings as `smelt devices --measure` left them in the cache folder; empty when it never ran here.
profile::Roof known_roof(const Options& options);

}  // namespace smelt::report
