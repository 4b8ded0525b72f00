// Where a plan's kernels run and its tensors lie: the processor, or a GPU. An Execution asks nothing else of it.
//
// `stream` orders work: what is put on one happens in turn, and the host goes on meanwhile. On the processor there are no streams
// (null): a call returns when its work is done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "smelt/session.h"

namespace smelt::plan {
struct ConcatCopy;
}

namespace smelt::run {

/// Work that was put on a stream once, to be launched again and again as one: a CUDA graph.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void launch(void* stream) = 0;
  /// Kernels that may begin before the one before them has ended.
  virtual size_t early() const { return 0; }
};

/// Points in time on a stream.
class Timestamps {
 public:
  virtual ~Timestamps() = default;
  virtual void record(void* stream) = 0;
  /// Nanoseconds from the first to each; waits for them.
  virtual std::vector<int64_t> times() = 0;
};

/// Orders the work of two streams: what is put on one after wait() starts once all that the other had been given at record() is
/// done. A CUDA event.
class StreamEvent {
 public:
  virtual ~StreamEvent() = default;
  virtual void record(void* stream) = 0;
  virtual void wait(void* stream) = 0;
};

/// What the device does from when this is made until stop(), by the device's own clock.
class Trace {
 public:
  struct Work {
    int64_t begin_ns = 0, end_ns = 0;
  };
  struct Result {
    std::vector<Work> work;        // what recordings did
    std::vector<CopyTime> copies;  // that the backend was asked for outside of them
  };
  virtual ~Trace() = default;
  /// The copies asked for from here on get this name.
  virtual void name_copies(std::string_view name) = 0;
  /// Waits, then gives all in the order in which it began, its times from the first of whatever was done. Throws Error where
  /// something is missing from the device's records.
  virtual Result stop() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// True where tensors lie in the host's memory, steps run one after the other in the calling thread, and nothing is recorded.
  virtual bool is_host() const = 0;
  /// Throws Error where an error of the device has lost all of this process's work on it, and every call to it would fail.
  virtual void refuse_if_lost() const {}
  /// Of the blocks in an arena, in bytes; a constant's memory is aligned as much.
  virtual int64_t block_alignment() const = 0;
  /// What kernels were promised of memory that a caller gives, in bytes; 1 where its elements' own alignment is enough.
  virtual int64_t caller_alignment() const = 0;

  /// Memory that its kernels use. Throws Error naming `what` where there is not enough.
  virtual Tensor allocate(DType type, const Shape& shape, std::string_view what) = 0;
  /// The same for memory that the stream is the first to use. It may still be used there when the last reference goes, and on
  /// streams that share() was told of: it serves nothing else before.
  virtual Tensor allocate_on(DType type, const Shape& shape, std::string_view what, void* stream) {
    (void)stream;
    return allocate(type, shape, what);
  }
  /// The stream is about to use that memory: where it is allocate_on's, after what other streams did with it.
  virtual void share(void* stream, const void* address) { (void)stream, (void)address; }
  /// Host memory that copies to and from it are fast with.
  virtual Tensor allocate_host(DType type, const Shape& shape) = 0;
  /// Whether memory at this address is the host's, and copies from it to where kernels are go through memory like allocate_host's.
  virtual bool copies_are_slow_from(const void* address) const { return (void)address, false; }
  /// Whether its kernels can use memory at this address. True for null, the address of tensors without elements.
  virtual bool reaches(const void* address) const = 0;
  /// Copies constants to where its kernels can read them, with so many threads: each once, shared by all Executions of the plan.
  virtual void upload(std::span<const Tensor> constants, int threads) { (void)constants, (void)threads; }
  /// A constant's bytes there; uploads it where that was not done.
  virtual const void* constant(const Tensor& t) = 0;
  /// Gives the copies' memory back; no Execution of the plan may be there.
  virtual void forget_constants() {}
  /// What was copied, in bytes.
  virtual int64_t constant_bytes() const = 0;

  /// A stream of an Execution's own.
  virtual std::shared_ptr<void> stream() = 0;
  /// From any memory to any; they do not overlap.
  virtual void copy(void* to, const void* from, int64_t bytes, void* stream) = 0;
  /// The parts of a concatenation into its rows; all lie in memory that it reaches.
  virtual void concatenate(void* to, const plan::ConcatCopy& concat, std::span<const void* const> inputs, void* stream) = 0;
  /// Bytes of bools other than 0 and 1 become 1, in memory that it reaches. On the host others see to that before they copy.
  virtual void make_booleans_0_or_1(void* at, int64_t count, void* stream) { (void)at, (void)count, (void)stream; }
  /// Loads what that takes, which must not happen while a caller captures.
  virtual void load_booleans() {}
  virtual void wait(void* stream) = 0;
  /// Null on the host.
  virtual std::unique_ptr<StreamEvent> event() { return nullptr; }
  /// Whether the caller records what is put on the stream, so that nothing may be allocated or waited for meanwhile.
  virtual bool is_capturing(void* stream) const {
    (void)stream;
    return false;
  }
  /// For all that any stream was given, the callers' own ones included.
  virtual void wait_for_all() = 0;

  /// Records what `enqueue` puts on the stream that it is given; nothing runs. Null on the host. `early`: kernels that can may begin
  /// before the one before them has ended, where the device has such launches.
  virtual std::unique_ptr<Recording> record(const std::function<void(void* stream)>& enqueue, bool early) = 0;
  /// Whether it has.
  virtual bool begins_early() const { return false; }
  /// How many pieces of work (kernels, copies, fills) the `enqueue` that is being recorded has put on its stream so far.
  virtual size_t recorded_so_far(void* stream) const = 0;
  virtual std::unique_ptr<Timestamps> timestamps() = 0;
  /// Null where work cannot be seen one by one: on the host, without CUPTI, beside another profiler.
  virtual std::unique_ptr<Trace> trace() = 0;
};

std::shared_ptr<Backend> host_backend();

}  // namespace smelt::run
