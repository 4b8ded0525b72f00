// What to do about a plan's time, and what each may save: why it is slow, and what next.
#pragma once

#include <string_view>
#include <vector>

#include "profile/profile.h"
#include "profile/timings.h"

namespace smelt::profile {

struct Surroundings {
  bool on_gpu = false;
  int threads = 1;  // that the plan uses
  int cores = 1;    // that it may use
  int tuning_level = 0;
};

/// From a profile's steps, their limiters, and what other work took: the most to win first. What two of them win may be the same
/// time. Without a roof only what needs none is said.
std::vector<Advice> advise(const Profile& p, const Surroundings& where);
/// Of a profile that another tool wrote, by what its operators are; of smelt's own, what the file says.
std::vector<Advice> advise(const Timings& t);
/// What it says to do.
inline constexpr std::string_view keep_on_gpu = "keep inputs and outputs on the GPU";
/// Adds, to what a profile with the copies of its runs says, that inputs and outputs may stay on the GPU.
void advise_on_copies(Profile& p);
/// Sorts by what is to win, with what a roof bounds behind what is promised; leaves out what is less than half a percent of a run.
void rank(std::vector<Advice>& advice, double run_us);

}  // namespace smelt::profile
