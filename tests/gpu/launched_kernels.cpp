// Names every kernel that test_gpu launches: adds them to the file SMELT_LAUNCHED where the environment names one.
// scripts/gpu_tests.sh compares them with tests/ops/cuda/kernels.txt.
#include <fstream>
#include <set>

#include "gpu/gpu_trial.h"

namespace smelt::ops {
namespace {

class WritesWhatWasLaunched : public ::testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const ::testing::TestInfo&) override {
    const char* file = std::getenv("SMELT_LAUNCHED");
    if (!file) return;
    std::string names;
    for (const std::string& name : test_gpu()->log->launched())
      if (written_.insert(name).second) names += name + "\n";
    std::ofstream(file, std::ios::app) << names << std::flush;
  }

 private:
  std::set<std::string> written_;
};

const bool writes_what_was_launched = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new WritesWhatWasLaunched);
  return true;
}();

}  // namespace
}  // namespace smelt::ops
