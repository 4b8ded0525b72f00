// Compiled kernels, kept: in memory for the process, on disk under the hash of everything that made them.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/kept_files.h"
#include "device/cuda/compiler.h"

namespace smelt::device::cuda {

struct CubinStats {
  int64_t compiled = 0, from_disk = 0, from_memory = 0;
  double seconds = 0;  // of compiling, summed over the threads
};

/// Keys are CubinStore::key() without a compiler.
using Cubins = std::map<std::string, std::shared_ptr<const Cubin>>;
using Compile = std::function<Cubin(const Source& source, std::string_view arch)>;

/// Thread-safe; several processes may share a folder.
class CubinStore {
 public:
  /// `folder` is made when first written to; empty: nothing is kept on disk. A folder that cannot be written is said once.
  explicit CubinStore(std::filesystem::path folder = {}, Compile compile = cuda::compile);

  /// From memory, from disk, or compiled now and written to disk: under a temporary name, then renamed. An entry that is damaged,
  /// or not of this source, is compiled again and replaced. Threads that want the same one wait for the first of them. Throws as
  /// compile() does.
  std::shared_ptr<const Cubin> get(const Source& source, std::string_view arch);
  /// Adds the cubins of a plan as if they had been compiled here, whichever compiler made them.
  void carry(const Cubins& cubins);

  /// Every cubin that it has in memory.
  Cubins in_memory() const;
  CubinStats stats() const;
  /// 32 hexadecimal digits: of the code, the options, the architecture, the compiler (where given) and the headers of
  /// src/kernels; not of the name.
  static std::string key(const Source& source, std::string_view arch, std::string_view compiler = {});

 private:
  std::shared_ptr<const Cubin> make(const Source& source, std::string_view arch);

  KeptFiles files_;
  Compile compile_;
  mutable std::mutex mutex_;
  std::condition_variable made_;
  Cubins known_;
  std::set<std::string> making_;  // keys of what some thread reads or compiles now
  CubinStats stats_;
  bool carries_ = false;
};

/// A cubin as one file: a checksum, its key, its kernels' resources, its bytes.
std::string to_file(const Cubin& cubin, std::string_view key);
/// Null for what is no such file, is damaged, or has another key.
std::shared_ptr<const Cubin> from_file(std::string_view file, std::string_view key);

}  // namespace smelt::device::cuda
