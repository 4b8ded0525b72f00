#include <fmt/core.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/busy.h"
#include "cli/common.h"
#include "device/cpu/ceilings.h"
#include "device/cuda/ceilings.h"
#include "profile/roof.h"
#include "report/gpus.h"

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

/// `prefix` of the keys: "" the processor's, "gpu0_".
void add_ceilings(std::vector<report::Table>& tables, const device::Ceilings& c, const std::string& prefix,
                  const std::string& of) {
  report::Table memory{.key = prefix + "memory",
                       .title = fmt::format("Memory ({})", of),
                       .columns = {{"what", ""}, {"bytes_per_s", "bandwidth", report::Unit::bytes_per_s}}};
  memory.rows.push_back({"read", c.read_bytes_per_s});
  memory.rows.push_back({"copy (read + write)", c.copy_bytes_per_s});
  memory.note = fmt::format("{} takes {}", c.threads > 0 ? "starting a parallel region" : "an empty kernel in a CUDA graph",
                            report::format(c.launch_us, report::Unit::us));
  report::Table rates{.key = prefix + "rates",
                      .title = fmt::format("Arithmetic ({})", of),
                      .columns = {{"type", "type"}, {"flops_per_s", "peak", report::Unit::flops_per_s}, {"how", "measured by"}}};
  for (const device::Rate& r : c.rates) rates.rows.push_back({name(r.type), r.flops_per_s, r.how});
  tables.push_back(std::move(memory));
  tables.push_back(std::move(rates));
}

void measure(const std::filesystem::path& dir, const Options& options, double seconds) {
  const auto say = [](const std::string& what) {
    note("measuring " + what);
    stage("measuring " + what);
  };
  const auto gpu = device::cuda::ordinal_of(options.device);
  if (!gpu) {
    device::Ceilings c = device::cpu::measure_ceilings(options.threads, seconds, say);
    // A measurement beside other work does not replace a better one, and takes what is higher from one like itself.
    if (const auto kept = c.under_load ? profile::load_ceilings(dir, options.threads) : std::nullopt)
      c = device::cpu::best_of(c, *kept);
    return profile::store_ceilings(dir, c);
  }
  const auto device = device::cuda::Device::open(*gpu);
  device::cuda::CubinStore cubins(dir / "kernels");
  profile::store_gpu_ceilings(dir, device->info().uuid, device->info().name,
                              device::cuda::measure_ceilings(device, cubins, seconds, say));
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
  app.add_option("--device", a->options.device, "What to measure: cpu (default), gpu, or a GPU's number: 1")->type_name("DEVICE");
  app.add_option("--seconds", a->seconds, "How long measuring takes, about (3)")->check(in_range(0.1, 600.0))->type_name("S");
  add_threads(app, a->options.threads);
  add_cache_dir(app, a->options.cache_dir);
  add_json(app, a->as_json);
  return [a] {
    const auto dir = cache_dir(a->options.cache_dir);
    device::cuda::ordinal_of(a->options.device);  // refuses a wrong device, with --measure or without
    if (a->measure) measure(dir, a->options, a->seconds);
    std::vector<report::Table> tables{machine_table(a->options, a->as_json)};
    const auto c = profile::load_ceilings(dir, a->options.threads);
    if (c) add_ceilings(tables, *c, "", fmt::format("{} threads", c->threads));
    report::add_gpu_tables(tables, a->as_json);
    for (const device::cuda::DeviceInfo& gpu : device::cuda::devices())
      if (const auto kept = profile::load_gpu_ceilings(dir, gpu.uuid))
        add_ceilings(tables, *kept, fmt::format("gpu{}_", gpu.ordinal), fmt::format("GPU {}", gpu.ordinal));
    if (a->as_json) return print_line(report::document_json("smelt.devices", tables)), 0;
    print_tables(tables);
    if (const std::string missing = device::cuda::devices_missing(); !missing.empty()) print_line("\nNo GPU: " + missing);
    if (c && c->under_load)
      print_line("\nOther work had the cores while the ceilings were measured; again in quiet: smelt devices --measure");
    if (!c) print_line("\nThe machine's ceilings were not measured yet: smelt devices --measure");
    return 0;
  };
}

}  // namespace smelt::cli
