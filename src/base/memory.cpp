#include "base/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/kept_memory.h"

namespace smelt {
namespace {

constexpr int64_t unknown = std::numeric_limits<int64_t>::max();
constexpr int64_t alignment = 64;                 // bytes: a cache line, and the widest vector register
constexpr int64_t looked_at = int64_t{64} << 20;  // a look at the machine's memory takes as long as writing a megabyte
std::atomic<int64_t> asked_for = 0;               // since it was looked
std::atomic<int64_t> held_by_all = 0;             // tensors of the process
thread_local std::shared_ptr<MemoryAccount> innermost;

/// The number a file of the control group holds ("max": no limit).
int64_t number_in(const std::filesystem::path& path) {
  std::ifstream in(path);
  int64_t n = 0;
  return in >> n && n >= 0 ? n : unknown;
}

/// The value of a key in memory.stat; 0 where it is not there.
int64_t counted(const std::filesystem::path& stat, std::string_view key) {
  std::ifstream in(stat);
  std::string name;
  for (int64_t n = 0; in >> name >> n;)
    if (name == key) return n;
  return 0;
}

/// What a group's own limit leaves. Pages of files that are not in use give way, so they do not count as held.
int64_t left_in(const std::filesystem::path& folder, const char* limit, const char* held, const char* files) {
  const int64_t most = number_in(folder / limit), taken = number_in(folder / held);
  if (most == unknown || taken == unknown) return most;
  return std::max<int64_t>(0, most - std::max<int64_t>(0, taken - counted(folder / "memory.stat", files)));
}

int64_t left_in(const std::filesystem::path& folder) {
  return std::min(left_in(folder, "memory.max", "memory.current", "inactive_file"),
                  left_in(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"));
}

/// The least that a group and those that hold it leave, up to `root`. In a container the group's own folder may lie outside of
/// what is mounted: then `root` is it.
int64_t least_left(const std::filesystem::path& root, const std::filesystem::path& group) {
  int64_t least = left_in(root);
  std::filesystem::path folder = root;
  for (const auto& part : group.relative_path()) least = std::min(least, left_in(folder /= part));
  return least;
}

int64_t system_available() {
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  for (int64_t kib = 0; in >> key >> kib; std::getline(in, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return unknown;
}

}  // namespace

int64_t group_memory(const std::string& groups, const std::filesystem::path& root) {
  int64_t least = unknown;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {  // "0::/user.slice", "4:memory:/docker/1f2a"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty()) least = std::min({least, least_left(root, group), least_left(root / "unified", group)});
    if (("," + controllers + ",").find(",memory,") != std::string::npos)
      least = std::min({least, least_left(root / controllers, group), least_left(root / "memory", group)});
  }
  return least;
}

int64_t available_memory() {
  std::ifstream file("/proc/self/cgroup");
  return std::min(system_available(), group_memory({std::istreambuf_iterator<char>(file), {}}, "/sys/fs/cgroup"));
}

int64_t left_for_tensors(int64_t available, int64_t held, int64_t written) {
  if (available == unknown) return unknown;
  constexpr int64_t most_kept = int64_t{1} << 30;
  const int64_t promised = std::max<int64_t>(0, held - written);
  return std::max<int64_t>(0, available - std::min(available / 16, most_kept) - promised);
}

namespace {

/// Memory of the process that is no file's.
int64_t written_memory() {
  std::ifstream in("/proc/self/statm");
  int64_t all = 0, resident = 0, of_files = 0;
  if (!(in >> all >> resident >> of_files)) return 0;
  return std::max<int64_t>(0, resident - of_files) * sysconf(_SC_PAGESIZE);
}

int64_t left_on_machine() {
  const int64_t written = std::max<int64_t>(0, written_memory() - kept_memory().bytes());
  return left_for_tensors(available_memory(), held_by_all.load(std::memory_order_relaxed), written);
}

/// Whether the machine has that much to give. Small tensors are added up, and looked at once they are much together.
bool machine_has(int64_t bytes) {
  if (bytes < looked_at && asked_for.fetch_add(bytes, std::memory_order_relaxed) + bytes < looked_at) return true;
  asked_for.store(0, std::memory_order_relaxed);
  return std::max(bytes, looked_at) <= left_on_machine();
}

[[noreturn]] void refuse(int64_t bytes, DType type, const Shape& shape) {
  const MemoryAccount& account = *memory_account();
  const std::string what = fmt::format("a tensor {}{} needs {} bytes", name(type), to_string(shape), bytes);
  if (account.limit() - account.held() < bytes)
    throw Error(fmt::format("{}: {} of the limit of {} are left", what, std::max<int64_t>(0, account.limit() - account.held()),
                            account.limit()),
                "Allow more (--memory-limit, Options::memory_limit, memory_limit=), or bind smaller extents (--shapes).");
  throw Error(fmt::format("{}, the machine has {} to give", what, left_on_machine()),
              "Bind smaller extents (--shapes), or run where there is more memory.");
}

/// Asks for huge pages for the part of a block that fills such pages. They are a hundredth of the page faults when the memory is first
/// written and of the TLB's entries, and put the bytes of a page on the same sets of a cache in every process, so that timings repeat.
/// A machine that refuses them (transparent_hugepage/enabled: never) gives ordinary pages.
void ask_for_huge_pages([[maybe_unused]] void* p, [[maybe_unused]] int64_t size) {
#ifdef MADV_HUGEPAGE
  if (size >= huge_page) madvise(p, static_cast<size_t>(size / huge_page * huge_page), MADV_HUGEPAGE);
#endif
}

}  // namespace

bool MemoryAccount::take(int64_t bytes) {
  if (held_.fetch_add(bytes, std::memory_order_relaxed) > limit_ - bytes || !machine_has(bytes)) {
    held_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  held_by_all.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

void MemoryAccount::give_back(int64_t bytes) {
  held_.fetch_sub(bytes, std::memory_order_relaxed);
  held_by_all.fetch_sub(bytes, std::memory_order_relaxed);
}

const std::shared_ptr<MemoryAccount>& memory_account() {
  static const auto unlimited = std::make_shared<MemoryAccount>();
  return innermost ? innermost : unlimited;
}

MemoryScope::MemoryScope(std::shared_ptr<MemoryAccount> account) : outer_(std::exchange(innermost, std::move(account))) {}
MemoryScope::~MemoryScope() { innermost = std::move(outer_); }

int64_t memory_left() {
  const MemoryAccount& account = *memory_account();
  return std::min(left_on_machine(), std::max<int64_t>(0, account.limit() - account.held()));
}

namespace {

/// Blocks that are cut from malloc's own: those of up to 1 KiB it keeps for each thread, but not aligned ones, which take three times as long.
constexpr int64_t largest_cut = is_memory_watched ? 0 : 512;

KeptMemory::Block cut_block(int64_t size) {
  void* whole = std::malloc(static_cast<size_t>(size + alignment));  // at least 16 bytes before a multiple of 64
  if (!whole) return {};
  const auto at = (reinterpret_cast<uintptr_t>(whole) + alignment) & ~static_cast<uintptr_t>(alignment - 1);
  auto* memory = reinterpret_cast<void**>(at);
  memory[-1] = whole;
  return {memory, size};
}

/// A block of at least that many bytes, one that was kept or the system's; without memory where the system has none.
KeptMemory::Block block_of(int64_t bytes) {
  if (bytes <= largest_cut) return cut_block(bytes);
  const int64_t size = KeptMemory::size_of(bytes);
  if (const KeptMemory::Block kept = kept_memory().take(size); kept.memory) return kept;
  void* p = nullptr;
  if (posix_memalign(&p, static_cast<size_t>(size < huge_page ? alignment : huge_page), static_cast<size_t>(size)) != 0)
    return {};
  ask_for_huge_pages(p, size);
  return {p, size};
}

void let_go(const KeptMemory::Block& block) {
  if (block.size <= largest_cut) return std::free(static_cast<void**>(block.memory)[-1]);
  if (!KeepsMemory::any() || !kept_memory().keep(block)) std::free(block.memory);
}

/// Takes the bytes from the account, if need be from what is kept.
bool taken(MemoryAccount& account, int64_t size) {
  if (account.take(size)) return true;
  if (account.limit() - account.held() < size || kept_memory().bytes() == 0) return false;
  kept_memory().drop();
  return account.take(size);
}

}  // namespace

std::shared_ptr<void> tensor_memory(int64_t bytes, DType type, const Shape& shape) {
  const int64_t size = bytes > unknown - alignment ? bytes : std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  const std::shared_ptr<MemoryAccount>& account = memory_account();
  if (!taken(*account, size)) refuse(bytes, type, shape);
  const KeptMemory::Block block = block_of(size);
  if (!block.memory) {
    account->give_back(size);
    fail("no memory for a tensor {}{}: {} bytes", name(type), to_string(shape), bytes);
  }
  // A copy of the capture's own, which moves: one of the reference's type, const, would be counted up and down again and again.
  return {block.memory, [own = std::shared_ptr(account), size, block](void*) {
            let_go(block);
            own->give_back(size);
          }};
}

std::shared_ptr<void> memory_elsewhere(int64_t bytes, DType type, const Shape& shape) {
  const std::shared_ptr<MemoryAccount>& account = memory_account();
  if (!account->take(bytes)) refuse(bytes, type, shape);
  return {account.get(), [account, bytes](void*) { account->give_back(bytes); }};
}

void check_available(int64_t bytes, DType type, const Shape& shape) {
  const MemoryAccount& account = *memory_account();
  if (account.held() > account.limit() - bytes || !machine_has(bytes)) refuse(bytes, type, shape);
}

}  // namespace smelt
