// How much memory values may take: every tensor's memory is taken from an account before the system is asked for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "smelt/dtype.h"
#include "smelt/shape.h"

namespace smelt {

/// Bytes that this process can still get: what the system calls available, at most what its control groups' limits leave. The
/// largest int64_t where neither is known.
int64_t available_memory();

/// What the memory limits of a process' control groups, as /proc/self/cgroup lists them, leave of what they allow, less what the
/// groups hold; groups lie below `root`. The largest int64_t without a limit.
int64_t group_memory(const std::string& groups, const std::filesystem::path& root);

/// What is left of `available` bytes for more tensors: less what those that there are (`held` bytes) were promised and have not
/// written yet, of which `written` bytes of the process' memory tell, and less a sixteenth (at most 1 GiB) for all that is no tensor.
int64_t left_for_tensors(int64_t available, int64_t held, int64_t written);

/// What the values of one session take together: constants that were computed, activations, what loops carry, results while somebody
/// has them. Thread-safe.
class MemoryAccount {
 public:
  static constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();
  explicit MemoryAccount(int64_t limit = no_limit) : limit_(limit) {}
  int64_t limit() const { return limit_; }
  int64_t held() const { return held_.load(std::memory_order_relaxed); }
  /// Takes the bytes, and those of the process with them; false where that many are not left.
  bool take(int64_t bytes);
  void give_back(int64_t bytes);

 private:
  int64_t limit_;
  std::atomic<int64_t> held_ = 0;
};

/// The account that tensors of this thread are taken from: the innermost scope's, outside of all one without a limit.
const std::shared_ptr<MemoryAccount>& memory_account();
class MemoryScope {
 public:
  explicit MemoryScope(std::shared_ptr<MemoryAccount> account);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  std::shared_ptr<MemoryAccount> outer_;
};

/// Bytes that tensors may still take: what this thread's account and the machine leave.
int64_t memory_left();

inline constexpr int64_t huge_page = int64_t{2} << 20;  // bytes

/// Memory for a tensor, aligned and taken from this thread's account until the last owner lets it go; of huge pages where it fills
/// one, on systems that give them. Throws Error where that many bytes are not left: the system would promise them, and end the
/// process when they are written.
std::shared_ptr<void> tensor_memory(int64_t bytes, DType type, const Shape& shape);

/// Takes the bytes of a tensor that lie elsewhere, as strings do, from this thread's account until the last owner lets them go.
/// Throws as tensor_memory does.
std::shared_ptr<void> memory_elsewhere(int64_t bytes, DType type, const Shape& shape);

/// Throws Error where a tensor of that many bytes could not be had now.
void check_available(int64_t bytes, DType type, const Shape& shape);

}  // namespace smelt
