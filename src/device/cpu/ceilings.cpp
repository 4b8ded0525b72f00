#include "device/cpu/ceilings.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <oneapi/dnnl/dnnl.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/threads.h"
#include "device/cpu/load.h"
#include "device/cpu/onednn_threads.h"
#include "smelt/tensor.h"

namespace smelt::device::cpu {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Times repetitions, and notices other work on the cores meanwhile.
class Repetitions {
 public:
  /// The shortest run in seconds, of as many as fit the budget, at least three.
  template <class F> double best_time(double budget, F&& run) {
    run();
    meter_.find_threads();
    double best = 1e30;
    int quiet = 0;
    const auto begin = Clock::now();
    const auto under_way = [&](int done) {
      const double spent = seconds_since(begin);
      return done < fewest || spent < budget || (quiet < fewest && spent < 2 * budget);
    };
    for (int i = 0; under_way(i); ++i) {
      gather_team(20);
      const Interruptions before = meter_.brief();
      const auto t = Clock::now();
      run();
      const double took = seconds_since(t);
      quiet += !disturbed(meter_.brief() - before, 1e6 * took, meter_.counts_waiting());
      best = std::min(best, took);
    }
    under_load_ |= quiet < fewest;
    return best;
  }
  /// Of all measurements so far, and of time that a hypervisor or a quota took from them.
  bool under_load() const {
    Interruptions taken = meter_.full() - before_;
    taken.waited_ns = taken.preempted = 0;
    return under_load_ || disturbed(taken, 1e6 * seconds_since(begin_));
  }

 private:
  static constexpr int fewest = 3;
  LoadMeter meter_;
  const Interruptions before_ = meter_.full();
  const Clock::time_point begin_ = Clock::now();
  bool under_load_ = false;
};

int64_t stream_bytes() {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const int64_t wanted = std::max<int64_t>(int64_t{256} << 20, 4 * static_cast<int64_t>(std::max(cache, 0L)));
  return std::min<int64_t>(wanted, int64_t{1} << 30);
}

float sum(const float* p, int64_t n) {
  float lanes[32] = {};
  for (int64_t i = 0; i + 32 <= n; i += 32)
    for (int k = 0; k < 32; ++k) lanes[k] += p[i + k];
  float total = 0;
  for (float v : lanes) total += v;
  return total;
}

// Chains of independent multiply-adds in registers: `chains` vectors, `steps` rounds. Enough chains to cover the unit's
// latency (4 to 5 cycles) on two ports; the sum is returned so that nothing is dropped.
constexpr int chains = 12;
constexpr int64_t steps = 400'000;

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float fma_f32_avx2() {
  __m256 a[chains];
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
  for (int c = 0; c < chains; ++c) a[c] = _mm256_set1_ps(static_cast<float>(c));
  for (int64_t s = 0; s < steps; ++s)
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) a[c] = _mm256_fmadd_ps(a[c], x, y);
  float out = 0;
  for (int c = 0; c < chains; ++c) out += _mm256_cvtss_f32(a[c]);
  return out;
}
__attribute__((target("avx2,fma"))) float fma_f64_avx2() {
  __m256d a[chains];
  const __m256d x = _mm256_set1_pd(0.999), y = _mm256_set1_pd(1e-3);
  for (int c = 0; c < chains; ++c) a[c] = _mm256_set1_pd(c);
  for (int64_t s = 0; s < steps; ++s)
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) a[c] = _mm256_fmadd_pd(a[c], x, y);
  double out = 0;
  for (int c = 0; c < chains; ++c) out += _mm256_cvtsd_f64(a[c]);
  return static_cast<float>(out);
}
__attribute__((target("avx512f"))) float fma_f32_avx512() {
  __m512 a[chains];
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
  for (int c = 0; c < chains; ++c) a[c] = _mm512_set1_ps(static_cast<float>(c));
  for (int64_t s = 0; s < steps; ++s)
#pragma GCC unroll 12
    for (int c = 0; c < chains; ++c) a[c] = _mm512_fmadd_ps(a[c], x, y);
  float out = 0;
  for (int c = 0; c < chains; ++c) out += _mm512_cvtss_f32(a[c]);
  return out;
}
#endif

float fma_f32_generic() {
  float a[4 * chains];
  for (int c = 0; c < 4 * chains; ++c) a[c] = static_cast<float>(c);
  for (int64_t s = 0; s < steps; ++s)
    for (int c = 0; c < 4 * chains; ++c) a[c] = a[c] * 0.999f + 1e-3f;
  float out = 0;
  for (float v : a) out += v;
  return out;
}

struct Loop {
  DType type;
  const char* how;
  float (*run)();
  int lanes;  // elements a vector
};

std::vector<Loop> loops() {
#if defined(__x86_64__)
  std::vector<Loop> out;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    out.push_back({DType::f32, "fma loop, avx2", fma_f32_avx2, 8});
    out.push_back({DType::f64, "fma loop, avx2", fma_f64_avx2, 4});
  }
  if (__builtin_cpu_supports("avx512f")) out.push_back({DType::f32, "fma loop, avx512", fma_f32_avx512, 16});
  if (!out.empty()) return out;
#endif
  return {{DType::f32, "multiply-add loop", fma_f32_generic, 4}};
}

// oneDNN's product of a type, [n, n] x [n, n]; zero where it has only its reference implementation.
Rate matmul_rate(DType type, dnnl::memory::data_type a, dnnl::memory::data_type b, dnnl::memory::data_type c, double budget,
                 Repetitions& repetitions) {
  using namespace dnnl;
  constexpr int64_t n = 1024;
  Rate rate{type, 0, ""};
  try {
    const engine cpu(engine::kind::cpu, 0);
    stream queue(cpu);
    const auto desc = [&](memory::data_type t, memory::format_tag f) { return memory::desc({n, n}, t, f); };
    const matmul::primitive_desc pd(cpu, desc(a, memory::format_tag::ab), desc(b, memory::format_tag::any),
                                    desc(c, memory::format_tag::ab));
    const std::string how = pd.impl_info_str();
    if (how.find("ref") != std::string::npos) return rate;
    memory x(pd.src_desc(), cpu), w(pd.weights_desc(), cpu), y(pd.dst_desc(), cpu);
    for (memory* m : {&x, &w}) std::memset(m->get_data_handle(), 0, m->get_desc().get_size());
    const matmul product(pd);
    const double t = repetitions.best_time(budget, [&] {
      product.execute(queue, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
      queue.wait();
    });
    rate.flops_per_s = 2.0 * n * n * n / t;
    rate.how = "oneDNN matmul " + how;
  } catch (const dnnl::error&) {
    // The CPU has no path for this type: not a ceiling.
  }
  return rate;
}

// f(0) … f(threads - 1), a thread each where all are free.
template <class F> void split(int threads, const F& f) {
  threads::run(
      threads, threads, [](void* data, int64_t i, int) { (*static_cast<const F*>(data))(static_cast<int>(i)); },
      const_cast<void*>(static_cast<const void*>(&f)));
}

template <class F> float sum_of(int threads, const F& f) {
  std::vector<float> parts(static_cast<size_t>(threads));
  split(threads, [&](int i) { parts[static_cast<size_t>(i)] = f(i); });
  return std::accumulate(parts.begin(), parts.end(), 0.0f);
}

// Regions in batches, so that reading the clock does not count; the median of the batches, as a launch is paid every time.
double region_us(int threads) {
  constexpr int batch = 100, batches = 31;
  std::vector<double> us;
  for (int b = 0; b < batches; ++b) {
    const auto t = Clock::now();
    for (int i = 0; i < batch; ++i) {
      split(threads, [](int) { __asm__ volatile("" ::: "memory"); });
    }
    us.push_back(seconds_since(t) * 1e6 / batch);
  }
  std::nth_element(us.begin(), us.begin() + batches / 2, us.end());
  return us[batches / 2];
}

void keep_best(std::vector<Rate>& rates, const Rate& r) {
  if (r.flops_per_s <= 0) return;
  const auto at = std::find_if(rates.begin(), rates.end(), [&](const Rate& x) { return x.type == r.type; });
  if (at == rates.end())
    rates.push_back(r);
  else if (r.flops_per_s > at->flops_per_s)
    *at = r;
}

}  // namespace

Ceilings measure_ceilings(int threads, double seconds, const std::function<void(const std::string&)>& progress) {
  const auto say = [&](const std::string& what) {
    if (progress) progress(what);
  };
  if (threads <= 0) threads = threads::usable_cores();
  const threads::Scope scope(threads);
  onednn_uses_team();
  Repetitions repetitions;
  Ceilings c;
  c.threads = threads;
  const double each = seconds / 8;

  say("memory bandwidth");
  {
    const int64_t bytes = stream_bytes(), n = bytes / 4;
    Tensor from = Tensor::empty(DType::f32, {n}), to = Tensor::empty(DType::f32, {n});
    float *p = from.data<float>(), *q = to.data<float>();
    // First touch by the thread that will use it.
    split(threads, [&](int t) {
      for (int64_t i = n * t / threads; i < n * (t + 1) / threads; ++i) p[i] = 1, q[i] = 0;
    });
    volatile float sink = 0;
    const double read = repetitions.best_time(each, [&] {
      sink = sum_of(threads, [&](int t) { return sum(p + n * t / threads, n * (t + 1) / threads - n * t / threads); });
    });
    const double copy = repetitions.best_time(each, [&] {
      split(threads, [&](int t) {
        const int64_t begin = n * t / threads, end = n * (t + 1) / threads;
        std::memcpy(q + begin, p + begin, static_cast<size_t>(end - begin) * 4);
      });
    });
    c.read_bytes_per_s = static_cast<double>(bytes) / read;
    c.copy_bytes_per_s = 2.0 * static_cast<double>(bytes) / copy;
  }

  say("starting a parallel region");
  c.launch_us = region_us(threads);

  for (const Loop& loop : loops()) {
    say(std::string(name(loop.type)) + " multiply-adds");
    volatile float sink = 0;
    const double t = repetitions.best_time(each, [&] { sink = sum_of(threads, [&](int) { return loop.run(); }); });
    keep_best(c.rates, {loop.type, 2.0 * loop.lanes * chains * static_cast<double>(steps) * threads / t, loop.how});
  }
  using T = dnnl::memory::data_type;
  say("matrix products");
  keep_best(c.rates, matmul_rate(DType::f32, T::f32, T::f32, T::f32, each, repetitions));
  keep_best(c.rates, matmul_rate(DType::bf16, T::bf16, T::bf16, T::f32, each, repetitions));
  keep_best(c.rates, matmul_rate(DType::f16, T::f16, T::f16, T::f32, each, repetitions));
  keep_best(c.rates, matmul_rate(DType::u8, T::u8, T::s8, T::s32, each, repetitions));
  keep_best(c.rates, matmul_rate(DType::i8, T::s8, T::s8, T::s32, each, repetitions));
  c.under_load = repetitions.under_load();
  return c;
}

Ceilings best_of(Ceilings a, const Ceilings& b) {
  a.read_bytes_per_s = std::max(a.read_bytes_per_s, b.read_bytes_per_s);
  a.copy_bytes_per_s = std::max(a.copy_bytes_per_s, b.copy_bytes_per_s);
  a.launch_us = std::min(a.launch_us, b.launch_us);
  for (const Rate& r : b.rates) keep_best(a.rates, r);
  a.under_load = a.under_load && b.under_load;
  return a;
}

}  // namespace smelt::device::cpu
