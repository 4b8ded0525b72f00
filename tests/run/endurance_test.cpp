#include "endurance.h"
#include "profile/profile.h"

namespace smelt::run {
namespace {

TEST(Endurance, ten_thousand_runs_of_the_processor_from_eight_threads_over_four_plans_in_flat_memory) {
  Options o = quick();
  o.skip.clear();
  endure(o, {{"resident memory", [] { return profile::resident_bytes(); }, 16 << 20, 4 << 20}});
}

}  // namespace
}  // namespace smelt::run
