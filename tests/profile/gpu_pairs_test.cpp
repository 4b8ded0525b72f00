// The slow-down expected of pairs of models against what an H100 measured: each kernel alone and both together, as recorded.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "profile/gpu_contention.h"
#include "support/paths.h"

namespace smelt::profile {
namespace {

struct Pair {
  std::string name;
  std::vector<GpuAlone> models;
  std::vector<double> measured;  // slow-downs
};

/// "pair NAME COUNT", and for each model "BESIDE_US MEASURED PIECES" and its pieces: before_us us waves share compute memory l2.
std::vector<Pair> recorded() {
  std::istringstream text(read_text(source_dir() / "tests/profile/gpu_pairs.txt"));
  std::vector<Pair> pairs;
  for (std::string word; text >> word;) {
    if (word != "pair") {
      text.ignore(1 << 20, '\n');  // a line of words
      continue;
    }
    Pair& p = pairs.emplace_back();
    size_t models = 0;
    text >> p.name >> models;
    for (size_t m = 0; m < models; ++m) {
      size_t pieces = 0;
      text >> p.models.emplace_back().beside_us >> p.measured.emplace_back() >> pieces;
      for (size_t i = 0; i < pieces; ++i) {
        GpuWork& w = p.models.back().work.emplace_back();
        text >> w.before_us >> w.us >> w.waves >> w.share >> w.compute >> w.memory >> w.l2;
      }
    }
  }
  return pairs;
}

TEST(GpuPairs, slow_downs_are_expected_within_a_fifth) {
  const std::vector<Pair> pairs = recorded();
  ASSERT_GE(pairs.size(), 4u);
  for (const Pair& p : pairs) {
    const std::vector<double> expected = predicted_gpu_slow_downs(p.models, 0);
    for (size_t m = 0; m < p.models.size(); ++m) {
      fmt::print("{:32} {} measured {:.2f}, expected {:.2f}\n", p.name, m, p.measured[m], expected[m]);
      EXPECT_NEAR(expected[m] / p.measured[m], 1, 0.2) << p.name << ", model " << m;
    }
  }
}

}  // namespace
}  // namespace smelt::profile
