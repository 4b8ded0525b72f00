#include <fmt/core.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "cli/common.h"
#include "tune/cache.h"

namespace smelt::cli {
namespace {

report::Table entries(const std::vector<tune::CacheEntry>& list) {
  using enum report::Unit;
  report::Table t{.key = "entries",
                  .title = "Tuning cache",
                  .columns = {{"problem", "problem"},
                              {"tactic", "chosen"},
                              {"median_us", "median", us},
                              {"q1_us", "q1", us},
                              {"q3_us", "q3", us},
                              {"tactics", "measured", count},
                              {"level", "level", count},
                              {"device", "device"},
                              {"versions", "versions"}}};
  for (const tune::CacheEntry& e : list) {
    if (e.timings.empty()) continue;
    const tune::Timing& best = e.timings[tune::winner(e.timings)];
    const std::string tactic = best.config.empty() ? best.tactic : best.tactic + " " + best.config;
    t.rows.push_back({e.key.problem, tactic, best.median, best.q1, best.q3, static_cast<int64_t>(e.timings.size()), e.level,
                      e.key.device, e.key.versions});
  }
  t.note = fmt::format("{} problems", t.rows.size());
  return t;
}

std::shared_ptr<tune::Cache> source(const std::string& file) {
  try {
    return tune::Cache::open_or_throw(file);
  } catch (const Error& e) {
    throw Error(e.what(), "Give the tuning.db of another cache folder, or what `smelt cache export` wrote (.json)", e.code());
  }
}

}  // namespace

Action add_cache(CLI::App& app) {
  struct Arguments {
    std::string folder, file;
    bool as_json = false;
  };
  auto a = std::make_shared<Arguments>();
  app.require_subcommand(0, 1);
  app.fallthrough();
  add_cache_dir(app, a->folder);
  add_json(app, a->as_json);
  app.add_subcommand("list", "Every problem with its winner (also without a subcommand)");
  CLI::App* merge = app.add_subcommand("merge", "Take over what another cache (tuning.db) or an export (.json) has measured");
  merge->add_option("from", a->file, "tuning.db or an exported .json")->required()->check(CLI::ExistingFile)->type_name("FILE");
  CLI::App* exported = app.add_subcommand("export", "Write all entries as JSON");
  exported->add_option("to", a->file, "Standard output if not given")->type_name("FILE");
  CLI::App* clear = app.add_subcommand("clear", "Remove every entry");
  for (CLI::App* sub : {merge, exported, clear}) sub->fallthrough();
  app.get_subcommand("list")->fallthrough();
  return [=] {
    const auto cache = tune::Cache::open_or_throw(tune::cache_path(cache_dir(a->folder)));
    const auto say = [&](const char* key, int n, const std::string& text) {
      report::Table t{.key = key, .columns = {{"entries", "entries", report::Unit::count}}, .rows = {{n}}};
      print_line(a->as_json ? report::table_json({t}) : fmt::format("{} entries {}", n, text));
    };
    if (merge->parsed()) {
      const int n = a->file.ends_with(".json") ? cache->import_json(read_text(a->file))
                                               : cache->merge(*source(a->file));
      say("merged", n, "taken from " + a->file);
    } else if (exported->parsed()) {
      if (a->file.empty()) print_line(cache->export_json());
      else write_text(a->file, cache->export_json());
    } else if (clear->parsed()) {
      say("cleared", cache->clear(), "removed from " + cache->path().string());
    } else {
      const report::Table t = entries(cache->list());
      if (a->as_json) print_line(report::table_json({t}));
      else print_table(t);
    }
    return 0;
  };
}

}  // namespace smelt::cli
