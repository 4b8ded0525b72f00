// The GPU's kernels compiled for every architecture that smelt is for, without a GPU: each family in a few forms, nothing
// spilled, and hardly more registers than the table says (tests/ops/cuda/kernels.txt, which scripts/cuda_kernels.sh renews).
#include <time.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "device/cuda/ceilings.h"
#include "kernels/embedded.h"
#include "ops/cuda/forms.h"
#include "ops/cuda/gpu.h"
#include "ops/tactic_check.h"
#include "support/paths.h"

namespace smelt::ops {
namespace {

/// The table's part for `title`, an architecture or "kernels": the lines between "[TITLE]" and the next title.
std::string kept_part(std::string_view title) {
  const std::string table = read_text(source_dir() / "tests/ops/cuda/kernels.txt"), head = fmt::format("[{}]\n", title);
  const size_t at = table.starts_with(head) ? 0 : table.find("\n" + head);
  if (at == table.npos) return {};
  const size_t begin = table.find('\n', at + 1) + 1, end = table.find("\n[", begin);
  return table.substr(begin, end == table.npos ? end : end + 1 - begin);
}

/// What the table's part would be now, for scripts/cuda_kernels.sh to join.
void write_part(std::string_view title, const std::string& lines) {
  const std::filesystem::path folder = build_dir() / "tests/ops/cuda/kernels";
  std::filesystem::create_directories(folder);
  write_text(folder / fmt::format("{}.txt", title), fmt::format("[{}]\n{}", title, lines));
}

constexpr std::string_view renew = "If that is meant: scripts/cuda_kernels.sh BUILD_DIR";

/// Registers a thread of each kernel, by "PROBLEM TACTIC CONFIGURATION: ENTRY". As text: the compiler's version, then a line a
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
    if (!f.has_kernels_on(arch)) continue;
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

/// Kernels of tactics that are off unless they are asked for, as the log has them; their tests are their own (cute_test.cpp).
constexpr std::string_view off_kernels = "conv/cute.cuh CuteTile: conv\n";

/// The forms reach every header of src/kernels; their kernels are the table's, to which scripts/gpu_tests.sh holds what it
/// runs.
void expect_every_kernel(const KernelLog& log) {
  std::set<std::string> headers;
  std::string names;
  for (const std::string& name : log.compiled()) {
    names += name + "\n";
    add_headers(fmt::format("#include \"{}\"", name.substr(0, name.find_first_of(" :"))), headers);
  }
  add_headers(device::cuda::ceiling_kernels().code, headers);  // run by tests/gpu/ceilings_test.cpp
  // In every source (ops/cuda/dependent_launch.h), and in those of products and convolutions (ops/cuda/epilogue.h).
  add_headers("#include \"common/dependent_launch.cuh\"\n#include \"pointwise/epilogue.cuh\"", headers);
  add_headers("#include \"conv/cute.cuh\"", headers);  // off_kernels
  for (const kernels::File& f : kernels::files()) EXPECT_TRUE(headers.contains(f.name)) << f.name << " is in no form's kernels";
  write_part("kernels", names);
  EXPECT_EQ(kept_part("kernels"), names) << renew;
  write_part("off", std::string(off_kernels));
  EXPECT_EQ(kept_part("off"), off_kernels) << renew;
}

class CudaKernels : public ::testing::TestWithParam<std::string_view> {};

TEST_P(CudaKernels, spill_nothing_keep_to_the_table_of_registers_and_reach_every_header) {
  if (!device::cuda::compiler_missing().empty()) GTEST_SKIP() << device::cuda::compiler_missing();
  constexpr int granted = 8;  // registers above the table: one step of their allocation to a warp
  const auto log = std::make_shared<KernelLog>();
  const Resources now = compile_forms(GetParam(), log);
  if (GetParam() == "sm_90a") expect_every_kernel(*log);  // the architecture whose candidates are all compiled
  write_part(GetParam(), now.print());
  const std::string kept = kept_part(GetParam());
  const Resources table = kept.empty() ? Resources{now.compiler, {}} : Resources::parse(kept);
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
  EXPECT_TRUE(differences.empty()) << differences << renew;
}

INSTANTIATE_TEST_SUITE_P(Architectures, CudaKernels,
                         ::testing::ValuesIn(device::cuda::known_archs().begin(), device::cuda::known_archs().end()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace smelt::ops
