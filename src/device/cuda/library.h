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
  /// The address of a symbol. Throws Error (unsupported): missing() or the name of the symbol that this version lacks.
  void* require(const char* symbol) const;
  /// "libnvrtc.so.13 was not found; with it smelt compiles its GPU kernels", empty where it is available.
  std::string missing() const;
  const std::string& name() const { return name_; }
  /// Of the file that was opened, for the version table and for messages.
  const std::string& path() const { return path_; }

 private:
  std::string name_, gives_, path_, tried_;
  void* handle_ = nullptr;
};

/// Folders of NVIDIA's libraries outside the dynamic linker's, in the order that Library searches them.
std::vector<std::string> library_folders();

}  // namespace smelt::device::cuda
