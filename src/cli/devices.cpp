#include <fmt/core.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/common.h"
#include "profile/roof.h"

namespace smelt::cli {

Action add_devices(CLI::App& app) {
  struct Arguments {
    Options options;
    double seconds = 3;
    bool measure = false, as_json = false;
  };
  auto a = std::make_shared<Arguments>();
  app.add_flag("--measure", a->measure, "Take the machine's ceilings (bandwidth, FLOP/s per type) and keep them for profile");
  app.add_option("--seconds", a->seconds, "How long measuring takes, about")->check(CLI::Range(0.1, 600.0));
  app.add_option("--threads", a->options.threads, "CPU threads; 0 all that this process may use")->check(CLI::Range(0, 4096));
  app.add_option("--cache-dir", a->options.cache_dir, "Where the ceilings are kept (SMELT_CACHE_DIR, or ~/.cache/smelt)");
  app.add_flag("--json", a->as_json, "Print JSON");
  return [a] {
    const auto dir = a->options.cache_dir.empty() ? cache_dir() : std::filesystem::path(a->options.cache_dir);
    if (a->measure)
      profile::store_ceilings(dir, device::cpu::measure_ceilings(a->options.threads, a->seconds, [](const std::string& what) { note("measuring " + what); }));
    report::Subject subject;
    subject.path = "devices";
    subject.options = a->options;
    std::vector<report::Table> tables;
    report::Table machine{.key = "cpu", .title = "CPU", .columns = {{"what", ""}, {"value", ""}}};
    for (const report::Fact& f : report::bare_report(subject).machine) machine.rows.push_back({f.title, f.value});
    tables.push_back(machine);
    const auto c = profile::load_ceilings(dir, a->options.threads);
    if (c) {
      report::Table memory{.key = "memory", .title = fmt::format("Memory ({} threads)", c->threads), .columns = {{"what", ""}, {"bytes_per_s", "bandwidth", report::Unit::bytes_per_s}}};
      memory.rows.push_back({"read", c->read_bytes_per_s});
      memory.rows.push_back({"copy (read + write)", c->copy_bytes_per_s});
      report::Table rates{.key = "rates", .title = "Arithmetic", .columns = {{"type", "type"}, {"flops_per_s", "peak", report::Unit::flops_per_s}, {"how", "measured by"}}};
      for (const device::cpu::Rate& r : c->rates) rates.rows.push_back({std::string(name(r.type)), r.flops_per_s, r.how});
      tables.push_back(memory);
      tables.push_back(rates);
    }
    if (a->as_json) return print_line(report::table_json(tables)), 0;
    for (const report::Table& t : tables) print_table(t), print_line("");
    if (!c) print_line("The machine's ceilings were not measured yet: smelt devices --measure");
    return 0;
  };
}

}  // namespace smelt::cli
