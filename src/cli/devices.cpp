#include <fmt/core.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/common.h"
#include "profile/roof.h"

namespace smelt::cli {
namespace {

/// JSON names each fact by its key, which holds the unit: memory_bytes.
report::Table machine_table(const Options& options, bool as_json) {
  report::Subject subject;
  subject.options = options;
  report::Table t{.key = "cpu", .title = "CPU", .columns = {{"what", ""}, {"value", ""}}};
  for (const report::Fact& f : report::bare_report(subject).machine) t.rows.push_back({as_json ? f.key : f.title, f.value});
  return t;
}

report::Table memory_table(const device::cpu::Ceilings& c) {
  report::Table t{.key = "memory",
                  .title = fmt::format("Memory ({} threads)", c.threads),
                  .columns = {{"what", ""}, {"bytes_per_s", "bandwidth", report::Unit::bytes_per_s}}};
  t.rows.push_back({"read", c.read_bytes_per_s});
  t.rows.push_back({"copy (read + write)", c.copy_bytes_per_s});
  t.note = fmt::format("starting a parallel region takes {}", report::format(c.launch_us, report::Unit::us));
  return t;
}

report::Table rate_table(const device::cpu::Ceilings& c) {
  report::Table t{.key = "rates",
                  .title = "Arithmetic",
                  .columns = {{"type", "type"}, {"flops_per_s", "peak", report::Unit::flops_per_s}, {"how", "measured by"}}};
  for (const device::cpu::Rate& r : c.rates) t.rows.push_back({std::string(name(r.type)), r.flops_per_s, r.how});
  return t;
}

}  // namespace

Action add_devices(CLI::App& app) {
  struct Arguments {
    Options options;
    double seconds = 3;
    bool measure = false, as_json = false;
  };
  auto a = std::make_shared<Arguments>();
  app.add_flag("--measure", a->measure,
               "Take the machine's ceilings (bandwidth, FLOP/s per type) and keep them for profile and explain");
  app.add_option("--seconds", a->seconds, "How long measuring takes, about (3)")->check(in_range(0.1, 600.0))->type_name("S");
  add_threads(app, a->options.threads);
  add_cache_dir(app, a->options.cache_dir);
  add_json(app, a->as_json);
  return [a] {
    const auto dir = cache_folder(a->options.cache_dir);
    if (a->measure) {
      const auto say = [](const std::string& what) { note("measuring " + what); };
      profile::store_ceilings(dir, device::cpu::measure_ceilings(a->options.threads, a->seconds, say));
    }
    std::vector<report::Table> tables{machine_table(a->options, a->as_json)};
    const auto c = profile::load_ceilings(dir, a->options.threads);
    if (c) {
      tables.push_back(memory_table(*c));
      tables.push_back(rate_table(*c));
    }
    if (a->as_json) return print_line(report::table_json(tables)), 0;
    print_tables(tables);
    if (!c) print_line("\nThe machine's ceilings were not measured yet: smelt devices --measure");
    return 0;
  };
}

}  // namespace smelt::cli
