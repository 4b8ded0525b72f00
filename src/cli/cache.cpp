#include <fmt/core.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/common.h"
#include "tune/cache.h"

namespace smelt::cli {
namespace {

report::Table entries(const std::vector<tune::CacheEntry>& list) {
  report::Table t{.key = "entries", .title = "Tuning cache",
                  .columns = {{"problem", "problem"}, {"tactic", "chosen"}, {"median_us", "median", report::Unit::us}, {"q1_us", "q1", report::Unit::us}, {"q3_us", "q3", report::Unit::us},
                              {"tactics", "measured", report::Unit::count}, {"level", "level", report::Unit::count}, {"device", "device"}, {"versions", "versions"}}};
  for (const tune::CacheEntry& e : list) {
    if (e.timings.empty()) continue;
    const tune::Timing& best = e.timings[tune::winner(e.timings)];
    t.rows.push_back({e.key.problem, best.config.empty() ? best.tactic : best.tactic + " " + best.config, best.median, best.q1, best.q3,
                      static_cast<int64_t>(e.timings.size()), e.level, e.key.device, e.key.versions});
  }
  t.note = fmt::format("{} problems", t.rows.size());
  return t;
}

}  // namespace

Action add_cache(CLI::App& app) {
  struct Arguments {
    std::string folder, file;
    bool as_json = false;
  };
  auto a = std::make_shared<Arguments>();
  app.require_subcommand(1);
  app.add_option("--cache-dir", a->folder, "The cache's folder (SMELT_CACHE_DIR, or ~/.cache/smelt)");
  CLI::App* list = app.add_subcommand("list", "Every problem with its winner");
  list->add_flag("--json", a->as_json, "Print JSON");
  CLI::App* merge = app.add_subcommand("merge", "Take over what another cache (tuning.db) or an export (.json) has measured");
  merge->add_option("from", a->file, "tuning.db or an exported .json")->required()->check(CLI::ExistingFile);
  CLI::App* exported = app.add_subcommand("export", "Write all entries as JSON");
  exported->add_option("to", a->file, "The file; standard output if not given");
  CLI::App* clear = app.add_subcommand("clear", "Remove every entry");
  return [=] {
    const std::filesystem::path folder = a->folder.empty() ? cache_dir() : std::filesystem::path(a->folder);
    const auto cache = tune::Cache::open_or_throw(tune::cache_path(folder));
    if (list->parsed()) {
      const report::Table t = entries(cache->list());
      if (a->as_json) print_line(report::table_json({t}));
      else print_table(t);
    } else if (merge->parsed()) {
      const int n = a->file.ends_with(".json") ? cache->import_json(read_text(a->file)) : cache->merge(*tune::Cache::open_or_throw(a->file));
      print_line(fmt::format("{} entries taken from {}", n, a->file));
    } else if (exported->parsed()) {
      if (a->file.empty()) print_line(cache->export_json());
      else write_text(a->file, cache->export_json());
    } else if (clear->parsed()) {
      print_line(fmt::format("{} entries removed from {}", cache->clear(), cache->path().string()));
    }
    return 0;
  };
}

}  // namespace smelt::cli
