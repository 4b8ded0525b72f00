// A race in stages: which of a problem's candidates to make and to measure next, where making one takes longer than measuring it.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "ops/core/tactic.h"
#include "tune/timing.h"

namespace smelt::tune {

/// How many candidates a race in stages measures: of so few all of them at once, of more the first of each tactic, and then so many
/// others, some a stage. A library's order is no cost model, so that few of its others say what there is.
constexpr size_t stage_of_few = 8, first_of_tactic = 2, first_of_library = 1;
constexpr size_t others_a_stage = 6, most_others = 12, others_of_library = 2;
/// An other candidate is measured where its estimate, times the ratio of time to estimate that its tile showed, or the least one of its
/// tactic, is at most so many times the fastest.
constexpr double may_win = 1.25;

/// Whether the tactic's kernels are NVIDIA's libraries'.
bool is_of_library(std::string_view tactic);

/// The candidates, as indices in the offer, that the next stage measures: none where the timings decide. `worth`: those that may be
/// measured, by their estimates. `known`: what is known of them; of others it says nothing.
std::vector<size_t> next_stage(const ops::Offer& offer, std::span<const size_t> worth, std::span<const Timing> known);

/// Of those that are known the ones that later stages measure again beside theirs, three at most: what takes as long as the fastest.
std::vector<size_t> contenders(const ops::Offer& offer, std::span<const size_t> worth, std::span<const Timing> known);

/// The candidate's timing; null where it has none.
const Timing* timing_of(std::span<const Timing> timings, const ops::Candidate& c);

}  // namespace smelt::tune
