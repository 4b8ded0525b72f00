#include "device/cuda/upload.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <vector>

#include "base/by_threads.h"

namespace smelt::device::cuda {
namespace {

constexpr int64_t piece_bytes = int64_t{4} << 20;
constexpr int64_t bytes_a_thread = int64_t{32} << 20;  // to be worth its pinned memory, which takes 0.3 ms a MiB to get
constexpr int most_threads = 8;

void enqueue(const Upload& u, const Stream& stream) {
  const Device::Current current(stream.device());
  check(driver().copy_to_device(u.to, u.from, static_cast<size_t>(u.bytes), stream.get()), "uploading");
}

/// One thread's two pieces of pinned memory: one is filled while the device reads the other.
class Stager {
 public:
  explicit Stager(const std::shared_ptr<Device>& device)
      : stream_(device),
        pieces_{Piece{PinnedMemory(device, piece_bytes), Event(device, false)},
                Piece{PinnedMemory(device, piece_bytes), Event(device, false)}} {}

  ~Stager() {  // what was thrown on the way may leave copies under way
    const Device::Current current(stream_.device());
    driver().stream_synchronize(stream_.get());
  }
  Stager(const Stager&) = delete;

  void copy(const Upload& u) {
    Piece& piece = pieces_[turn_++ % 2];
    piece.read.synchronize();  // at once where nothing was recorded
    std::memcpy(piece.memory.data(), u.from, static_cast<size_t>(u.bytes));
    enqueue({u.to, piece.memory.data(), u.bytes}, stream_);
    piece.read.record(stream_.get());
  }
  void finish() { stream_.synchronize(); }

 private:
  struct Piece {
    PinnedMemory memory;
    Event read;
  };
  Stream stream_;
  std::array<Piece, 2> pieces_;
  size_t turn_ = 0;
};

}  // namespace

void upload(const std::shared_ptr<Device>& device, std::span<const Upload> uploads, int threads) {
  std::vector<Upload> pieces;
  int64_t all = 0;
  for (const Upload& u : uploads) {
    all += u.bytes;
    for (int64_t at = 0; at < u.bytes; at += piece_bytes)
      pieces.push_back({u.to + static_cast<abi::Address>(at), static_cast<const std::byte*>(u.from) + at,
                        std::min(piece_bytes, u.bytes - at)});
  }
  threads = static_cast<int>(std::min<int64_t>({threads, most_threads, all / bytes_a_thread}));
  if (threads < 2) {
    const Stream stream(device);  // not the default one, on which another thread's capture would fail
    for (const Upload& u : pieces) enqueue(u, stream);
    return stream.synchronize();
  }

  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> failed(static_cast<size_t>(threads));
  by_threads(threads, failed.size(), [&](size_t thread) {
    try {
      Stager stager(device);
      for (size_t i = next++; i < pieces.size(); i = next++) stager.copy(pieces[i]);
      stager.finish();
    } catch (...) {
      failed[thread] = std::current_exception();
    }
  });
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
}

}  // namespace smelt::device::cuda
