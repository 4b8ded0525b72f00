#include "endurance.h"
#include "profile/profile.h"
#include "support/child.h"

namespace smelt::run {
namespace {

TEST(Endurance, ten_thousand_runs_of_the_processor_from_eight_threads_over_four_plans_in_flat_memory) {
  Options o = quick();
  o.skip.clear();
  std::vector<FlatMemory> memory = {{"resident memory", [] { return profile::resident_bytes(); }, 16 << 20, 4 << 20}};
#ifdef SMELT_ADDRESS_SANITIZER
  memory.clear();  // it keeps what is freed for a while
#endif
  endure(o, memory);
}

}  // namespace
}  // namespace smelt::run
