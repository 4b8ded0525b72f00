#include "device/cuda/cutlass.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "device/cuda/library.h"

namespace smelt::device::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view option = "cutlass: ";

bool has(const std::string& folder, std::string_view file) {
  std::error_code ignored;
  return fs::is_regular_file(fs::path(folder) / file, ignored);
}

/// The number behind "#define NAME" in a header; 0 where there is none.
int defined(const std::string& header, std::string_view name) {
  const std::string text = read_text(header), before = fmt::format("#define {} ", name);
  size_t at = text.find(before);
  if (at == text.npos) return 0;
  at = text.find_first_not_of(' ', at + before.size());
  int number = 0;
  if (at != text.npos) std::from_chars(text.data() + at, text.data() + text.size(), number);
  return number;
}

/// Where CUDA's standard library lies in a folder of its headers: "/cccl" from CUDA 13 on; nothing where it lacks it.
const char* standard_library(const std::string& folder) {
  for (const char* below : {"/cccl", ""})
    if (has(folder + below, "cuda/std/tuple")) return below;
  return nullptr;
}

}  // namespace

CutlassHeaders find_cutlass(const std::vector<std::string>& cutlass, const std::vector<std::string>& cuda) {
  CutlassHeaders found;
  const auto ours = std::ranges::find_if(cutlass, [](const std::string& f) { return has(f, "cute/tensor.hpp"); });
  if (ours == cutlass.end()) {
    found.missing =
        "CuTe's headers were not found; pip install --no-deps nvidia-cutlass, and set CUTLASS_PATH to its folder "
        "cutlass_library/source";
    return found;
  }
  const auto theirs =
      std::ranges::find_if(cuda, [](const std::string& f) { return has(f, "cuda_fp16.h") && standard_library(f); });
  if (theirs == cuda.end()) {
    found.missing =
        "CUDA's headers with its standard library, which CuTe includes, were not found; pip install "
        "nvidia-cuda-runtime nvidia-cuda-cccl, or set CUDA_PATH to a toolkit";
    return found;
  }
  found.folders = {*ours, *theirs};
  if (const char* below = standard_library(*theirs); *below) found.folders.push_back(*theirs + below);
  const std::string version = *ours + "/cutlass/version.h", runtime = *theirs + "/cuda.h";
  try {
    const int number = has(*theirs, "cuda.h") ? defined(runtime, "CUDA_VERSION") : 0;
    found.version =
        fmt::format("CUTLASS {}.{}.{} beside CUDA {}.{}'s headers", defined(version, "CUTLASS_MAJOR"),
                    defined(version, "CUTLASS_MINOR"), defined(version, "CUTLASS_PATCH"), number / 1000, number % 1000 / 10);
  } catch (const Error& e) {
    found.missing = fmt::format("CuTe's headers cannot be read: {}", e.what());
  }
  return found;
}

const CutlassHeaders& cutlass_headers() {
  static const CutlassHeaders found = [] {
    std::vector<std::string> cutlass, cuda;
    if (const char* root = std::getenv("CUTLASS_PATH"); root && *root) cutlass.push_back(std::string(root) + "/include");
    for (const fs::path library : library_folders()) {
      // site-packages/nvidia/cu13/lib, and beside it site-packages/cutlass_library
      cutlass.push_back((library.parent_path().parent_path().parent_path() / "cutlass_library/source/include").string());
      cuda.push_back((library.parent_path() / "include").string());
    }
    return find_cutlass(cutlass, cuda);
  }();
  return found;
}

std::string cutlass_option() { return std::string(option) + cutlass_headers().version; }

bool is_cutlass_option(std::string_view text) { return text.starts_with(option); }

}  // namespace smelt::device::cuda
