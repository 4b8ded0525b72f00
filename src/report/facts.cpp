#include "report/facts.h"

#include <oneapi/dnnl/dnnl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "profile/roof.h"

namespace smelt::report {
namespace {

std::string instruction_sets() {
#if defined(__x86_64__)
  std::string out = "sse2";
  if (__builtin_cpu_supports("avx2")) out += ", avx2";
  if (__builtin_cpu_supports("fma")) out += ", fma";
  if (__builtin_cpu_supports("avx512f")) out += ", avx512";
  if (__builtin_cpu_supports("avx512vnni")) out += ", vnni";
  return out;
#else
  return "generic";
#endif
}

std::string onednn_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace

std::vector<Fact> machine_facts(int threads) {
  const int cores = profile::allowed_cores();
  utsname system{};
  uname(&system);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return {{"cpu", "CPU", profile::cpu_model()},
          {"cores", "cores", cores},
          {"threads", "threads", threads > 0 ? threads : cores},
          {"isa", "instruction sets", instruction_sets()},
          {"memory_bytes", "memory", Cell(memory, Unit::bytes)},
          {"system", "system", fmt::format("{} {}", system.sysname, system.release)}};
}

std::vector<Fact> version_facts() {
  return {{"smelt", "smelt", SMELT_VERSION},
          {"onnx", "ONNX", SMELT_ONNX_VERSION},
          {"onednn", "oneDNN", onednn_version()},
          {"compiler", "compiler", fmt::format("{}", __VERSION__)}};
}

std::string version_line() {
  return fmt::format("smelt {} (onnx {}, oneDNN {})", SMELT_VERSION, SMELT_ONNX_VERSION, onednn_version());
}

}  // namespace smelt::report
