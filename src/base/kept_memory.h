// Blocks that tensors let go, kept for the tensors of about the same size that come next.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SMELT_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SMELT_WATCHED 1
#endif
#endif

namespace smelt {

/// By AddressSanitizer, which sees a block's ends alone where each block is one of malloc's.
#ifdef SMELT_WATCHED
inline constexpr bool is_memory_watched = true;
#else
inline constexpr bool is_memory_watched = false;
#endif

/// What a run returns is mostly let go before the next run asks for as much again. The system takes large blocks back at once and
/// hands out new pages, which it fills with zeros when they are first written: a third to two thirds of the time of an operator
/// that only moves memory. These blocks are kept instead, up to a limit, while there is a plan. Thread-safe; it never waits: beside
/// another thread, or in a child that was forked while another thread was in here, it has no block and keeps none.
class KeptMemory {
 public:
  static constexpr int64_t smallest = int64_t{32} << 10;  // bytes; malloc keeps what is smaller
  static constexpr size_t most_blocks = 256;
  explicit KeptMemory(int64_t most) : most_(most) {}
  ~KeptMemory() { drop(); }
  KeptMemory(const KeptMemory&) = delete;

  struct Block {
    void* memory = nullptr;
    int64_t size = 0;
  };

  /// The size that a block for so many bytes has: one of eight between two powers of two, so that the next result, a little longer
  /// than this one, finds a block, as a cache does that grows by each token.
  static int64_t size_of(int64_t bytes);
  /// The block that was kept last of those of that size to twice as much, the caller's from now on: results of changing shapes take the
  /// same few blocks in turn. Without memory where there is none.
  Block take(int64_t size);
  /// Keeps a block that free() takes; those kept longest make room. False where it is not kept, and stays the caller's.
  bool keep(const Block& block);
  /// Gives all of it back to the system.
  void drop();
  int64_t bytes() const;

 private:
  const int64_t most_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;  // the latest last
  int64_t bytes_ = 0;
};

/// The process', of at most 256 MiB and a sixteenth of the machine's memory; nothing under AddressSanitizer, which watches what is freed.
KeptMemory& kept_memory();

/// Blocks are kept while one of these lives: each plan has one. What is kept is dropped whenever one ends.
class KeepsMemory {
 public:
  KeepsMemory();
  ~KeepsMemory();
  KeepsMemory(const KeepsMemory&) = delete;
  static bool any();
};

}  // namespace smelt
