#include "report/planned.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/by_threads.h"
#include "base/file.h"
#include "device/cuda/compiler.h"
#include "inspect/cubin.h"
#include "inspect/ptx.h"
#include "inspect/sass.h"
#include "kernels/embedded.h"

namespace smelt::report {

namespace cuda = device::cuda;

namespace {

InspectedKernel launched(const ops::PlannedLaunch& l) {
  InspectedKernel i;
  if (!l.cubin) {
    i.kernel.entry = l.entry;
    i.assumed_threads = true;
    return i;
  }
  const cuda::KernelResources& r = l.cubin->kernel(l.entry);
  const inspect::Image image = inspect::read_cubin(l.cubin->bytes);
  const auto at = std::ranges::find(image.kernels, l.entry, &inspect::Kernel::entry);
  if (at != image.kernels.end()) i = inspected(*at);
  i.kernel.spill_stores = r.spill_store_bytes;
  i.kernel.spill_loads = r.spill_load_bytes;
  i.assumed_threads = false;
  i.launch.threads = static_cast<int>(l.shape.block[0] * l.shape.block[1] * l.shape.block[2]);
  i.launch.dynamic_shared = l.shape.shared_bytes;
  i.grid = fmt::format("{}x{}x{}", l.shape.grid[0], l.shape.grid[1], l.shape.grid[2]);
  i.problem = l.source->name;
  if (i.problem.substr(0, i.problem.find(':')) != l.entry) i.problem += " " + l.entry;
  i.source = l.source;
  return i;
}

/// nvdisasm reads files.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    std::error_code none;  // TMPDIR may name what is no folder
    std::string name = (std::filesystem::temp_directory_path(none) / "smelt-cubin-XXXXXX").string();
    if (none) return;
    const int file = mkstemp(name.data());
    if (file < 0) return;
    close(file);
    path_ = name;
    write_text(path_, bytes);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The code of a program's kernels; none where it cannot be had.
std::vector<inspect::Kernel> code_of(const cuda::Source& source, const std::string& arch) {
  try {
    if (inspect::has_disassembler()) {
      cuda::Source with_lines = source;
      with_lines.options.push_back("--generate-line-info");
      const std::string bytes = cuda::compile(with_lines, arch).bytes;
      inspect::Image image = inspect::read_cubin(bytes);
      const TemporaryFile file(bytes);
      if (inspect::add_sass(image, file.path())) return image.kernels;
    }
    return inspect::read_ptx(cuda::compile_to_ptx(source, arch)).kernels;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::vector<InspectedKernel> kernels_of(const run::PlannedRun& run) {
  std::vector<InspectedKernel> kernels;
  for (const run::PlannedStep& s : run.steps)
    for (const ops::PlannedLaunch& l : s.launches) {
      kernels.push_back(launched(l));
      const std::string name = s.step.name.empty() ? s.step.op : s.step.name;  // what a plan puts between has no name
      kernels.back().step = s.in.empty() ? name : s.in + ": " + name;
      kernels.back().compiled_for = run.arch;
    }
  return kernels;
}

bool is_called(const InspectedKernel& k, std::string_view name) {
  return k.kernel.entry == name || k.problem == name || k.step == name;
}

void add_code(std::vector<InspectedKernel>& kernels, int threads) {
  struct Program {
    const InspectedKernel* first;
    std::vector<inspect::Kernel> found;
  };
  std::vector<Program> programs;
  const auto program_of = [&](const InspectedKernel& k) {
    return std::ranges::find_if(programs, [&](const Program& p) { return *p.first->source == *k.source; });
  };
  for (const InspectedKernel& k : kernels)
    if (k.source && program_of(k) == programs.end()) programs.push_back({&k, {}});
  by_threads(threads, programs.size(),
             [&](size_t i) { programs[i].found = code_of(*programs[i].first->source, programs[i].first->compiled_for); });
  for (InspectedKernel& k : kernels) {
    if (!k.source) continue;
    const auto& found = program_of(k)->found;
    const auto at = std::ranges::find(found, k.kernel.entry, &inspect::Kernel::entry);
    if (at != found.end()) k.kernel.code = at->code;
  }
}

std::map<std::string, std::string> texts_of(const InspectedKernel& kernel) {
  std::map<std::string, std::string> texts;
  if (kernel.source) texts.emplace(kernel.source->name, kernel.source->code);
  for (const kernels::File& f : kernels::files()) texts.emplace(f.name, f.text);
  return texts;
}

}  // namespace smelt::report
