// Libraries that smelt uses when they are there: opened at run time, never linked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smelt::device::cuda {

/// A shared library, open for the rest of the process once it was.
class Library {
 public:
  /// Opens the first of `files` that can be, in this order of places: where the process has it already (PyTorch brings its own),
  /// the dynamic linker's folders, CUDA_PATH/lib64 and lib, beside smelt's Python package (site-packages/nvidia/*/lib),
  /// /usr/local/cuda/lib64. `gives` is what smelt has of it, for the message that it is missing.
  Library(std::string name, std::vector<std::string> files, std::string gives);

  bool available() const { return handle_ != nullptr; }
  /// The address, null where the library or the symbol is missing.
  void* find(const char* symbol) const;
  /// Fills one entry of a table of functions; where there is no such symbol, says so in `missing` unless that is filled already.
  template <class F> void load(F& to, const char* symbol, std::string& missing) const {
    to = reinterpret_cast<F>(find(symbol));
    if (!to && missing.empty()) missing = lacks(symbol);
  }
  /// "libnvrtc.so.13 was not found; with it smelt compiles its GPU kernels", empty where it is available.
  std::string missing() const;
  const std::string& name() const { return name_; }
  /// Of the file that was opened, for the version table and for messages.
  const std::string& path() const { return path_; }

 private:
  std::string lacks(const char* symbol) const;

  std::string name_, gives_, path_, tried_;
  void* handle_ = nullptr;
};

/// Folders of NVIDIA's libraries outside the dynamic linker's, in the order that Library searches them.
std::vector<std::string> library_folders();

}  // namespace smelt::device::cuda
