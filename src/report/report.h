// All results of one command, ready for printing: as tables, as JSON, as one HTML file, as a Chrome trace.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuse/match/rewrite.h"
#include "plan/early_launch.h"
#include "profile/bench.h"
#include "profile/compare.h"
#include "profile/profile.h"
#include "profile/timings.h"
#include "report/contention.h"
#include "report/float_nodes.h"
#include "report/table.h"

namespace smelt::report {

struct Fact {
  std::string key, title;
  Cell value;
};

/// The ledger, and the rates that its estimates use.
struct Explained {
  fuse::Ledger ledger;
  std::vector<std::string> nodes;  // names of the model's nodes
  fuse::Rates rates;
  bool measured = false;               // the rates are this machine's (smelt devices --measure), not defaults
  std::vector<FloatNode> float_nodes;  // of a quantised model
};

struct Report {
  std::string title;  // "resnet50.fp32.onnx"
  std::vector<Fact> machine, versions;
  std::optional<profile::Profile> before, after;  // after: of the optimised plan
  std::optional<profile::Timings> imported;       // the file that `after` was made of
  std::optional<profile::BenchResult> bench;
  std::vector<profile::Difference> differences;  // optimised against unfused, per output
  std::optional<Contended> contended;            // models together, of which the first is the report's
  Explained explained;
  std::optional<Table> fused;         // of the optimised plan
  std::optional<Table> slower;        // of a comparison of two models: nodes that take longer in the second
  std::string svg_before, svg_after;  // drawings; empty: not drawn
  std::string drawing_note;           // why nothing is drawn
};

/// The tactic that runs a step: "cuda v8 t64", "reference (on the host)".
std::string tactic_text(const StepInfo& s);
/// "warning: 2 steps run in the plain loops of their references, 41% of the steps' time: LSTM (2)"; empty without such steps. In
/// the notes of the step table and of the tactic table, and among JSON's "warnings".
std::string reference_warning(const profile::Profile& p);
std::string reference_warning(const std::vector<StepInfo>& steps);
Table step_table(const profile::Profile& p);
Table scope_table(const profile::Profile& p);
/// One row a node of the model, with its part of its step's time; no rows without add_nodes().
Table node_table(const profile::Profile& p);
/// One row a step inside of a body: calls and time of one run. No rows where there are no bodies.
Table inner_table(const profile::Profile& p);
/// What to do, the most to win first: each with its microseconds and its place.
Table advice_table(const profile::Profile& p);
/// The first five of them as lines for a terminal; empty where there is nothing to say.
std::string advice_text(const profile::Profile& p);
/// "Other work took cores during 4 of 20 measurements, …"; empty where none did, and of a GPU's plan.
std::string others_text(const profile::Profile& p);
Table memory_table(const profile::Profile& p);
/// Copies from and to the host's memory; the table has no rows if there are none.
Table copy_table(const profile::Profile& p);
/// One row: what the build did, and the plan's nodes.
Table plan_table(const Plan& plan, double build_s);
/// "yes, by measurement: a run takes 1.29 ms so, 1.31 ms otherwise"; empty where nothing was decided.
std::string early_launch_text(const plan::EarlyLaunch& e);
/// Whether a GPU's plan lets kernels begin early, who decided it, and both times; no row where nothing was decided.
Table early_launch_table(const Plan& plan);
/// The stages of the build.
Table build_table(const Plan& plan);
/// "import 103 ms, device 310 ms, …": those of a millisecond or more; may be empty.
std::string stages_text(const Plan& plan);
/// "1410 to 1980 of 1980 MHz, held down by power cap"; empty where nothing was seen.
std::string clocks_text(const ClocksSeen& clocks);
/// One row a step that stands for several nodes: their times before and its own.
Table group_table(const profile::Profile& before, const profile::Profile& after);
/// From the sum of the steps before to that after: one row a fused group, the largest changes first, then the rest. No rows where
/// nothing is fused.
Table waterfall_table(const profile::Profile& before, const profile::Profile& after);
/// Average, p90, host memory, device memory: before, after, difference in percent.
Table qa_table(const profile::BenchResult& b);
Table difference_table(const std::vector<profile::Difference>& d);
/// One row a ledger entry: the nodes, matched or rejected, the reason, the blocker, the estimate.
Table ledger_table(const Explained& e);
/// Matches and rejections per rewrite, with the sum of the estimates.
Table ledger_summary(const Explained& e);
/// Matches per rewrite and form: "matmul_epilogue, bias + gelu: 12".
Table form_table(const Explained& e);
/// One row a node of a quantised model that computes in floats: why, and what its floats cost.
Table float_table(const Explained& e);
/// One row a tactic of each step: the one that runs, then the others with the reason.
Table tactic_table(const std::vector<StepInfo>& steps);
/// One row a fused step that was compared with the operators it stands for, the longest first: its time, theirs, and which run.
/// The note counts those that run apart.
Table fused_table(const std::vector<StepInfo>& steps);
/// Each region of channels-last images against the same nodes over plain ones, of an execution's steps on the processor.
Table region_table(const std::vector<StepInfo>& steps);
/// "1.83x faster (95% interval 1.79 to 1.88, 40 runs each, interleaved)", or that it is not proven.
std::string verdict(const profile::BenchResult& b);

/// {"key": [rows as objects with raw numbers], …}; units are in the column keys.
std::string table_json(const std::vector<Table>& tables);
/// The same with "format" ("smelt.inspect") and "version" before it: what a verb prints.
std::string document_json(std::string_view format, const std::vector<Table>& tables);
std::string json(const Report& report);
/// One self-contained file: no network, no other file.
std::string html(const Report& report);
/// Chrome/Perfetto trace events: the steps of one run, the module scopes nested around them, and the copies beside them (of a run
/// from and to the host's memory then).
std::string chrome_trace(const profile::Profile& p);

/// The graph as SVG through Graphviz's dot. Nodes that one fused operator stands for share a colour; titles (hover) give
/// shapes, times and sources. `us` by node name, may be empty. `groups`: colour group by source node name, from group_of.
std::string draw(const Graph& g, const std::map<std::string, double>& us, const std::map<std::string, int>& groups);
/// ONNX node name → number of the fused node that stands for it, for those that stand for several.
std::map<std::string, int> groups_of(const Graph& fused);

}  // namespace smelt::report
