#include <fmt/core.h>

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/busy.h"
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
                              {"other_threads", "with other threads", count},
                              {"device", "device"},
                              {"versions", "versions"}}};
  for (const tune::CacheEntry& e : list) {
    if (e.timings.empty()) continue;
    const tune::Timing& best = e.timings[tune::winner(e.timings)];
    const std::string tactic = best.config.empty() ? best.tactic : best.tactic + " " + best.config;
    t.rows.push_back({e.key.problem, tactic, best.min, best.q1, best.q3, static_cast<int64_t>(e.timings.size()), e.level,
                      std::ranges::count_if(e.timings, [](const tune::Timing& t) { return t.with_threads > 0; }), e.key.device,
                      e.key.versions});
  }
  t.note = fmt::format("{} problems", t.rows.size());
  return t;
}

/// Files compiled for GPUs (KeptFiles): each has a hash as its name and lies in a folder named after the first two digits.
std::vector<std::filesystem::path> compiled(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;  // of a folder that is not there, not ours to read, or removed by another process meanwhile
  using Files = std::filesystem::recursive_directory_iterator;
  for (Files at(folder, std::filesystem::directory_options::skip_permission_denied, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const std::string stem = at->path().stem().string(), parent = at->path().parent_path().filename().string();
    const bool hash = stem.size() == 32 && stem.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (hash && stem.starts_with(parent) && at->is_regular_file(gone)) files.push_back(at->path());
  }
  return files;
}

std::string compiled_kernels(size_t count) { return fmt::format("{} compiled kernel{}", count, count == 1 ? "" : "s"); }

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
  CLI::App* clear = app.add_subcommand("clear", "Remove every entry, and what was compiled for GPUs");
  for (CLI::App* sub : {merge, exported, clear}) sub->fallthrough();
  app.get_subcommand("list")->fallthrough();
  return [=] {
    const std::filesystem::path folder = cache_dir(a->folder);
    const auto cache = tune::Cache::open_or_throw(tune::cache_path(folder));
    const auto say = [&](const char* key, int n, const std::string& text) {
      report::Table t{.key = key, .columns = {{"entries", "entries", report::Unit::count}}, .rows = {{n}}};
      print_line(a->as_json ? report::document_json("smelt.cache", {t}) : fmt::format("{} entries {}", n, text));
    };
    const std::vector<std::filesystem::path> kernels = compiled(folder / "kernels");
    if (!a->file.empty()) stage((merge->parsed() ? "reading " : "writing ") + a->file);
    if (merge->parsed()) {
      const int n = a->file.ends_with(".json") ? cache->import_json(read_text(a->file)) : cache->merge(*source(a->file));
      say("merged", n, "taken from " + a->file);
    } else if (exported->parsed()) {
      if (a->file.empty())
        print_line(cache->export_json());
      else
        write_text(a->file, cache->export_json());
    } else if (clear->parsed()) {
      const int n = cache->clear();
      std::error_code another_process_was_first;
      for (const std::filesystem::path& file : kernels) std::filesystem::remove(file, another_process_was_first);
      say("cleared", n, fmt::format("removed from {}, and {}", cache->path().string(), compiled_kernels(kernels.size())));
    } else {
      report::Table t = entries(cache->list());
      uintmax_t bytes = 0;
      for (const std::filesystem::path& file : kernels) {
        std::error_code gone;
        if (const uintmax_t size = std::filesystem::file_size(file, gone); !gone) bytes += size;
      }
      if (!kernels.empty())
        t.note += fmt::format("; {}, {:.1f} MB", compiled_kernels(kernels.size()), static_cast<double>(bytes) / 1e6);
      if (a->as_json)
        print_line(report::document_json("smelt.cache", {t}));
      else
        print_table(t);
    }
    return 0;
  };
}

}  // namespace smelt::cli
