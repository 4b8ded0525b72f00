// The GPU's kernels compiled for every architecture that smelt is for, without a GPU: each family in a few forms, nothing
// spilled, and hardly more registers than the architecture's table says (tests/ops/cuda_resources).
#include <time.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "device/cuda/ceilings.h"
#include "kernels/embedded.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda_forms.h"
#include "ops/tactic_check.h"
#include "support/paths.h"

namespace smelt::ops {
namespace {

/// Registers a thread of each kernel, by "PROBLEM TACTIC CONFIGURATION: ENTRY". As a file: the compiler's version, then a line a
/// kernel.
struct Resources {
  std::string compiler;
  std::map<std::string, int> registers;

  std::string print() const {
    std::string text = compiler + "\n";
    for (const auto& [kernel, count] : registers) text += fmt::format("{:3}  {}\n", count, kernel);
    return text;
  }
  static Resources parse(const std::string& text) {
    Resources r;
    std::istringstream in(text);
    std::getline(in, r.compiler);
    int count = 0;
    for (std::string kernel; in >> count && std::getline(in >> std::ws, kernel);) r.registers[kernel] = count;
    return r;
  }
};

/// What this thread has used of a core: other work on the machine does not count.
double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

constexpr double seconds_granted = 3;

/// Compiles, and keeps what ptxas says of the kernels alone. Throws for what takes a core 3 s or more, which is then kept nowhere.
device::cuda::Cubin compile_in_time(const device::cuda::Source& source, std::string_view arch) {
  const double begin = thread_seconds();
  device::cuda::Cubin cubin = device::cuda::compile(source, arch);
  if (const double took = thread_seconds() - begin; took >= seconds_granted)
    fail("{} takes a core {:.1f} s to compile, expected less than {} s", source.name, took, seconds_granted);
  cubin.bytes.clear();
  return cubin;
}

/// What was said of kernels is kept under the hash of their source, headers, options and compiler, as ccache keeps objects: in the
/// folder SMELT_KERNEL_REPORTS, which CTest gives. Without one every kernel is compiled.
std::filesystem::path reports() {
  const char* folder = std::getenv("SMELT_KERNEL_REPORTS");
  return folder ? folder : "";
}

/// Of every form's candidates: all of them for sm_90a, the first elsewhere; their kernels' names go into `log`. A failed
/// expectation for what spills, and for what takes a core 3 s or more.
Resources compile_forms(std::string_view arch, const std::shared_ptr<KernelLog>& log) {
  Resources all{device::cuda::compiler_version(), {}};
  std::pair<double, std::string> slowest;
  for (Form& f : all_forms()) {
    f.bound.node = &f.node;
    Machine machine;
    const auto gpu = std::make_shared<Gpu>(*gpu_of_arch(arch));
    gpu->log = log;
    gpu->cubins = std::make_shared<device::cuda::CubinStore>(reports(), compile_in_time);
    gpu->info.l2_bytes = 1 << 20;  // small problems have the kernels of large ones
    machine.gpu = gpu;
    std::set<std::shared_ptr<const device::cuda::Cubin>> known;
    const Offer o = offer(f.bound, machine);
    for (const Candidate& c : o.candidates) {
      if (arch != "sm_90a" && &c != &o.candidates.front()) break;
      const std::string name = fmt::format("{} {} {}", o.problem, c.tactic, c.config);
      SCOPED_TRACE(name);
      const double begin = thread_seconds();
      try {
        c.prepare();
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
      EXPECT_LT(thread_seconds() - begin, seconds_granted) << "seconds of one core to compile it";
      slowest = std::max(slowest, {thread_seconds() - begin, name});
      for (const auto& [key, cubin] : machine.gpu->cubins->in_memory()) {
        if (!known.insert(cubin).second) continue;
        for (const device::cuda::KernelResources& k : cubin->kernels) {
          EXPECT_EQ(k.spill_store_bytes + k.spill_load_bytes, 0) << k.entry;
          EXPECT_EQ(k.stack_bytes, 0) << k.entry;
          int& registers = all.registers[name + ": " + k.entry];
          registers = std::max(registers, k.registers);
        }
      }
    }
  }
  fmt::print("{}: at most {:.2f} s to compile, {}\n", arch, slowest.first, slowest.second);
  return all;
}

/// The headers of src/kernels that `code` includes, and those that they include.
void add_headers(std::string_view code, std::set<std::string>& headers) {
  constexpr std::string_view include = "#include \"";
  for (size_t at = code.find(include); at != code.npos; at = code.find(include, at)) {
    at += include.size();
    const std::string name(code.substr(at, code.find('"', at) - at));
    if (!headers.insert(name).second) continue;
    for (const kernels::File& f : kernels::files())
      if (name == f.name) add_headers(f.text, headers);
  }
}

/// The forms reach every header of src/kernels; their kernels are those of kernels.txt, to which scripts/gpu_tests.sh holds what
/// it runs.
void expect_every_kernel(const KernelLog& log) {
  std::set<std::string> headers;
  std::string names;
  for (const std::string& name : log.compiled()) {
    names += name + "\n";
    add_headers(fmt::format("#include \"{}\"", name.substr(0, name.find_first_of(" :"))), headers);
  }
  add_headers(device::cuda::ceiling_kernels().code, headers);  // run by tests/gpu/ceilings_test.cpp
  headers.insert("common/dependent_launch.cuh");               // in every source: ops/cuda/dependent_launch.h
  headers.insert("common/expr.cuh");                           // in that of every program
  for (const kernels::File& f : kernels::files()) EXPECT_TRUE(headers.contains(f.name)) << f.name << " is in no form's kernels";
  const std::filesystem::path file = "tests/ops/cuda_resources/kernels.txt";
  const std::filesystem::path kept = source_dir() / file, written = build_dir() / file;
  write_text(written, names);
  EXPECT_EQ(std::filesystem::exists(kept) ? read_text(kept) : "", names)
      << "If that is meant: cp " << written.string() << " " << kept.string();
}

class CudaKernels : public ::testing::TestWithParam<std::string_view> {};

TEST_P(CudaKernels, spill_nothing_keep_to_the_table_of_registers_and_reach_every_header) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  constexpr int granted = 8;  // registers above the table: one step of their allocation to a warp
  const std::string file = fmt::format("tests/ops/cuda_resources/{}.txt", GetParam());
  const auto log = std::make_shared<KernelLog>();
  std::filesystem::create_directories(build_dir() / "tests/ops/cuda_resources");
  const Resources now = compile_forms(GetParam(), log);
  if (GetParam() == "sm_90a") expect_every_kernel(*log);  // the architecture whose candidates are all compiled
  const std::filesystem::path written = build_dir() / file;
  write_text(written, now.print());
  const std::filesystem::path kept = source_dir() / file;
  const Resources table = std::filesystem::exists(kept) ? Resources::parse(read_text(kept)) : Resources{now.compiler, {}};
  if (table.compiler != now.compiler) GTEST_SKIP() << "spills checked; registers not: the table is of " << table.compiler;
  std::string differences;
  for (const auto& [kernel, registers] : now.registers) {
    const auto row = table.registers.find(kernel);
    if (row == table.registers.end())
      differences += fmt::format("not in the table: {}\n", kernel);
    else if (registers > row->second + granted)
      differences += fmt::format("{} registers, not {}: {}\n", registers, row->second, kernel);
  }
  for (const auto& [kernel, registers] : table.registers)
    if (!now.registers.contains(kernel)) differences += fmt::format("no longer there: {}\n", kernel);
  EXPECT_TRUE(differences.empty()) << differences << "If that is meant: cp " << written.string() << " " << kept.string();
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernels,
                         ::testing::ValuesIn(device::cuda::known_archs().begin(), device::cuda::known_archs().end()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::ops
