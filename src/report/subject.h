// From a model's path and options to plans, inputs and a filled Report. The command and the Python module share it.
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
  std::map<std::string, Tensor> feeds;   // given in memory; they take precedence over the files
  uint64_t seed = 0;                     // of the random inputs
};

struct Prepared {
  std::shared_ptr<const Plan> plan;
  std::vector<Tensor> inputs;  // the memory that the execution is bound to
  std::unique_ptr<Execution> execution;
  double build_s = 0;  // import, rewriting, tuning and binding
};

/// Inputs of `plan` in its order: feeds, then files, then random ones.
std::vector<Tensor> inputs_for(const Plan& plan, const Subject& s);
/// Builds the plan, makes the inputs and binds them. `same_inputs`: takes the inputs of that side, by name.
Prepared prepare(const Subject& s, bool optimize, const Prepared* same_inputs = nullptr);
/// Another execution of a prepared side, bound to its inputs, where kernels can use them.
std::unique_ptr<Execution> bound_execution(const Prepared& p);
/// Another plan's inputs, by name, in this plan's order. Throws Error (usage) if the names differ.
std::vector<Tensor> in_order_of(const Plan& other, const Prepared& reference);

/// Profiles a prepared side: its steps, with the inputs where kernels can use them, and on a GPU the copies of a run with inputs
/// and outputs in the host's memory.
profile::Profile profile_of(Prepared& p, const profile::ProfileOptions& options, const profile::Roof& roof);

/// The last run's output of this name. Throws Error (usage) when the plan has no such output.
Tensor output_of(const Prepared& p, const std::string& name);
/// The difference of each output of the two last runs; `reference` is the reference.
std::vector<profile::Difference> differences_of(const Prepared& reference, const Prepared& other);

/// Adds the times of the model's own nodes (profile::add_nodes) to the profile of an optimised plan, where steps stand for several.
void add_model_nodes(profile::Profile& p, const Subject& s, const Prepared& prepared);
/// What steps of a model as it stands spend on the order of their images' elements, each for itself: an optimised plan keeps images
/// channels-last from one to the next. By the bytes that they read and write once more, at the roof's bandwidth.
struct Reorders {
  int steps = 0;
  double us = 0;
};
Reorders reorders_around(const profile::Profile& p, const Graph& graph);
/// Said of an estimate that is made of the profiled plan's kernels.
inline constexpr std::string_view not_counted = "; what faster kernels win is not counted";
/// Adds to a profile's advice what rewrites would save, or what keeps them from it. `optimized`: the profile is of the rewritten model.
void add_rewrite_advice(profile::Profile& p, const Explained& e, bool optimized, const Reorders& reorders = {});

/// Both of the above, and what rewriting does to the model: of a profile of the model, not of a plan's file.
Explained complete(profile::Profile& p, const Subject& s, const Prepared& prepared, bool optimized);

/// What rewriting does to the model. It does not run the model, and the weights may be missing.
Explained explain(const Subject& s);

/// Times unfused against optimised, or `against` (a model or plan) against the subject, in turn.
struct Comparison {
  Prepared before, after;
  profile::BenchResult bench;
  std::string against;  // path of the other model; empty: the subject's own, unfused
};
Comparison compare_speed(const Subject& s, const std::string& against, const profile::BenchOptions& options);

/// The nodes that take longer than in the other model, by the profiles that are given of both.
Table slower_than(const Subject& s, const Comparison& c, const profile::Profile& before, const profile::Profile& after,
                  const Explained& e);
/// Of a comparison with a model that the subject is slower than: profiles both to say which nodes make it so. Nothing otherwise.
std::optional<Table> why_slower(const Subject& s, Comparison& c);

/// Facts, both profiles, drawings, ledger and errors of a comparison.
Report full_report(const Subject& s, Comparison& c);
/// Facts and title only.
Report bare_report(const Subject& s);
/// Draws the graphs that are given. Without `dot`, Report::drawing_note says so.
void add_drawings(Report& r, const Plan* before, const Plan* after);

/// The machine's ceilings that `smelt devices --measure` left in the cache folder; empty if it never ran here.
profile::Roof known_roof(const Options& options);

}  // namespace smelt::report
