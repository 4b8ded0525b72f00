#include "device/cuda/device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "base/error.h"
#include "device/cuda/compiler.h"
#include "device/cuda/stream_place.h"
#include "inspect/occupancy.h"

namespace smelt::device::cuda {
namespace {

struct Found {
  std::vector<DeviceInfo> devices;
  std::string missing;
};

std::string uuid_text(const abi::Uuid& u) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u.bytes[i]);
  return text;
}

DeviceInfo info_of(int ordinal) {
  const abi::Driver& d = driver();
  const std::string doing = fmt::format("asking for device {}", ordinal);
  abi::Device device = 0;
  check(d.device_get(&device, ordinal), doing);
  const auto attribute = [&](abi::DeviceAttribute which) {
    int value = 0;
    check(d.device_attribute(&value, which, device), doing);
    return value;
  };
  DeviceInfo info;
  info.ordinal = ordinal;
  std::array<char, 256> name{};
  check(d.device_name(name.data(), static_cast<int>(name.size()), device), doing);
  info.name = name.data();
  abi::Uuid uuid{};
  check(d.device_uuid(&uuid, device), doing);
  info.uuid = uuid_text(uuid);
  size_t bytes = 0;
  check(d.device_memory(&bytes, device), doing);
  info.memory_bytes = static_cast<int64_t>(bytes);
  info.major = attribute(abi::compute_capability_major);
  info.minor = attribute(abi::compute_capability_minor);
  info.arch = arch_of(info.major, info.minor);
  check(d.driver_version(&info.driver), doing);
  info.multiprocessors = attribute(abi::multiprocessor_count);
  info.clock_mhz = attribute(abi::clock_rate_khz) / 1000;
  // Two transfers a clock.
  info.bandwidth = 2e-3 * attribute(abi::memory_clock_rate_khz) * attribute(abi::memory_bus_bits) / 8;
  info.l2_bytes = attribute(abi::l2_cache_bytes);
  info.shared_per_block = attribute(abi::max_shared_memory_per_block_optin);
  info.shared_per_multiprocessor = attribute(abi::max_shared_memory_per_multiprocessor);
  info.reserved_shared_per_block = attribute(abi::reserved_shared_memory_per_block);
  info.registers_per_multiprocessor = attribute(abi::max_registers_per_multiprocessor);
  info.threads_per_multiprocessor = attribute(abi::max_threads_per_multiprocessor);
  return info;
}

Found find() {
  Found found;
  found.missing = driver_missing();
  if (!found.missing.empty()) return found;
  int count = 0;
  if (const abi::Result r = driver().device_count(&count); r != abi::success || count == 0) {
    found.missing = r == abi::success ? "the driver sees no GPU" : describe(r);
    return found;
  }
  for (int i = 0; i < count; ++i) found.devices.push_back(info_of(i));
  return found;
}

const Found& found() {
  static const Found f = find();
  return f;
}

}  // namespace

const std::vector<DeviceInfo>& devices() { return found().devices; }

std::string devices_missing() { return found().missing; }

std::optional<int> ordinal_of(const std::string& device) {
  if (device == "cpu") return std::nullopt;
  std::string_view given = device;  // PyTorch's names: cuda, cuda:1
  for (const std::string_view kind : {"gpu", "cuda"}) {
    if (device == kind) return 0;
    if (!given.starts_with(kind) || !given.substr(kind.size()).starts_with(':')) continue;
    given.remove_prefix(kind.size() + 1);
    break;
  }
  int number = -1;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
  if (error != std::errc() || end != given.data() + given.size() || number < 0)
    fail_usage("device '{}' is none of cpu, gpu, or a GPU's number (smelt devices lists them)", device);
  return number;
}

DeviceInfo info_of_arch(std::string_view arch) {
  // NVIDIA's data sheets.
  struct Row {
    int capability, multiprocessors, clock_mhz, gbytes_per_s, memory_gib, l2_mib;
    const char* name;
  };
  constexpr Row rows[] = {
      {75, 40, 1590, 320, 16, 4, "Tesla T4"},          {80, 108, 1410, 1555, 40, 40, "NVIDIA A100"},
      {86, 72, 1695, 600, 24, 6, "NVIDIA A10"},        {87, 16, 1300, 204, 32, 4, "Jetson AGX Orin"},
      {89, 58, 2040, 300, 24, 48, "NVIDIA L4"},        {90, 132, 1980, 3350, 80, 50, "NVIDIA H100"},
      {100, 148, 1965, 8000, 180, 126, "NVIDIA B200"}, {120, 170, 2407, 1792, 32, 96, "NVIDIA GeForce RTX 5090"}};
  DeviceInfo info;
  std::tie(info.major, info.minor) = capability_of(arch);
  const int capability = info.major * 10 + info.minor;
  const Row& r = *std::ranges::find(rows, capability, &Row::capability);
  info.name = r.name;
  info.arch = arch_of(info.major, info.minor);
  info.multiprocessors = r.multiprocessors;
  info.clock_mhz = r.clock_mhz;
  info.bandwidth = r.gbytes_per_s * 1e3;
  info.memory_bytes = int64_t{r.memory_gib} << 30;
  info.l2_bytes = int64_t{r.l2_mib} << 20;
  const inspect::Multiprocessor& m = inspect::multiprocessor_of(arch);
  info.shared_per_multiprocessor = static_cast<int>(m.shared);
  info.shared_per_block = static_cast<int>(m.shared_per_block);
  info.reserved_shared_per_block = static_cast<int>(m.reserved);
  info.registers_per_multiprocessor = 65536;
  info.threads_per_multiprocessor = 32 * m.warps;
  return info;
}

std::shared_ptr<Device> Device::open(int ordinal) {
  refuse_if_lost();
  const auto& all = devices();
  if (all.empty()) throw Error("no GPU: " + devices_missing(), "Run on the CPU: --device cpu", ExitCode::unsupported);
  if (ordinal < 0 || ordinal >= static_cast<int>(all.size()))
    throw Error(fmt::format("there is no GPU {}: this machine has {}, from 0", ordinal, all.size()), "smelt devices lists them",
                ExitCode::usage);
  const DeviceInfo& info = all[static_cast<size_t>(ordinal)];
  if (info.major * 10 + info.minor < 75)
    fail_unsupported("GPU {} ({}) has compute capability {}.{}; smelt's kernels need 7.5", ordinal, info.name, info.major,
                     info.minor);
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Device>> opened;
  std::lock_guard lock(mutex);
  auto device = opened[ordinal].lock();
  if (!device) opened[ordinal] = device = std::shared_ptr<Device>(new Device(info));
  return device;
}

Device::Device(const DeviceInfo& info) : info_(info) {
  const std::string doing = fmt::format("opening GPU {} ({})", info.ordinal, info.name);
  check(driver().device_get(&device_, info.ordinal), doing);
  check(driver().primary_context_retain(&context_, device_), doing);
}

Device::~Device() {
  trim();
  {
    const Current current(*this);
    for (abi::Stream s : spare_streams_) driver().stream_destroy(s);
  }
  driver().primary_context_release(device_);
}

Device::Current::Current(const Device& device) { driver().context_push(device.context_); }

Device::Current::~Current() {
  abi::Context ignored = nullptr;
  driver().context_pop(&ignored);
}

void Device::synchronize() const {
  const Current current(*this);
  check(driver().context_synchronize(), "waiting for the GPU");
}

int64_t Device::free_bytes() const {
  const Current current(*this);
  size_t free = 0, total = 0;
  check(driver().memory_info(&free, &total), "asking for free memory");
  return static_cast<int64_t>(free);
}

PinnedMemory::PinnedMemory(std::shared_ptr<Device> device, int64_t bytes) : device_(std::move(device)), bytes_(bytes) {
  const Device::Current current(*device_);
  check(driver().host_allocate(&data_, static_cast<size_t>(std::max<int64_t>(bytes, 1))),
        fmt::format("allocating {} bytes of pinned memory", bytes));
}

PinnedMemory::~PinnedMemory() {
  const Device::Current current(*device_);
  driver().host_free(data_);
}

abi::Stream Device::take_stream() {
  {
    std::lock_guard lock(mutex_);
    if (!spare_streams_.empty()) {
      abi::Stream spare = spare_streams_.back();
      spare_streams_.pop_back();
      return spare;
    }
  }
  const Current current(*this);
  abi::Stream made = nullptr;
  check(driver().stream_create(&made, abi::stream_non_blocking), "making a stream");
  return made;
}

void Device::give_back(abi::Stream stream) {
  std::lock_guard lock(mutex_);
  spare_streams_.push_back(stream);
}

Stream::Stream(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const StreamPlace* place = StreamPlace::current();
  if (!place) {
    stream_ = device_->take_stream();
    return;
  }
  const Device::Current current(*device_);
  stream_ = place->make();
}

Stream::~Stream() {
  const Device::Current current(*device_);
  if (!StreamPlace::destroy(stream_)) device_->give_back(stream_);
}

void Stream::synchronize() const {
  const Device::Current current(*device_);
  check(driver().stream_synchronize(stream_), "waiting for the GPU");
}

Event::Event(std::shared_ptr<Device> device, bool timed) : device_(std::move(device)) {
  const Device::Current current(*device_);
  check(driver().event_create(&event_, timed ? abi::event_default : abi::event_disable_timing), "making an event");
}

Event::~Event() {
  const Device::Current current(*device_);
  driver().event_destroy(event_);
}

void Event::record(abi::Stream stream) const {
  const Device::Current current(*device_);
  check(driver().event_record(event_, stream), "recording an event");
}

void Event::synchronize() const {
  const Device::Current current(*device_);
  check(driver().event_synchronize(event_), "waiting for the GPU");
}

bool Event::passed() const {
  const Device::Current current(*device_);
  return driver().event_query(event_) != abi::not_ready;
}

void Event::delay(abi::Stream stream) const {
  const Device::Current current(*device_);
  check(driver().stream_wait_event(stream, event_, 0), "making a stream wait");
}

double Event::since(const Event& begin) const {
  const Device::Current current(*device_);
  float milliseconds = 0;
  check(driver().event_elapsed(&milliseconds, begin.event_, event_), "reading a time");
  return milliseconds * 1e3;
}

bool is_capturing(abi::Stream stream) {
  int status = 0;
  check(driver().stream_is_capturing(stream, &status), "asking for a capture");
  return status != 0;
}

int device_of(const void* address) {
  if (devices().empty()) return -1;
  unsigned type = 0;
  int ordinal = -1;
  const auto at = reinterpret_cast<abi::Address>(address);
  const abi::Result r = driver().pointer_attribute(&type, abi::pointer_memory_type, at);
  if (r == abi::invalid_value) return -1;  // memory that CUDA knows nothing of
  check(r, "asking where memory lies");
  if (type != abi::memory_device) return -1;
  check(driver().pointer_attribute(&ordinal, abi::pointer_device_ordinal, at), "asking where memory lies");
  return ordinal;
}

}  // namespace smelt::device::cuda
