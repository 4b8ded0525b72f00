#include "device/cpu/counters.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "base/error.h"

namespace smelt::device::cpu {
namespace {

constexpr size_t ring_pages = 64;  // of samples a thread: some 5,000 at 4 KiB a page

/// A descriptor, or -1 with errno.
int open_event(const CountedEvent& event, uint64_t period, int thread, int group) {
  perf_event_attr a{};
  a.size = sizeof a;
  a.type = event.type, a.config = event.config;
  a.sample_period = period;
  if (period > 0) a.sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_READ;
  a.read_format = PERF_FORMAT_GROUP;
  a.disabled = group < 0;
  a.exclude_kernel = a.exclude_hv = 1;  // what an ordinary user may count
  a.use_clockid = 1;                    // of the whole group
  a.clockid = CLOCK_MONOTONIC;
  return static_cast<int>(::syscall(SYS_perf_event_open, &a, thread, -1, group, PERF_FLAG_FD_CLOEXEC));
}

std::string why(int error) {
  if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
    return "this machine shows no hardware counters (most virtual machines do not)";
  if (error == EACCES || error == EPERM)
    return "the system keeps them to administrators (kernel.perf_event_paranoid, or the container's seccomp profile)";
  return std::strerror(error);
}

[[noreturn]] void refused(int error) { throw Error("the processor's counters: " + why(error), "", ExitCode::unsupported); }

}  // namespace

SampledEvents hardware_events() {
  const auto hardware = [](uint64_t config) { return CountedEvent{PERF_TYPE_HARDWARE, config}; };
  return {{hardware(PERF_COUNT_HW_CPU_CYCLES), hardware(PERF_COUNT_HW_INSTRUCTIONS), hardware(PERF_COUNT_HW_CACHE_MISSES)},
          200'000};
}

/// A group of events on one thread, and the ring that the kernel writes samples into.
struct CounterSampler::Thread {
  std::array<int, 3> files{-1, -1, -1};
  void* ring = MAP_FAILED;
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

  Thread(const SampledEvents& events, int number) {
    for (size_t i = 0; i < files.size(); ++i) {
      files[i] = open_event(events.events[i], i == 0 ? events.period : 0, number, i == 0 ? -1 : files[0]);
      if (files[i] < 0) fail_with(errno);
    }
    ring = ::mmap(nullptr, (1 + ring_pages) * page, PROT_READ | PROT_WRITE, MAP_SHARED, files[0], 0);
    if (ring == MAP_FAILED) fail_with(errno);
  }
  ~Thread() { release(); }
  Thread(const Thread&) = delete;

  void release() {
    if (ring != MAP_FAILED) ::munmap(ring, (1 + ring_pages) * page);
    for (const int file : files)
      if (file >= 0) ::close(file);
  }
  [[noreturn]] void fail_with(int error) {
    release();
    refused(error);
  }

  std::vector<CounterSample> samples() const {
    auto* head = static_cast<perf_event_mmap_page*>(ring);
    const auto* data = static_cast<const char*>(ring) + page;
    const size_t bytes = ring_pages * page;
    const uint64_t end = std::atomic_ref(head->data_head).load(std::memory_order_acquire);
    const auto copy = [&](uint64_t at, void* to, size_t n) {  // a record may go round the ring's end
      for (size_t i = 0; i < n; ++i) static_cast<char*>(to)[i] = data[(at + i) % bytes];
    };
    std::vector<CounterSample> found;
    for (uint64_t at = head->data_tail; at + sizeof(perf_event_header) <= end;) {
      perf_event_header record{};
      copy(at, &record, sizeof record);
      if (record.size < sizeof record) break;
      struct {
        uint64_t time, count, values[3];
      } body{};
      if (record.type == PERF_RECORD_SAMPLE && record.size >= sizeof record + sizeof body) {
        copy(at + sizeof record, &body, sizeof body);
        if (body.count == 3) found.push_back({static_cast<int64_t>(body.time), {body.values[0], body.values[1], body.values[2]}});
      }
      at += record.size;
    }
    std::atomic_ref(head->data_tail).store(end, std::memory_order_release);
    return found;
  }
};

CounterSampler::CounterSampler(const SampledEvents& events) {
  std::error_code gone;
  for (std::filesystem::directory_iterator at("/proc/self/task", gone), end; !gone && at != end; at.increment(gone))
    threads_.push_back(std::make_unique<Thread>(events, std::stoi(at->path().filename().string())));
}

CounterSampler::~CounterSampler() = default;

void CounterSampler::start() {
  for (const auto& t : threads_) ::ioctl(t->files[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

std::vector<std::vector<CounterSample>> CounterSampler::stop() {
  std::vector<std::vector<CounterSample>> all;
  for (const auto& t : threads_) ::ioctl(t->files[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
  for (const auto& t : threads_) all.push_back(t->samples());
  return all;
}

std::string counters_missing() {
  const int file = open_event(hardware_events().events[0], 0, 0, -1);
  if (file < 0) return why(errno);
  ::close(file);
  return "";
}

}  // namespace smelt::device::cpu
