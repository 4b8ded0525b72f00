// GPUs: what they are, and the memory, streams and events on them. Every object keeps its device's primary context alive and
// makes it current for its own calls, so any thread may use any of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/cuda/driver.h"
#include "device/cuda/free_blocks.h"

namespace smelt::device::cuda {

struct DeviceInfo {
  int ordinal = 0;
  std::string name;          // "NVIDIA H100 80GB HBM3"
  std::string uuid;          // "GPU-8c5a…"
  std::string arch;          // "sm_90a": what its kernels are compiled for
  int driver = 0;            // 13000: the newest CUDA that its driver runs
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int clock_mhz = 0;     // of the multiprocessors, at most
  double bandwidth = 0;  // of its memory by its clock and width, bytes a microsecond
  int64_t memory_bytes = 0, l2_bytes = 0;
  int shared_per_block = 0, shared_per_multiprocessor = 0,
      reserved_shared_per_block = 0;  // bytes; per block: what it may opt in to
  int registers_per_multiprocessor = 0, threads_per_multiprocessor = 0;
};

/// The GPUs of this machine; empty where there is none or no driver.
const std::vector<DeviceInfo>& devices();
/// Why devices() is empty: "NVIDIA's driver was not found (libcuda.so.1)…".
std::string devices_missing();
/// What Options::device says: "cpu" → nothing, "gpu" → 0, "1" → 1. Throws Error (usage) for anything else.
std::optional<int> ordinal_of(const std::string& device);
/// What kernels are chosen for where no device of the architecture is at hand: NVIDIA's T4, A100, A10, Jetson AGX Orin, L4, H100
/// SXM, B200 and RTX 5090. Throws as capability_of() does.
DeviceInfo info_of_arch(std::string_view arch);

class Memory;

/// One GPU of this process.
class Device : public std::enable_shared_from_this<Device> {
 public:
  /// The same object for the same ordinal while anyone holds it. Throws Error: usage for an ordinal that there is not (listing
  /// those that there are), unsupported without a driver or below compute capability 7.5.
  static std::shared_ptr<Device> open(int ordinal);
  ~Device();
  Device(const Device&) = delete;

  const DeviceInfo& info() const { return info_; }
  /// Waits for all that this process has asked of the device.
  void synchronize() const;
  /// Bytes free on the device now, whoever uses the rest.
  int64_t free_bytes() const;
  /// From the pool of freed blocks, or from the driver; 256-byte aligned. `what` names it in the error for too little memory,
  /// which says what was asked for, what smelt holds and what is free. `limit` (0: none) bounds what smelt holds on the device.
  /// `stream`: the first stream to use it, for which used_on() is then called; a block that only this stream still uses will do.
  std::shared_ptr<Memory> allocate(int64_t bytes, std::string_view what, std::optional<abi::Stream> stream = {});
  /// Tells the pool that `stream` was given work on the memory at `address`. When the Memory that lies there goes back to the
  /// pool, nothing else uses it until all work that the stream has by then is done. The stream must live at least as long as the
  /// Memory. Memory that is not the pool's is ignored.
  void used_on(abi::Stream stream, const void* address);
  /// Calls used_on(), and makes later work of `stream` wait for the work of other streams on that memory.
  void follow(abi::Stream stream, const void* address);
  /// Keeps `used`, which does not live in the pool, until all work that `stream` has by now is done. The next allocate() after
  /// that releases it, in its calling thread.
  void keep(std::shared_ptr<const void> used, abi::Stream stream);
  /// Blocks the calling thread until the streams' work on that memory is done.
  void wait_for(const void* address);
  void set_limit(int64_t bytes);
  int64_t limit() const;
  /// What the pool holds: in use by Memory objects, and in all.
  int64_t used_bytes() const;
  int64_t held_bytes() const;
  /// Gives the pool's free blocks back to the driver.
  void trim();

  /// Makes the device's context current while it lives. It does not throw, because destructors use it: where it fails, the call
  /// that follows fails too.
  class Current {
   public:
    explicit Current(const Device& device);
    ~Current();
    Current(const Current&) = delete;
  };

 private:
  friend class Memory;
  friend class Stream;
  explicit Device(const DeviceInfo& info);
  abi::Stream take_stream();
  void give_back(abi::Stream stream);
  void release(abi::Address address, int64_t bytes);
  /// A block that a Memory holds; in_use_ finds it by its first byte.
  struct Held {
    int64_t bytes = 0;
    std::vector<abi::Stream> streams;
  };
  struct Kept {
    std::shared_ptr<const void> used;
    std::shared_ptr<const Moment> end;
  };
  /// The block that the address lies in; null for memory that is not the pool's. The caller holds the mutex.
  Held* held(const void* address);
  std::vector<abi::Stream> streams_of(const void* address);

  DeviceInfo info_;
  abi::Device device_ = 0;
  abi::Context context_ = nullptr;
  mutable std::mutex mutex_;
  FreeBlocks free_;
  std::map<abi::Address, Held> in_use_;
  std::vector<Kept> kept_;
  std::vector<abi::Stream> spare_streams_;
  int64_t held_ = 0, used_ = 0, limit_ = 0;
};

/// Device memory; its destructor gives it back to the pool. By then only streams that Device::used_on was told of may use it.
class Memory {
 public:
  ~Memory();
  Memory(const Memory&) = delete;
  abi::Address address() const { return address_; }
  int64_t bytes() const { return bytes_; }  // what was asked for

 private:
  friend class Device;
  Memory(std::shared_ptr<Device> device, abi::Address address, int64_t bytes, int64_t block);
  std::shared_ptr<Device> device_;
  abi::Address address_;
  int64_t bytes_, block_;
};

/// Host memory that the device copies from and to without staging.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<Device> device, int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// A driver's stream serves one Stream after another; the next one's work comes after what the last one left. The reason: after
/// some hundred streams were made and destroyed, gaps between the kernels of a process's CUDA graphs are four times as long
/// (docs/measurements.md).
class Stream {
 public:
  explicit Stream(std::shared_ptr<Device> device);
  ~Stream();
  Stream(const Stream&) = delete;
  abi::Stream get() const { return stream_; }
  const Device& device() const { return *device_; }
  void synchronize() const;

 private:
  std::shared_ptr<Device> device_;
  abi::Stream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(std::shared_ptr<Device> device, bool timed = true);
  ~Event();
  Event(const Event&) = delete;
  abi::Event get() const { return event_; }
  void record(abi::Stream stream) const;
  void synchronize() const;
  /// Whether the work before it on its stream is done; true where the driver cannot tell, because the GPU's work is lost then.
  bool passed() const;
  /// Later work of `stream` waits for it.
  void delay(abi::Stream stream) const;
  /// Microseconds from `begin` to this one, both recorded and done.
  double since(const Event& begin) const;

 private:
  std::shared_ptr<Device> device_;
  abi::Event event_ = nullptr;
};

/// Whether work put on this stream now is captured into a graph.
bool is_capturing(abi::Stream stream);

/// The ordinal of the device in whose memory an address lies, whoever allocated it; -1 for host memory, pinned or not.
int device_of(const void* address);

}  // namespace smelt::device::cuda
