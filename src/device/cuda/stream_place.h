// Where streams run: before others, or on multiprocessors of their own (green contexts). A driver older than CUDA 12.4 has neither.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "device/cuda/abi/places.h"
#include "device/cuda/device.h"

namespace smelt::device::cuda {

/// Some of a device's multiprocessors, which other groups' work keeps off. Work that is captured on its streams stays on them.
class Multiprocessors {
 public:
  /// Two groups: at least so many, by the unit that the device splits them by (8 on Hopper), and the rest. Throws Error:
  /// unsupported where the driver cannot, usage where a group would have none.
  static std::pair<std::shared_ptr<const Multiprocessors>, std::shared_ptr<const Multiprocessors>> split(
      const std::shared_ptr<Device>& device, int first);
  ~Multiprocessors();
  Multiprocessors(const Multiprocessors&) = delete;
  int count() const { return count_; }

 private:
  friend class StreamPlace;
  Multiprocessors(std::shared_ptr<Device> device, abi::Resource& part);
  std::shared_ptr<Device> device_;
  abi::GreenContext context_ = nullptr;
  int count_ = 0;
};

/// What the streams are made as that the calling thread makes while this lives: those of captures too, whose kernels keep the
/// priority and the multiprocessors wherever their graph is launched.
class StreamPlace {
 public:
  enum class Priority : uint8_t { usual, first, last };
  explicit StreamPlace(Priority priority, std::shared_ptr<const Multiprocessors> on = nullptr);
  ~StreamPlace();
  StreamPlace(const StreamPlace&) = delete;

  /// The thread's innermost one; null where streams are the usual ones.
  static const StreamPlace* current();
  /// The device's context is current. Throws Error (unsupported) where the driver lacks what it takes.
  abi::Stream make() const;
  /// Waits for its work and destroys a stream that was made so; false for another.
  static bool destroy(abi::Stream stream);

 private:
  Priority priority_;
  std::shared_ptr<const Multiprocessors> on_;
  const StreamPlace* outer_;
};

/// Why there are no such streams on this machine; empty where there are.
std::string stream_places_missing();

}  // namespace smelt::device::cuda
