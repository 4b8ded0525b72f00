// How many blocks of a kernel a multiprocessor holds at a time, what keeps it from holding more, and what would let it. No GPU is
// asked: the rules are those of the architectures, and what NVIDIA's cuda_occupancy.h gives (tests/inspect/occupancy_test.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace smelt::inspect {

/// What a multiprocessor of an architecture has. Of every one here: warps of 32 threads, 65,536 registers in 4 parts, given out
/// to warps by 256, at most 1024 threads a block.
struct Multiprocessor {
  int capability = 0;            // 90: compute capability 9.0
  int warps = 0, blocks = 0;     // that it holds at a time
  int barriers = 0;              // named ones
  int64_t shared = 0;            // bytes of shared memory
  int64_t shared_per_block = 0;  // the most that a block may ask for, where its kernel opted in
  int64_t reserved = 0;          // bytes that each block takes beside what it asks for
  int64_t shared_unit = 0;       // bytes by which it is given out
  std::string arch() const;      // "sm_90"
};

/// Those of compute capability 7.5 to 12.1.
std::span<const Multiprocessor> multiprocessors();
/// Of "sm_90", "sm_90a" or "9.0"; null for others.
const Multiprocessor* find_multiprocessor(std::string_view arch);
/// The same. Throws Error (usage) for others, listing those that there are.
const Multiprocessor& multiprocessor_of(std::string_view arch);

/// What one block of a kernel asks for.
struct Launch {
  int threads = 0;
  int registers = 0;                              // a thread
  int64_t static_shared = 0, dynamic_shared = 0;  // bytes
  int barriers = 0;
  int64_t shared() const { return static_shared + dynamic_shared; }
  bool operator==(const Launch&) const = default;
};

/// "regs=63,smem=70KiB,threads=128", also static=4KiB and barriers=2, over what `launch` has. threads=16x16 multiplies.
/// Throws Error (usage) for what cannot be read or cannot be a launch.
Launch parse_launch(std::string_view text, Launch launch = {});

enum class Limit : uint8_t { registers, shared, warps, blocks, barriers };
inline constexpr std::array all_limits{Limit::registers, Limit::shared, Limit::warps, Limit::blocks, Limit::barriers};
std::string_view name(Limit l);  // "shared memory"

struct Occupancy {
  static constexpr int no_limit = INT32_MAX;
  std::array<int, all_limits.size()> limits{};  // blocks that each resource lets in, by Limit
  int blocks = 0;                               // that a multiprocessor holds: the least of them
  int warps_per_block = 0, warps = 0, most_warps = 0;
  int64_t registers_per_warp = 0, shared_per_block = 0;  // as they are given out
  std::string refused;                                   // why no block runs; empty where one does

  int of(Limit l) const { return limits[static_cast<size_t>(l)]; }
  bool limited_by(Limit l) const { return of(l) == blocks; }
  double share() const { return static_cast<double>(warps) / most_warps; }
  std::string limiter() const;  // "registers", "registers and warps"
};

Occupancy occupancy(const Multiprocessor& m, const Launch& launch);

/// Another launch that a multiprocessor holds more blocks or warps of. What is not given stays.
struct Change {
  std::optional<int> registers, threads;
  std::optional<int64_t> shared;  // bytes, static and dynamic
  int blocks = 0, warps = 0;      // it holds then
};

/// The least that has to change for one block more, and for as many as the other resources let in: of registers or of shared
/// memory, or of both where both keep it from more; and another number of threads with which more warps fit.
std::vector<Change> changes(const Multiprocessor& m, const Launch& launch);
/// "at 96 registers, 3 blocks instead of 2"; changes to the same number of blocks are joined by "or".
std::vector<std::string> what_if(const Multiprocessor& m, const Launch& launch);
/// The most registers and shared memory with which it holds as many blocks as now.
Change room(const Multiprocessor& m, const Launch& launch);

/// "70.5 KiB", "48 KiB", "100 bytes".
std::string bytes_text(int64_t bytes);

}  // namespace smelt::inspect
