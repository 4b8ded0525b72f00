// A GPU that is made up: a kernel takes one time alone and another in a model, both with the noise of measurements, and in each session
// a little more or less.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tune/in_model.h"

namespace smelt::tune {

struct GpuNoise {
  double alone = 0.03;     // deviation of the logarithm of what a kernel takes alone
  double session_us = 0;   // of what it takes in a session's model
  double trial_us = 0.3;   // of a trial of the model
  double estimate = 0.15;  // of the logarithm of time over estimate
};

/// Problems with 2 to 18 candidates each, in the order of their estimates, of which the fastest take 2 to 10 us.
class MadeUpGpu {
 public:
  MadeUpGpu(size_t problems, GpuNoise noise, uint32_t seed) : noise_(noise) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    for (size_t p = 0; p < problems; ++p) {
      const double fastest = 1.5 + std::exp(0.8 * normal(random)), width = 0.2 + 0.8 * uniform(random);
      std::vector<Kernel>& of = kernels_.emplace_back(std::uniform_int_distribution<size_t>(2, 18)(random));
      for (Kernel& k : of) {
        k.alone_us = fastest * (1 + width * uniform(random));
        // Here the kernel before it hides what begins it, and caches hold other things.
        k.model_us = std::max(0.3, k.alone_us * std::exp(0.05 * normal(random)) + 0.1 * normal(random) - 0.5);
        k.estimate_us = k.alone_us * std::exp(noise.estimate * normal(random));
      }
      std::ranges::stable_sort(of, {}, &Kernel::estimate_us);
    }
  }

  struct Built {
    std::vector<size_t> chosen;  // by problem: the candidate
    double us = 0;               // of a run
  };
  /// A build with empty caches, in a session of its own, with so many trials of the model.
  Built build(uint32_t session, size_t trials) const {
    std::mt19937 random(session);
    std::normal_distribution<double> normal;
    std::vector<std::vector<size_t>> candidates;
    std::vector<std::vector<double>> us;
    std::vector<Finalists> problems;
    Built built;
    for (const std::vector<Kernel>& of : kernels_) {
      std::vector<Timing> timings;
      for (const Kernel& k : of) timings.push_back({.min = k.alone_us * std::exp(noise_.alone * normal(random)), .samples = 3});
      candidates.push_back(finalists(timings));
      const size_t alone = first_alone(timings);
      built.chosen.push_back(alone);
      if (candidates.back().empty()) candidates.back() = {alone};
      problems.push_back({candidates.back().size(), timings[alone].min});
      std::vector<double>& in_model = us.emplace_back();
      for (const size_t c : candidates.back()) in_model.push_back(of[c].model_us + noise_.session_us * normal(random));
    }
    const std::vector<size_t> worth = worth_trials(problems, trials);
    std::vector<Finalists> measured;
    for (const size_t p : worth) measured.push_back(problems[p]);
    size_t left = trials;
    const Final found = race_in_model(measured, [&](std::span<const Lineup> lineups) -> std::vector<double> {
      if (left < lineups.size()) return {};
      left -= lineups.size();
      const double clock = 1 + std::uniform_real_distribution<double>(-0.005, 0.005)(random);
      std::vector<double> times;
      for (const Lineup& l : lineups) {
        double sum = 0;
        for (size_t i = 0; i < worth.size(); ++i) sum += us[worth[i]][l[i]];
        times.push_back(sum * clock + noise_.trial_us * normal(random));
      }
      return times;
    });
    for (size_t i = 0; i < worth.size() && found.enough; ++i) built.chosen[worth[i]] = candidates[worth[i]][found.chosen[i]];
    for (size_t p = 0; p < kernels_.size(); ++p) built.us += kernels_[p][built.chosen[p]].model_us;
    return built;
  }
  /// Of a run with what is fastest in the model.
  double fastest_us() const {
    double sum = 0;
    for (const std::vector<Kernel>& of : kernels_) sum += std::ranges::min_element(of, {}, &Kernel::model_us)->model_us;
    return sum;
  }

 private:
  struct Kernel {
    double alone_us, model_us, estimate_us;
  };
  GpuNoise noise_;
  std::vector<std::vector<Kernel>> kernels_;
};

}  // namespace smelt::tune
