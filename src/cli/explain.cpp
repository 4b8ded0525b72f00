#include <algorithm>

#include "base/error.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "inspect/occupancy.h"
#include "profile/inputs.h"
#include "run/planned.h"

namespace smelt::cli {
namespace {

void check_rewrite(const std::string& wanted) {
  std::string known;
  for (const fuse::Rewrite& r : fuse::pipeline()) {
    if (r.name == wanted) return;
    known += (known.empty() ? "" : ", ") + std::string(r.name);
  }
  throw Error(fmt::format("--pattern: no rewrite is named '{}'", wanted), "The rewrites are: " + known, ExitCode::usage);
}

/// The optimised plan, also one for a GPU that need not be here.
struct Planned {
  std::shared_ptr<const Plan> plan;
  std::vector<StepInfo> steps;
};
Planned planned(const report::Subject& subject) {
  if (subject.options.arch.empty()) {
    const report::Prepared prepared = report::prepare(subject, true);
    return {prepared.plan, prepared.execution->steps()};
  }
  Planned p{Plan::build(subject.path, subject.options), {}};
  run::PlannedRun run = run::planned_run(*p.plan, profile::resolve_shapes(p.plan->inputs(), subject.shapes));
  for (run::PlannedStep& s : run.steps) p.steps.push_back(std::move(s.step));
  return p;
}

}  // namespace

Action add_explain(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string pattern, node, arch;
    bool matched = false, rejected = false, summary = false, kernels = false;
    int top = 0;
  };
  auto a = std::make_shared<Arguments>();
  add_graph_options(app, *a, "An ONNX model; its weights need not be there");
  app.add_option("--pattern,--rewrite", a->pattern, "Only this rewrite")->type_name("NAME");
  app.add_option("--node", a->node, "Only what covers this ONNX node or is blocked by it")->type_name("NAME");
  CLI::Option* matched = app.add_flag("--matched", a->matched, "Only what matched");
  app.add_flag("--rejected", a->rejected, "Only what was rejected")->excludes(matched);
  app.add_flag("--summary", a->summary, "Counts only");
  app.add_flag("--kernels", a->kernels,
               "Also build the plan (weights are needed) and list the tactics that were not chosen, and why");
  app.add_option(
         "--arch", a->arch,
         "For a GPU of this architecture, here or not: sm_90. Nothing is measured; --kernels needs NVRTC, a driver it needs not")
      ->type_name("ARCH");
  app.add_option("--top", a->top, "Rows of the ledger; 0 all (default)")->check(in_range(0, 1 << 30))->type_name("N");
  add_precision(app, *a);
  add_build_options(app, *a);
  add_json(app, a->as_json);
  return [a] {
    if (!a->pattern.empty()) check_rewrite(a->pattern);
    report::Subject subject = a->subject();
    if (!a->arch.empty()) subject.options.arch = inspect::multiprocessor_of(a->arch).arch();
    stage("rewriting");
    report::Explained e = report::explain(subject);
    const auto names_node = [&](const fuse::Entry& x) {
      return a->node.empty() || x.blocker == a->node || std::ranges::find(x.nodes, a->node) != x.nodes.end();
    };
    const bool known = a->node.empty() || std::ranges::find(e.nodes, a->node) != e.nodes.end();
    if (!known && std::ranges::none_of(e.ledger, names_node))
      throw Error(fmt::format("--node: {} has no node '{}'", a->path, a->node),
                  fmt::format("See all of them: smelt info {} --graph", a->path), ExitCode::usage);
    std::erase_if(e.ledger, [&](const fuse::Entry& x) {
      return (!a->pattern.empty() && x.rewrite != a->pattern) || !names_node(x) || (a->matched && !x.matched) ||
             (a->rejected && x.matched);
    });
    std::vector<report::Table> tables{report::ledger_summary(e), report::form_table(e)};
    if (!a->node.empty())
      std::erase_if(e.float_nodes,
                    [&](const report::FloatNode& n) { return std::ranges::find(n.nodes, a->node) == n.nodes.end(); });
    if (!e.float_nodes.empty()) {
      tables.push_back(report::float_table(e));
      if (a->summary) tables.back().keep_top(10);
    }
    if (!a->summary) tables.push_back(report::ledger_table(e));
    if (a->kernels) {
      stage("building the plan");
      auto [plan, steps] = planned(subject);
      if (!a->node.empty())
        std::erase_if(steps, [&](const StepInfo& s) {
          return s.name != a->node && std::ranges::find(s.sources, a->node) == s.sources.end();
        });
      tables.push_back(report::fused_table(steps));
      tables.push_back(report::region_table(steps));
      tables.push_back(report::tactic_table(steps));
      if (report::Table early = report::early_launch_table(*plan); !early.rows.empty()) tables.push_back(std::move(early));
    }
    for (report::Table& t : tables) {
      if (t.key == "ledger") t.note.clear();  // the summary has it
      if (t.key == "ledger" && a->top) t.keep_top(static_cast<size_t>(a->top));
    }
    if (a->as_json) return print_line(report::document_json("smelt.explain", tables)), 0;
    if (e.ledger.empty()) note("no rewrite looked at such a place");
    print_tables(tables);
    return 0;
  };
}

}  // namespace smelt::cli
