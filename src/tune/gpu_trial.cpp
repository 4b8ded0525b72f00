#include "tune/gpu_trial.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "base/error.h"
#include "device/cuda/graph.h"
#include "ops/cuda/gpu.h"
#include "tune/trial.h"

namespace smelt::tune {
namespace {

namespace cuda = device::cuda;

constexpr int64_t period_bytes = 1 << 20;  // of random data, repeated: kernels do not look for repetition

using Kernels = std::vector<std::unique_ptr<ops::Kernel>>;

/// The problem's tensors on the device; null for inputs that none of the kernels reads.
class Problem {
 public:
  Problem(const ops::BoundNode& node, const Kernels& kernels, const std::shared_ptr<cuda::Device>& device,
          const cuda::Stream& stream)
      : device_(device), stream_(stream) {
    std::mt19937 random(1);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ops::BoundTensor& t = node.inputs[i];
      if (t.type == DType::undefined || std::ranges::none_of(kernels, [i](const auto& k) { return k->reads(i); })) {
        in.push_back(nullptr);
      } else if (t.constant.valid()) {
        void* to = place(t.constant.nbytes());
        upload(to, t.constant);
        in.push_back(to);
      } else {
        in.push_back(random_input(t, random));
        computed_.emplace_back(in.back(), ops::storage_bytes(t));
      }
    }
    for (const ops::BoundTensor& t : node.outputs)
      out.push_back(t.type == DType::undefined ? nullptr : place(ops::storage_bytes(t)));
    stream_.synchronize();
  }

  /// Inputs that are no constants, of at most so many bytes each: a model's other kernels leave them in the L2 cache.
  std::vector<std::pair<const void*, int64_t>> computed(int64_t most) const {
    std::vector<std::pair<const void*, int64_t>> all;
    for (const auto& [address, bytes] : computed_)
      if (bytes > 0 && bytes <= most) all.emplace_back(address, bytes);
    return all;
  }

  void* place(int64_t bytes) {
    memory_.push_back(device_->allocate(bytes, "timing kernels"));
    return reinterpret_cast<void*>(memory_.back()->address());
  }

  std::vector<const void*> in;
  std::vector<void*> out;

 private:
  void upload(void* to, const Tensor& t) {
    if (t.nbytes() == 0) return;
    cuda::check(cuda::driver().copy_to_device(reinterpret_cast<cuda::abi::Address>(to), t.raw(), static_cast<size_t>(t.nbytes()),
                                              stream_.get()),
                "copying a constant");
  }

  /// A period of random data, doubled until it fills the tensor.
  void* random_input(const ops::BoundTensor& t, std::mt19937& random) {
    const int64_t bytes = ops::storage_bytes(t);
    void* to = place(bytes);
    Tensor period = Tensor::zeros(DType::u8, {std::min(bytes, period_bytes)});
    fill_random(period, t.type, random);
    upload(to, period);
    const auto at = reinterpret_cast<cuda::abi::Address>(to);
    for (int64_t done = period.nbytes(); done < bytes && done > 0;) {
      const int64_t more = std::min(done, bytes - done);
      cuda::check(cuda::driver().copy_on_device(at + static_cast<uint64_t>(done), at, static_cast<size_t>(more), stream_.get()),
                  "filling a tensor");
      done += more;
    }
    stream_.synchronize();  // before `period` is freed
    return to;
  }

  std::shared_ptr<cuda::Device> device_;
  const cuda::Stream& stream_;
  std::vector<std::shared_ptr<cuda::Memory>> memory_;
  std::vector<std::pair<const void*, int64_t>> computed_;
};

}  // namespace

bool would_fail_again(const Error& e) {
  if (dynamic_cast<const cuda::CompilerMissing*>(&e) || !cuda::lost().empty()) throw;
  return !dynamic_cast<const cuda::OutOfMemory*>(&e);
}

Measured measure_on_gpu(const ops::BoundNode& node, const ops::Offer& offer, std::span<const size_t> which,
                        const ops::Machine& machine, const MeasureOptions& options, Stopwatch watch,
                        std::function<void()> while_busy) {
  const auto& device = machine.gpu->device;
  if (!device) fail("kernels for another machine's GPU cannot be timed here");
  const cuda::Device::Current current(*device);
  const cuda::Stream stream(device);
  Kernels kernels;
  const auto tried = [&](size_t candidate, const auto& work) {
    try {
      work();
    } catch (const Error& e) {
      const bool again = would_fail_again(e);
      stream.synchronize();  // a lost device fails here, so that no candidate is blamed for it
      throw Unfit(e, candidate, again);
    }
  };
  for (size_t i : which) tried(i, [&] { kernels.push_back(offer.candidates[i].prepare()); });
  Problem problem(node, kernels, device, stream);
  std::vector<void*> workspaces;
  for (const auto& k : kernels) workspaces.push_back(problem.place(std::max<int64_t>(k->workspace(), 1)));
  const int64_t l2_bytes = std::max<int64_t>(device->info().l2_bytes, 1 << 20), flush_bytes = 2 * l2_bytes;
  const auto flush = device->allocate(flush_bytes, "emptying the L2 cache");
  const std::vector<std::pair<const void*, int64_t>> warm = problem.computed(l2_bytes / 2);
  // A sample is a CUDA graph, as plans are: so many times the cache is emptied, what other kernels would have computed is read, and
  // the kernel runs. What the same takes without the kernel is taken off.
  constexpr int rounds = 4;
  const auto recorded = [&](const auto& work) {
    return std::make_unique<cuda::CapturedGraph>(device, [&](cuda::abi::Stream on) {
      for (int i = 0; i < rounds; ++i) {
        cuda::check(cuda::driver().fill_bytes(flush->address(), 0, static_cast<size_t>(flush_bytes), on),
                    "emptying the L2 cache");
        for (const auto& [from, bytes] : warm)
          cuda::check(cuda::driver().copy_on_device(flush->address(), reinterpret_cast<cuda::abi::Address>(from),
                                                    static_cast<size_t>(bytes), on),
                      "reading an input");
        work(on);
      }
    });
  };
  const cuda::Event begin(device), end(device);
  bool loaded = false;  // every kernel ran once
  const auto time_of = [&](const cuda::CapturedGraph& graph) {
    begin.record(stream.get());
    graph.launch(stream.get());
    end.record(stream.get());
    if (loaded && while_busy) std::exchange(while_busy, nullptr)();
    end.synchronize();
    return end.since(begin);
  };
  std::vector<std::unique_ptr<cuda::CapturedGraph>> graphs;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const auto run = [&](cuda::abi::Stream on) { kernels[k]->run({problem.in, problem.out, workspaces[k], on}); };
    tried(which[k], [&] {
      run(stream.get());  // loads the kernel
      stream.synchronize();
      graphs.push_back(recorded(run));
      time_of(*graphs.back());
    });
  }
  const auto without = recorded([](cuda::abi::Stream) {});
  double nothing = INFINITY;
  for (int i = 0; i < 7; ++i) nothing = std::min(nothing, time_of(*without));
  const auto sample = [&](size_t k) { return std::max(0.01, (time_of(*graphs[k]) - nothing) / rounds); };
  loaded = true;
  watch.gather = nullptr;  // the host's other threads have no part in it
  const TimeRuns time = [&](size_t k, int times) {
    double sum = 0;
    for (int i = 0; i < times; ++i) sum += sample(k);
    return sum / times;
  };
  return measure(kernels.size(), time, options, watch);
}

}  // namespace smelt::tune
