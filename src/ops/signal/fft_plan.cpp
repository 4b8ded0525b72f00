#include "ops/signal/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "expr/simd/isa.h"

namespace smelt::ops {
namespace {

/// e^(-2 pi i turn / n).
template <class T> void append_root(std::vector<T>& to, int64_t turn, int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(turn % n) / static_cast<double>(n);
  to.push_back(static_cast<T>(std::cos(angle)));
  to.push_back(static_cast<T>(std::sin(angle)));
}

/// The least length from `least` on of small factors only.
int64_t smooth_length(int64_t least) {
  for (int64_t n = least;; ++n) {
    int64_t rest = n;
    for (int64_t factor : {2, 3, 5})
      while (rest % factor == 0) rest /= factor;
    if (rest == 1) return n;
  }
}

/// The transform of n complex values, in double.
std::vector<double> transformed(const std::vector<double>& x) {
  const FftPlan<double> plan(static_cast<int64_t>(x.size()) / 2);
  LineTransform<double> t{.fft = plan.table(), .length = plan.table().n, .read = plan.table().n, .written = plan.table().n};
  t.parts_in = t.step_in = 2;
  t.registers = 2 * plan.values();
  std::vector<double> buffers(static_cast<size_t>(2 * t.registers * fourier_simd().doubles)), y(x.size());
  const void* from = x.data();
  void* to = y.data();
  fourier_simd().transform_doubles(t, &from, &to, 1, buffers.data());
  return y;
}

}  // namespace

const FourierSimd& fourier_simd() { return simd::best() == simd::Isa::avx2 ? avx2::fourier_simd() : base::fourier_simd(); }

std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t radix : {4, 2, 3, 5})
    for (; n % radix == 0; n /= radix) out.push_back(radix);
  for (int64_t radix = 7; radix <= largest_radix; radix += 2)
    for (; n % radix == 0; n /= radix) out.push_back(radix);
  if (n != 1) out.clear();
  return out;
}

template <class T> std::vector<T> roots_of_unity(int64_t n, int64_t count) {
  std::vector<T> out;
  for (int64_t k = 0; k < count; ++k) append_root(out, k, n);
  return out;
}

template <class T> FftPlan<T>::FftPlan(int64_t n) {
  table_.n = n;
  const std::vector<int64_t> radices = radices_of(n);
  if (n > 1 && radices.empty()) make_convolution();
  int64_t run = 1;
  for (int64_t radix : radices) {
    add_pass(radix, run);
    run *= radix;
  }
  table_.passes = passes_.data();
  table_.count = static_cast<int64_t>(passes_.size());
}

template <class T> void FftPlan<T>::add_pass(int64_t radix, int64_t run) {
  const int64_t rest = table_.n / run, groups = rest / radix;
  FftPass<T> pass{radix, groups, run, nullptr, nullptr};
  if (groups > 1) {
    std::vector<T>& twiddles = factors_.emplace_back();
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t k = 1; k < radix; ++k) append_root(twiddles, g * k, rest);
    pass.twiddles = twiddles.data();
  }
  if (radix > 5) pass.roots = factors_.emplace_back(roots_of_unity<T>(radix, radix)).data();
  passes_.push_back(pass);
}

/// Bluestein's: j k = (j² + k² - (k - j)²) / 2, so that the transform is a convolution with the chirp e^(i pi j²/ n).
template <class T> void FftPlan<T>::make_convolution() {
  const int64_t n = table_.n, m = smooth_length(2 * n - 1);
  convolution_ = std::make_unique<FftPlan>(m);
  std::vector<double> kernel(static_cast<size_t>(2 * m));
  std::vector<T>& chirp = factors_.emplace_back();
  std::vector<double> root;
  for (int64_t k = 0; k < n; ++k) {
    root.clear();
    append_root(root, k * k, 2 * n);
    chirp.insert(chirp.end(), {static_cast<T>(root[0]), static_cast<T>(root[1])});
    for (int64_t at : {k, (m - k) % m}) {
      kernel[static_cast<size_t>(2 * at)] = root[0] / static_cast<double>(m);
      kernel[static_cast<size_t>(2 * at + 1)] = -root[1] / static_cast<double>(m);
    }
  }
  const std::vector<double> spectrum = transformed(kernel);
  table_.convolution = &convolution_->table_;
  table_.chirp = chirp.data();
  table_.spectrum = factors_.emplace_back(spectrum.begin(), spectrum.end()).data();
}

template <class T> int64_t FftPlan<T>::work() const {
  if (convolution_) return 2 * convolution_->work() + 4 * convolution_->table_.n;
  int64_t sum = table_.n;
  for (const FftPass<T>& p : passes_) sum += table_.n * (p.radix > 5 ? p.radix : 3);
  return sum;
}

template class FftPlan<float>;
template class FftPlan<double>;
template std::vector<float> roots_of_unity<float>(int64_t n, int64_t count);
template std::vector<double> roots_of_unity<double>(int64_t n, int64_t count);

}  // namespace smelt::ops
