#include "ops/core/machine.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/threads.h"

namespace smelt::ops {
namespace {

struct Processor {
  std::string name = "unknown processor";
  bool amx = false;
};

/// Of those that kernels are made for, beside the widest set.
constexpr std::string_view instruction_sets[] = {"avx_vnni", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16"};

Processor read_processor() {
  Processor p;
  std::string family, model, stepping, sets;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {  // the first processor's paragraph
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) p.name = line.substr(colon + 2);
    if (line.starts_with("cpu family")) family = line.substr(colon + 2);
    if (line.starts_with("model\t")) model = line.substr(colon + 2);
    if (line.starts_with("stepping")) stepping = line.substr(colon + 2);
    if (!line.starts_with("flags")) continue;
    p.amx = line.find(" amx_tile") != std::string::npos;
    for (const std::string_view set : instruction_sets)
      if ((line + ' ').find(fmt::format(" {} ", set)) != std::string::npos) sets += fmt::format(" {}", set);
  }
  // Several generations are sold under one name, and virtual machines hide instructions.
  if (!family.empty()) p.name += fmt::format(" ({}.{}.{}{})", family, model, stepping, sets);
  return p;
}

std::string widest_isa(const Processor& p) {
  __builtin_cpu_init();
  if (p.amx) return "amx";
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
  return "x86-64";
}

}  // namespace

bool multiplies_bf16() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");
}

int usable_cores() { return threads::usable_cores(); }

Machine this_machine(int threads) {
  if (threads < 0 || threads > max_threads)
    fail_usage("{} threads: expected at most {}, or 0 for all cores", threads, max_threads);
  static const Processor processor = read_processor();
  const dnnl_version_t* dnnl = dnnl_version();
  Machine m;
  m.threads = threads > 0 ? threads : usable_cores();
  m.cpu = processor.name;
  m.isa = widest_isa(processor);
  m.versions = fmt::format("smelt {}, oneDNN {}.{}.{}", SMELT_VERSION, dnnl->major, dnnl->minor, dnnl->patch);
  return m;
}

}  // namespace smelt::ops
