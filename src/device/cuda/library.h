// Libraries that smelt uses when they are there: opened at run time, never linked.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smelt/error.h"

namespace smelt::device::cuda {

/// A shared library. Once opened it stays open for the rest of the process.
class Library {
 public:
  /// Opens the first of `files` that it finds. It looks in this order: what the process has already (PyTorch brings its own),
  /// the dynamic linker's folders, CUDA_PATH/lib64 and lib, beside smelt's Python package (site-packages/nvidia/*/lib),
  /// /usr/local/cuda/lib64. `gives`: what smelt does with it, for the message that it is missing.
  Library(std::string name, const std::vector<std::string>& files, std::string gives);

  /// Another instance of the same file, whose variables no one else in the process has: a copy of it in memory is opened. Itself
  /// where it is missing, or where the system does not allow that.
  Library own_instance() const;

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

/// What `smelt devices` says of a library.
struct LibraryState {
  std::string name, version, path;
  std::string missing;  // why it cannot be used, and what it would have given; empty where it can
};

/// The functions of a library by a table of their addresses (src/device/cuda/abi), or why there are none.
template <class Table> class Functions {
 public:
  /// `install`: what the user can do where it is missing.
  Functions(Library library, std::string install)
      : library_(std::move(library)), install_(std::move(install)), missing_(library_.missing()) {}

  template <class F> void load(F Table::*entry, const char* symbol) { library_.load(table_.*entry, symbol, missing_); }
  /// Makes the library count as missing, with this reason.
  void refuse(std::string why) { missing_ = std::move(why); }

  /// Throws E (unsupported) where the library is missing.
  template <class E = Error> const Table& get() const {
    if (missing_.empty()) return table_;
    throw E(missing_, install_, ExitCode::unsupported);
  }
  /// Why get() would throw; empty where it would not.
  const std::string& missing() const { return missing_; }
  const Library& library() const { return library_; }
  LibraryState state(std::string version) const { return {library_.name(), std::move(version), library_.path(), missing_}; }

 private:
  Library library_;
  std::string install_;
  Table table_;
  std::string missing_;
};

/// Folders of NVIDIA's libraries outside the dynamic linker's, in the order that Library searches them.
std::vector<std::string> library_folders();

}  // namespace smelt::device::cuda
