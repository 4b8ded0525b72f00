// Writes the source of every CUDA kernel that the forms of tests/ops/cuda_*forms.cpp have: one file a kernel, compiled by
// nothing. scripts/same_machine_code.py compiles two such folders and compares what comes out.
//
//   kernel_forms ARCH FOLDER [all]     the first candidate of every form; all: every candidate
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "ops/cuda/gpu.h"
#include "ops/cuda_forms.h"

namespace smelt::ops {
namespace {

/// The entries of a source, as the compiler would report them.
device::cuda::Cubin uncompiled(const device::cuda::Source& source) {
  device::cuda::Cubin cubin;
  constexpr std::string_view kernel = "extern \"C\" __global__";
  for (size_t at = source.code.find(kernel); at != source.code.npos; at = source.code.find(kernel, at)) {
    at += kernel.size();
    // The name stands before the parenthesis that opens the parameters; __launch_bounds__ has parentheses of its own.
    size_t open = source.code.find('(', at);
    constexpr std::string_view bounds = "__launch_bounds__";
    if (const size_t b = source.code.find(bounds, at); b < open) open = source.code.find('(', source.code.find(')', open));
    size_t begin = open;
    while (std::isalnum(static_cast<unsigned char>(source.code[begin - 1])) || source.code[begin - 1] == '_') --begin;
    cubin.kernels.push_back({.entry = source.code.substr(begin, open - begin)});
  }
  return cubin;
}

void write_sources(std::string_view arch, const std::filesystem::path& folder, bool all) {
  std::filesystem::create_directories(folder);
  std::map<std::string, int> times;  // that a name was met
  size_t number = 0;
  for (Form& f : all_forms()) {
    f.bound.node = &f.node;
    std::string name;
    const auto gpu = std::make_shared<Gpu>(*gpu_of_arch(arch));
    gpu->info.l2_bytes = 1 << 20;  // small problems have the kernels of large ones
    gpu->cubins = std::make_shared<device::cuda::CubinStore>("", [&](const device::cuda::Source& source, std::string_view) {
      std::string text = fmt::format("// {} #{}\n", name, times[name]++);
      for (const std::string& o : source.options) text += fmt::format("// option {}\n", o);
      write_text(folder / fmt::format("{:04}.cu", number++), text + source.code);
      return uncompiled(source);
    });
    Machine machine;
    machine.gpu = gpu;
    const Offer o = offer(f.bound, machine);
    for (const Candidate& c : o.candidates) {
      if (!all && &c != &o.candidates.front()) break;
      name = fmt::format("{} {} {}", o.problem, c.tactic, c.config);
      c.prepare();
    }
  }
}

}  // namespace
}  // namespace smelt::ops

int main(int count, char** arguments) {
  if (count < 3) return std::fputs("usage: kernel_forms ARCH FOLDER [all]\n", stderr), 2;
  try {
    smelt::ops::write_sources(arguments[1], arguments[2], count > 3 && std::string_view(arguments[3]) == "all");
  } catch (const smelt::Error& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
