// Writes the source of every CUDA kernel that the forms of tests/ops/cuda/*forms.cpp have: one file a kernel, compiled by
// nothing. scripts/same_machine_code.py compiles two such folders and compares what comes out.
//
//   kernel_forms ARCH FOLDER [all]     the first candidate of every form; all: every candidate
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "ops/cuda/forms.h"

namespace smelt::ops {
namespace {

void write_sources(std::string_view arch, const std::filesystem::path& folder, Candidates candidates) {
  std::filesystem::create_directories(folder);
  std::map<std::string, int> times;  // that a name was met
  size_t number = 0;
  const auto write = [&](const std::string& name, const device::cuda::Source& source) {
    std::string text = fmt::format("// {} #{}\n", name, times[name]++);
    for (const std::string& o : source.options) text += fmt::format("// option {}\n", o);
    write_text(folder / fmt::format("{:04}.cu", number++), text + source.code);
  };
  each_source(arch, write, candidates);
}

}  // namespace
}  // namespace smelt::ops

int main(int count, char** arguments) {
  if (count < 3) return std::fputs("usage: kernel_forms ARCH FOLDER [all]\n", stderr), 2;
  try {
    const bool all = count > 3 && std::string_view(arguments[3]) == "all";
    smelt::ops::write_sources(arguments[1], arguments[2], all ? smelt::ops::Candidates::all : smelt::ops::Candidates::first);
  } catch (const smelt::Error& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
