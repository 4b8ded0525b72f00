// Convolution's shape rule and loops, shared by Conv, ConvInteger, QLinearConv and the fused forms.
#pragma once

#include <span>
#include <vector>

#include "ops/core/window.h"
#include "ops/cpu/parallel.h"

namespace smelt::ops {

/// x [n, c, in…] with w [m, c / group, kernel…] gives y [n, m, out…].
struct ConvProblem {
  int64_t n = 0, c = 0, m = 0, group = 1;
  Shape in, out;
  Window window;
};

/// Checks ranks, channels, group and kernel_shape; throws Error with the expected and the found.
ConvProblem conv_problem(const Node& node, const Shape& x, const Shape& w);

/// Calls f(n, m, plane) with each finished output plane of sums, accumulated in Acc (no bias): for several planes at a time.
template <class Acc, class In, class F> void convolve(const ConvProblem& p, const In* x, const In* w, F&& f) {
  const int64_t in_plane = elements(p.in), out_plane = elements(p.out), taps = elements(p.window.kernel);
  const int64_t group_c = p.c / p.group, group_m = p.m / p.group, stride = p.window.stride.back();
  const int threads = useful_threads(threads::team_threads(), p.n * p.m * group_c * taps * out_plane);
  std::vector<Acc> all(static_cast<size_t>(threads * out_plane));
  parallel(threads, p.n * p.m, 1, [&](int64_t begin, int64_t end, int thread) {
    const std::span<Acc> sums(all.data() + thread * out_plane, static_cast<size_t>(out_plane));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / p.m, m = i % p.m;
      std::ranges::fill(sums, Acc{});
      for (int64_t c = 0; c < group_c; ++c) {
        const In* plane = x + (n * p.c + (m / group_m) * group_c + c) * in_plane;
        const In* weight = w + (m * group_c + c) * taps;
        Shape tap(p.window.rank(), 0);
        do {
          const Acc factor = static_cast<Acc>(*weight++);
          for_runs(p.window, p.out, p.in, tap, [&](int64_t place, int64_t point, int64_t count) {
            Acc* to = sums.data() + place;
            const In* from = plane + point;
            if (stride == 1)
              for (int64_t k = 0; k < count; ++k) to[k] += factor * static_cast<Acc>(from[k]);
            else
              for (int64_t k = 0; k < count; ++k) to[k] += factor * static_cast<Acc>(from[k * stride]);
          });
        } while (advance(tap, p.window.kernel));
      }
      f(n, m, sums.data());
    }
  });
}

/// The same of integers: sums wrap, as kernels' do.
template <class F> void convolve_integers(const ConvProblem& p, const int32_t* x, const int32_t* w, F&& f) {
  convolve<uint32_t>(p, x, w,
                     [&](int64_t n, int64_t m, const uint32_t* sums) { f(n, m, reinterpret_cast<const int32_t*>(sums)); });
}

// Rules and references of the family's table that have files of their own.
void infer_deform(InferContext& c);
void run_deform(ComputeContext& c);
void infer_col2im(InferContext& c);
void run_col2im(ComputeContext& c);

}  // namespace smelt::ops
