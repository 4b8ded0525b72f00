#include <algorithm>

#include "base/error.h"
#include "cli/common.h"

namespace smelt::cli {

Action add_explain(CLI::App& app) {
  struct Arguments : ModelArguments {
    std::string rewrite, node;
    bool matched = false, rejected = false, summary = false;
    int top = 0;
  };
  auto a = std::make_shared<Arguments>();
  app.add_option("model", a->path, "An ONNX model; its weights need not be there")->required();
  app.add_option("--shapes", a->shapes_text, "Fix input shapes: x:1x3x224x224");
  app.add_option("--skip", a->options.skip, "Rewrites to leave out, by name")->delimiter(',');
  app.add_option("--rewrite", a->rewrite, "Only entries of this rewrite");
  app.add_option("--node", a->node, "Only entries that cover this ONNX node or are blocked by it");
  app.add_flag("--matched", a->matched, "Only what matched");
  app.add_flag("--rejected", a->rejected, "Only what was rejected");
  app.add_flag("--summary", a->summary, "Counts per rewrite only");
  app.add_option("--top", a->top, "Rows shown; 0 all")->check(CLI::Range(0, 1 << 30));
  app.add_flag("--json", a->as_json, "Print JSON");
  return [a] {
    fuse::Ledger ledger = report::ledger_of(a->subject());
    std::erase_if(ledger, [&](const fuse::Entry& e) {
      const bool names_node = a->node.empty() || e.blocker == a->node || std::find(e.nodes.begin(), e.nodes.end(), a->node) != e.nodes.end();
      return (!a->rewrite.empty() && e.rewrite != a->rewrite) || !names_node || (a->matched && !e.matched) || (a->rejected && e.matched);
    });
    std::vector<report::Table> tables{report::ledger_summary(ledger)};
    if (!a->summary) tables.push_back(report::ledger_table(ledger));
    if (a->as_json) return print_line(report::table_json(tables)), 0;
    for (report::Table& t : tables) {
      if (t.key == "ledger" && a->top) t.keep_top(static_cast<size_t>(a->top));
      print_table(t);
      print_line("");
    }
    return 0;
  };
}

}  // namespace smelt::cli
