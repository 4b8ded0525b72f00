#include <fmt/core.h>

#include "cli/busy.h"
#include "cli/common.h"
#include "report/timings.h"

namespace smelt::cli {

Action add_diff(CLI::App& app) {
  struct Arguments {
    std::string first, second;
    int top = 25;
    bool as_json = false;
  };
  auto a = std::make_shared<Arguments>();
  constexpr const char* what =
      "A profile: smelt's JSON, a PyTorch trace, an ONNX Runtime profile, trtexec --exportProfile, Nsight Systems' SQLite";
  app.add_option("first", a->first, what)->required()->type_name("FILE");
  app.add_option("second", a->second, "The one to compare with it, of the same origin or another")->required()->type_name("FILE");
  app.add_option("--top", a->top, "Rows of each table (25); 0 all")->check(in_range(0, 1 << 30))->type_name("N");
  add_json(app, a->as_json);
  return [a] {
    stage("reading " + a->first);
    const profile::Timings first = profile::read_timings(a->first);
    stage("reading " + a->second);
    const profile::Timings second = profile::read_timings(a->second);
    std::vector<report::Table> tables{report::scope_diff_table(first, second), report::node_diff_table(first, second)};
    if (a->as_json) {
      print_line(report::document_json("smelt.diff", tables));
      return 0;
    }
    if (a->top > 0)
      for (report::Table& t : tables) t.keep_top(static_cast<size_t>(a->top));
    print_tables(tables);
    print_line("\n" + report::diff_text(first, second));
    return 0;
  };
}

}  // namespace smelt::cli
