// What the benchmarks of GPU kernels have in common: buffers that are cold, and the line that is printed.
#pragma once

#include <fmt/core.h>

#include <array>
#include <random>
#include <span>
#include <string>

#include "base/error.h"
#include "base/quantile.h"
#include "device/cuda/graph.h"
#include "ops/cuda/gpu.h"

namespace smelt::bench {

namespace cuda = smelt::device::cuda;

/// Whether products of f32 may round to tf32; set before the first gpu().
inline bool& rounds_to_tf32() {
  static bool rounds = false;
  return rounds;
}

inline std::shared_ptr<const ops::Gpu> gpu() {
  static const std::shared_ptr<const ops::Gpu> made = [] {
    auto opened = std::make_shared<ops::Gpu>(*ops::open_gpu(0));
    opened->tf32 = rounds_to_tf32();
    return opened;
  }();
  return made;
}

/// Random numbers of a type, in [-2, 2) or of so many bits.
inline Tensor random_values(DType type, int64_t elements) {
  Tensor values = Tensor::empty(type, {elements});
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<float> period(8191);
  for (float& x : period) x = uniform(random);
  const Tensor eight = type == DType::f8e4m3fn ? Tensor::of({8191}, period).cast(type) : Tensor();
  for (int64_t i = 0; i < elements; ++i) {
    const float x = period[static_cast<size_t>(i) % period.size()];
    if (eight.valid())
      static_cast<uint8_t*>(values.raw())[i] = static_cast<const uint8_t*>(eight.raw())[static_cast<size_t>(i) % period.size()];
    else if (type == DType::f32)
      values.data<float>()[i] = x;
    else if (type == DType::f16)
      values.data<Half>()[i] = Half(x);
    else if (type == DType::bf16)
      values.data<BFloat>()[i] = BFloat(x);
    else if (type == DType::i8)
      values.data<int8_t>()[i] = static_cast<int8_t>(x * 63);
    else if (type == DType::i32)
      values.data<int32_t>()[i] = static_cast<int32_t>(x * 63);
    else
      fail("bench_gpu has no random {}", name(type));
  }
  return values;
}

/// Copies of the same tensor, enough that together they do not fit into three L2 caches; random numbers of its type.
class Rotating {
 public:
  Rotating(DType type, int64_t elements, int64_t bytes_of_a_call) {
    const int64_t wanted = 3 * gpu()->info.l2_bytes;
    allocate(type, elements, std::clamp<int64_t>(wanted / std::max<int64_t>(1, bytes_of_a_call) + 1, 2, 4096));
  }
  /// So many copies.
  static Rotating of(DType type, int64_t elements, size_t copies) {
    Rotating r;
    r.allocate(type, elements, static_cast<int64_t>(copies));
    return r;
  }
  /// All copies become `values`.
  void fill(const Tensor& values) {
    const cuda::Device::Current current(*gpu()->device);
    for (const auto& m : memory_) {
      cuda::check(cuda::driver().copy_to_device(m->address(), values.raw(), static_cast<size_t>(values.nbytes()), nullptr),
                  "copying");
      cuda::check(cuda::driver().stream_synchronize(nullptr), "copying");
    }
  }
  void* at(int call) const { return reinterpret_cast<void*>(memory_[static_cast<size_t>(call) % memory_.size()]->address()); }

 private:
  Rotating() = default;
  void allocate(DType type, int64_t elements, int64_t copies) {
    const Tensor values = random_values(type, elements);
    for (int64_t c = 0; c < copies; ++c) memory_.push_back(gpu()->device->allocate(bytes(type, elements), "a benchmark"));
    fill(values);
  }

  std::vector<std::shared_ptr<cuda::Memory>> memory_;
};

inline void report(std::string_view problem, std::string_view tactic, std::vector<double> us, int64_t moved) {
  std::ranges::sort(us);
  fmt::print("{{\"problem\": \"{}\", \"tactic\": \"{}\", \"us\": {:.3f}, \"q1_us\": {:.3f}, \"q3_us\": {:.3f}, \"bytes\": {}}}\n",
             problem, tactic, quantile(us, 0.5), quantile(us, 0.25), quantile(us, 0.75), moved);
  std::fflush(stdout);
}

inline cuda::GraphTiming timing(int64_t bytes) { return {.calls = bytes > (64 << 20) ? 20 : 60, .replays = 30}; }

/// Matrix products of KERNELS.md's shapes with these epilogues (product.h's: "relu", "bf16:gelu"), shapes `first` … `last` of them: the
/// best of smelt's kernels and of cuBLASLt's algorithms, as a table (gemm.cpp).
void gemm(std::span<const std::string> epilogues, size_t first, size_t last, bool cuda_too);
/// Those shapes; behind them 88 others that models have.
std::vector<std::array<int64_t, 3>> gemm_shapes(size_t first, size_t last);
/// Configurations of the tactic hopper for these problems, up to 160 in the order of their guesses: those whose name has a match of
/// `wanted`; where it is empty all but those guessed to take 1.8 times as long as the best. Each one's time behind its guess as a line of `file` (m,n,k,epilogue,config,us,guessed), and a line a problem of the best, of cuBLASLt's
/// and of where the guess had it; then of how many problems the first 8 that are offered hold the best.
void gemm_every(const std::string& file, const std::vector<std::array<int64_t, 3>>& problems, const std::string& epilogue,
                const std::string& wanted = "");
/// Every configuration of smelt's for one shape that is not guessed to take twice as long as the best.
void gemm_candidates(int64_t m, int64_t n, int64_t k, const std::string& epilogue, DType type);
/// Tiles of the tactic cuda (mma.sync) whose names have a match of `wanted`, beside mma.sync on registers alone and cuBLASLt.
void gemm_tiles(const std::string& epilogue, const std::string& wanted, const std::vector<std::array<int64_t, 3>>& problems);
/// Products of 8-bit integers (gemm_int8.cpp): the best of each tactic.
void gemm_int8(const std::vector<std::array<int64_t, 3>>& problems);
/// gemm_int8_computed.cpp.
void gemm_int8_computed();
/// Chains of m rows, k columns to n, n to k and so on: in a CUDA graph as it is, and with early launch (gemm_chain.cpp).
void gemm_chain(const std::vector<std::array<int64_t, 3>>& problems, const std::string& epilogue);

/// Problems of data.cpp, every candidate of each.
void group_norm();
void reduce();
void softmax();
void movement();
/// detect.cpp: every candidate, the first two beside a plain kernel that must agree.
void nms(size_t first, size_t last);  // of its problems
void roi_align();
void select();
/// What tensor maps bring of keys that lie in different ways.
void boxes();
/// Every candidate for Attention and RotaryEmbedding over the models' problems whose name contains `filter` (attention.cpp), or those
/// whose "tactic config" has a match of `wanted`; all of them twice in turn.
void attention(std::string_view filter, const std::string& wanted = "");

/// Convolutions of `n` images: "resnet50", "depthwise", "concatenated" (KERNELS.md's) or "concatenated_in_models"; of each tactic the `candidates` that rank first; in f16, or
/// i8. Every candidate becomes a line of `csv` too, where one is named: type, problem, tactic, config, us, guessed (conv.cpp). With
/// `cute` the tactic of that name too, and what compiling a kernel of each takes.
void conv(std::string_view what, int64_t n, size_t candidates, DType type, const std::string& csv = {},
          const std::string& wanted = {}, bool cute = false);

}  // namespace smelt::bench
